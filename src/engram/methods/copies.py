"""Frozen copies of a trained network, as it is now, that take raw inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable

from torch import Tensor, nn

from engram.networks import Network

Parts = Callable[[Network], Callable[[Tensor], Tensor]]
"""what a network does at prediction, with the ingredients' parts in it"""


class Encoder(nn.Module):
    """From raw inputs to features."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).eval().requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.network.extractor(self.network.prepare(x))


class NetworkScores(nn.Module):
    """From raw inputs to scores."""

    def __init__(self, network: Network, extractor_of: Parts, head_of: Parts) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).eval().requires_grad_(False)
        self.extract, self.head = extractor_of(self.network), head_of(self.network)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.extract(self.network.prepare(x)).float()).float()
