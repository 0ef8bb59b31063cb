"""Somebody's own module as the extractor of a network that is trained task after task."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from engram.errors import InputError
from engram.networks.base import Network
from engram.networks.frozen import feature_rows


class OwnExtractor(nn.Module):
    """The module, its outputs flattened. Parameters that need no gradient stay as they are, and so do batch norms:

    one task's statistics would undo what earlier tasks have taught. A module that is not trained at all is in
    evaluation mode.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        for norm in _with_statistics(module):
            norm.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return feature_rows(self.module, x)

    def train(self, mode: bool = True) -> Self:
        super().train(mode and any(parameter.requires_grad for parameter in self.parameters()))
        for norm in _with_statistics(self.module):
            norm.eval()
        return self


class OwnNetwork(Network):
    """Inputs come as they are, and features may be negative."""

    own = True

    @classmethod
    def of(cls, module: nn.Module, shape: tuple[int, ...], classes: int, device: torch.device) -> Self:
        """Around a copy of the module, which is asked once how many features it has."""
        _check_trainable(module)
        extractor = OwnExtractor(copy.deepcopy(module)).eval()
        with torch.no_grad():
            features = extractor(torch.zeros(2, *shape, device=device)).shape[1]
        return cls(extractor, features, classes)

    def standardise(self, x: Tensor) -> None:
        """Never: the module knows inputs as they are."""

    def prepare(self, x: Tensor) -> Tensor:
        return x.float()


def frozen(network: nn.Module) -> list[str]:
    """Names of the modules none of whose parameters is trained."""
    found = ((name, [p.requires_grad for p in module.parameters()]) for name, module in network.named_modules())
    return [name for name, trained in found if trained and not any(trained)]


def _with_statistics(module: nn.Module) -> Iterator[_NormBase]:
    return (part for part in module.modules() if isinstance(part, _NormBase) and part.running_mean is not None)


def _check_trainable(module: nn.Module) -> None:
    for name, part in module.named_modules():
        if isinstance(part, _BatchNorm) and part.running_mean is None:
            raise InputError(
                f"Layer {name!r} of the network is a batch norm without running statistics, so that its answer to a "
                "sample depends on the samples beside it: keep statistics in it, or use a group norm."
            )
    if strange := [name for name, value in module.state_dict().items() if not isinstance(value, Tensor)]:
        raise InputError(f"The network's state holds {strange[0]!r}, which is no tensor and cannot be saved: drop it.")
