"""OWM as its authors' code does it: each mean patch a rank-1 update of a dense matrix, each gradient times the matrix.

For comparison only; what the package does instead is the same algebra.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from engram.ingredients.base import Host, Ingredient, Step
from engram.patches import conv_patches, pair
from engram.settings import OWMSettings


class DoubleLoop(Ingredient):
    def __init__(self, settings: OWMSettings) -> None:
        self.settings = settings

    def attach(self, host: Host) -> None:
        self.means: dict[nn.Module, Tensor] = {}
        self.layers = [module for module in host.network.modules() if isinstance(module, nn.Linear | nn.Conv2d)]
        self.projectors = [torch.eye(module.weight[0].numel()) for module in self.layers]
        for module in self.layers:
            module.register_forward_pre_hook(self._note(module))

    def _note(self, module: nn.Module) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def note(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            self.means[module] = inputs[0].detach().float().mean(0, keepdim=True)

        return note

    def edit_gradients(self, step: Step) -> None:
        alpha = self.settings.alpha_first**step.progress
        for index, module in enumerate(self.layers):
            mean = self.means[module]
            rows = mean if isinstance(module, nn.Linear) else conv_patches(module, mean, pair(module.kernel_size))[0]
            for row in rows:
                direction = self.projectors[index] @ row
                self.projectors[index] -= torch.outer(direction, direction) / (alpha + row @ direction)
            assert module.weight.grad is not None
            projected = module.weight.grad.flatten(1) @ self.projectors[index]
            module.weight.grad.copy_(projected.view_as(module.weight))
