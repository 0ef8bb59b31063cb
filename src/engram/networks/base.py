"""What every network here is: an extractor E of features h and a linear head F on top."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor, nn

from engram.networks.cnn import cnn_extractor
from engram.networks.mlp import mlp_extractor
from engram.settings import NetworkSettings

TABLE_LIMIT = 10.0


class Network(nn.Module):
    """scores = F(E(x)), no biases; the head can grow without changing the scores that it already gives."""

    own = False
    """whether the extractor is a module of the user's"""
    shift: Tensor
    scale: Tensor

    def __init__(self, extractor: nn.Module, features: int, classes: int) -> None:
        super().__init__()
        self.extractor = extractor
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a head that has no classes yet
            self.head = nn.Linear(features, classes, bias=False)
        if classes:
            nn.init.xavier_normal_(self.head.weight)
        self.register_buffer("shift", torch.zeros(()))
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.extractor(x))

    def standardise(self, x: Tensor) -> None:
        """From now on bring raw inputs to the mean 0 and deviation 1 that these have, per channel or column."""
        axes = [axis for axis in range(x.ndim) if axis != 1]
        count = x.numel() // x.shape[1]
        parts = x.split(1000)  # float64 copies of a few rows at a time
        mean = sum(part.double().sum(axes, keepdim=True) for part in parts) / count
        squares = sum((part.double() - mean).square().sum(axes, keepdim=True) for part in parts)
        spread = (torch.as_tensor(squares) / count).sqrt()[0]
        mean = torch.as_tensor(mean)[0]
        varies = spread > 1e-6 * mean.abs().clamp_min(1e-12)  # a constant column's spread is rounding
        self.shift, self.scale = mean.float(), torch.where(varies, 1 / spread, 1).float()

    def prepare(self, x: Tensor) -> Tensor:
        """Raw inputs (uint8 or float) as the extractor wants them."""
        scaled = (x.float() - self.shift) * self.scale
        if x.ndim == 4:
            return scaled.contiguous(memory_format=torch.channels_last)
        # a column that hardly varies in the first task may be hundreds of deviations away in a later one
        return scaled.clamp(-TABLE_LIMIT, TABLE_LIMIT)

    def grow(self, classes: int) -> None:
        """Widen the head to so many classes; the rows there are stay as they are."""
        old = self.head.weight
        if classes <= len(old):
            return
        fresh = torch.empty(classes, old.shape[1], dtype=old.dtype, device=old.device)
        nn.init.xavier_normal_(fresh)
        fresh[: len(old)] = old.detach()
        self.head.weight = nn.Parameter(fresh)
        self.head.out_features = classes


def build_network(shape: tuple[int, ...], classes: int, settings: NetworkSettings) -> Network:
    """The paper's network for images of shape (channels, height, width), an MLP for rows of shape (numbers,)."""
    if len(shape) == 3:
        extractor = cnn_extractor(shape[0], shape[1], shape[2], settings)
    else:
        extractor = mlp_extractor(shape[0], settings.hidden)
    network = Network(extractor, settings.hidden, classes)
    for parameter in network.parameters():
        if parameter.ndim == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return network
