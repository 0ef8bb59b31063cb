"""The paper's network for texts: one convolution over the words' vectors, the maximum over its places, then the MLP.

What is beyond a text's end is zero in everything, the windows around it included: without a bias such a window's
answer is 0, which the ReLU makes the least there is. So padding changes neither the maximum nor what OWM learns of the
convolution's inputs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.networks.base import Network
from engram.networks.mlp import mlp_extractor
from engram.settings import NetworkSettings
from engram.text.encoder import TextEncoder

USUAL_FILTERS = 200


class WindowConvolution(nn.Conv1d):
    """A convolution of width 1 over windows that are cut out already: a single product of matrices."""

    def __init__(self, inputs: int, filters: int) -> None:
        super().__init__(inputs, filters, 1, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input.transpose(1, 2), self.weight[:, :, 0]).transpose(1, 2)


class TextConvolution(nn.Module):
    """Numbers of words → vectors, frozen → windows around each word → filters → maximum over the text → ReLU."""

    def __init__(self, texts: TextEncoder, filters: int) -> None:
        super().__init__()
        self.texts = texts
        self.conv = WindowConvolution(texts.settings.window * texts.vectors.shape[1], filters)

    def forward(self, numbers: Tensor) -> Tensor:
        return self.conv(windows_of(numbers, self.texts).transpose(1, 2)).amax(2).relu()


class TextNetwork(Network):
    """It takes rows of numbers of words, which are not to be scaled."""

    def __init__(self, texts: TextEncoder, extractor: nn.Module, features: int, classes: int) -> None:
        super().__init__(extractor, features, classes)
        self.texts = texts

    def standardise(self, x: Tensor) -> None:
        """The vectors are standardised already."""

    def prepare(self, x: Tensor) -> Tensor:
        return x.long()


def windows_of(numbers: Tensor, texts: TextEncoder) -> Tensor:
    """samples × places × inputs: the vectors around each word, with zeros beyond the ends of the text."""
    numbers, width = cropped(numbers), texts.settings.window
    before = (width - 1) // 2
    vectors = F.pad(F.embedding(numbers, texts.vectors), (0, 0, before, width - 1 - before))
    places = numbers.shape[1]
    windows = torch.cat([vectors[:, start : start + places] for start in range(width)], 2)
    return windows.mul_(numbers[:, :, None] > 0)


def cropped(numbers: Tensor) -> Tensor:
    """Without the columns in which there is only padding, where finding them costs nothing."""
    if numbers.device.type != "cpu":
        return numbers
    return numbers[:, : max(1, int((numbers > 0).sum(1).max()))]


def build_text_network(texts: TextEncoder, classes: int, settings: NetworkSettings) -> TextNetwork:
    filters = texts.settings.filters or USUAL_FILTERS
    extractor = nn.Sequential(TextConvolution(texts, filters), *mlp_extractor(filters, settings.hidden))
    return TextNetwork(texts, extractor, settings.hidden, classes)
