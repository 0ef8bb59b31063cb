"""Gradient projection memory: like OWM, but whole directions of the layers' inputs are closed, once a task, by SVD.

The projection itself, and how it is done cheaply, are OWM's.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from engram.errors import InputError
from engram.ingredients.base import Host, Ingredient, Step
from engram.lesson import Lesson, State
from engram.networks.own import frozen
from engram.owm import OWM
from engram.patches import input_rows
from engram.projection import Projector
from engram.settings import GPMSettings, OWMSettings


class GPM(Ingredient):
    shares = True

    def __init__(self, settings: GPMSettings) -> None:
        self.settings = settings

    def attach(self, host: Host) -> None:
        self.host = host
        before = host.ingredients[: host.ingredients.index(self)]
        lazy = all(other.only_adds or type(other).edit_gradients is Ingredient.edit_gradients for other in before)
        # with task_end, `project` absorbs nothing: what is closed is for `end_task` to say
        self.projection = OWM(host.network, OWMSettings(refresh="task_end"), skip=frozen(host.network), lazy=lazy)
        if grouped := [name for name, layer in self.projection.layers.items() if len(layer.projectors) > 1]:
            raise InputError(f"GPM has no projection for groups, as in {grouped[0]}: choose 'owm' for this network.")

    def edit_gradients(self, step: Step) -> None:
        self.projection.project()

    def end_task(self, lesson: Lesson) -> None:
        threshold = min(1.0, self.settings.threshold + self.settings.growth * lesson.index)
        for name, rows in self._inputs(lesson).items():
            (projector,) = self.projection.layers[name].projectors
            projector.remove(main_directions(rows, projector, threshold))

    def state(self) -> State:
        return State(tensors=self.projection.state())

    def restore(self, state: State) -> None:
        self.projection.restore(state.tensors)

    def traces(self) -> dict[str, float]:
        return self.projection.traces()

    def _inputs(self, lesson: Lesson) -> dict[str, Tensor]:
        """Each layer's input rows for a part of the task, by the name of the layer; a bias's input is 1."""
        network, found = self.host.network, dict[str, list[Tensor]]()

        def noting(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
            layer = self.projection.layers[name].module

            def note(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
                rows = input_rows(layer, inputs[0]).flatten(0, 1)
                ones = rows.new_ones(len(rows), 1 if layer.bias is not None else 0)
                found.setdefault(name, []).append(torch.cat([rows, ones], 1))

            return note

        layers = self.projection.layers
        handles = [layer.module.register_forward_pre_hook(noting(name)) for name, layer in layers.items()]
        network.eval()
        left = self.settings.samples
        with torch.no_grad():
            for x, _ in self.host.batches(lesson, epoch=-1):
                network(x[:left])
                left -= len(x[:left])
                if not left:
                    break
        network.train()
        for handle in handles:
            handle.remove()
        return {name: torch.cat(parts) for name, parts in found.items()}


def main_directions(rows: Tensor, projector: Projector, threshold: float) -> Tensor:
    """The fewest orthonormal directions, out of those still free, with which so much of the rows' energy is closed."""
    if len(rows) > projector.dim:  # RᵀR is all that matters
        rows = torch.linalg.qr(rows.double(), mode="r").R
    rows = rows.double()
    free = projector.project(rows).double()
    _, sizes, directions = torch.linalg.svd(free, full_matrices=False)
    total = rows.square().sum()
    closed = total - free.square().sum() + sizes.square().cumsum(0)
    needed = int((closed < threshold * total).sum()) + 1 if total - free.square().sum() < threshold * total else 0
    useful = int((sizes > 1e-6 * total.sqrt()).sum())  # the rest is rounding
    return directions[: min(needed, useful)]
