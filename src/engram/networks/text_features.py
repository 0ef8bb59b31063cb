"""Fixed features of texts: what needs no training to tell them apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.lesson import State
from engram.networks.text_cnn import windows_of
from engram.settings import AnalyticSettings
from engram.text.encoder import TextEncoder

WIDTHS = {"small": 512, "medium": 1800, "large": 4000}
"""of the hashed words and pairs, and of the convolution, each"""
THRESHOLD = 0.5
"""of a filter's answer, whose deviation is about 1"""
KINDS = ("pooled", "ngrams", "convolution")
MIXER = -7046029254386353131
"""an odd number whose multiples have well-mixed upper bits"""


class TextFeatures:
    """The words' vectors, pooled; how often words and pairs fall on each hash; the answers of random filters."""

    def __init__(self, texts: TextEncoder, kinds: Sequence[str], width: int, filters: Tensor) -> None:
        self.texts, self.kinds, self.width = texts, list(kinds), width
        self.filters = filters

    @classmethod
    def make(cls, texts: TextEncoder, settings: AnalyticSettings, random: torch.Generator) -> TextFeatures:
        kinds = KINDS if settings.texts == "union" else (settings.texts,)
        width = settings.width or WIDTHS[settings.size]
        inputs = texts.settings.window * texts.vectors.shape[1]
        count = max(1, width // 2) if "convolution" in kinds else 0  # each gives two features
        filters = torch.randn(count, inputs, generator=random) / math.sqrt(inputs)
        return cls(texts, kinds, width, filters.to(texts.device))

    def __call__(self, x: Tensor) -> Tensor:
        return torch.cat([getattr(self, kind)(x.long()) for kind in self.kinds], 1)

    def plain(self) -> TextFeatures:
        """It is in full precision anyway."""
        return self

    def convolution(self, numbers: Tensor) -> Tensor:
        """How far a text's windows agree with each random filter, and with its opposite, beyond a threshold: means."""
        answers = windows_of(numbers, self.texts) @ self.filters.T
        both = torch.cat([(answers - THRESHOLD).relu().sum(1), (-answers - THRESHOLD).relu().sum(1)], 1)
        return both / (numbers > 0).sum(1, keepdim=True).clamp_min(1)

    def pooled(self, numbers: Tensor) -> Tensor:
        """The mean of the words' vectors, and the largest of each of their entries."""
        real = (numbers > 0)[:, :, None]
        vectors = F.embedding(numbers, self.texts.vectors)
        mean = vectors.sum(1) / real.sum(1).clamp_min(1)
        largest = vectors.masked_fill(~real, -torch.inf).amax(1)
        return torch.cat([mean, largest.nan_to_num(neginf=0.0)], 1)

    def ngrams(self, numbers: Tensor) -> Tensor:
        """Words and pairs of neighbours, each counted up or down in one column, by its hash; rows of length 1."""
        pairs = numbers[:, :-1] * (1 << 31) + numbers[:, 1:]
        grams = torch.cat([numbers, pairs], 1)
        real = torch.cat([numbers > 0, numbers[:, 1:] > 0], 1)
        mixed = grams * MIXER
        mixed = (mixed ^ (mixed >> 32)) * MIXER
        columns, sign = (mixed >> 24) % self.width, 1.0 - 2.0 * ((mixed >> 16) & 1)
        counts = torch.zeros(len(numbers), self.width, device=numbers.device)
        return F.normalize(counts.scatter_add_(1, columns, (sign * real).float()), dim=1)

    def state(self) -> State:
        meta = {"kinds": self.kinds, "width": self.width, "texts": self.texts.describe()}
        return State({"filters": self.filters}, meta)

    @classmethod
    def from_state(cls, state: State, texts: TextEncoder) -> TextFeatures:
        return cls(texts, state.meta["kinds"], state.meta["width"], state.tensors["filters"].clone())
