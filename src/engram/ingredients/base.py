"""The points of a training step at which an ingredient may act; each does nothing unless overridden."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from engram.lesson import Lesson, State, Watch
from engram.networks import Network


@dataclass(frozen=True)
class Step:
    """Which step this is: `progress` is the part of the task's training that is done, 0 to below 1."""

    task: int
    epoch: int
    index: int
    progress: float


@dataclass(frozen=True)
class Batch:
    """What one step sees: prepared inputs, labels, features h = E(x) and scores F(h)."""

    x: Tensor
    y: Tensor
    features: Tensor
    scores: Tensor


class Host(Protocol):
    """What an ingredient may use of the method that it is added to."""

    network: Network
    seed: int
    device: torch.device
    low_precision: bool
    """whether forward and backward passes run in bfloat16"""
    batch_size: int
    ingredients: list[Ingredient]
    """all of them, in the order of their edits"""
    average: Callable[[list[Tensor]], None] | None
    """where several processes share each batch: replaces tensors by their means over all of the batch"""
    watch: Watch
    """who looks on at the task that is being learnt: tell it of work that takes long"""

    def batches(self, lesson: Lesson, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """A task's prepared batches, in an order that belongs to the epoch."""
        ...

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and scores of prepared inputs, in the method's precision."""
        ...

    def extract(self, x: Tensor) -> Tensor:
        """Features of raw inputs in evaluation mode, with no ingredient's part in them."""
        ...


class Ingredient:
    """Acts on the training of a host. The order of a recipe's ingredients is the order of their edits."""

    only_adds: ClassVar[bool] = False
    """whether `edit_gradients` only adds: then a later projection may form the training loss's part by itself"""

    shares: ClassVar[bool] = False
    """whether it does right where several processes train together, each on its share of a batch"""

    def attach(self, host: Host) -> None:
        """Once, before anything else."""

    def begin_task(self, lesson: Lesson) -> None: ...

    def batch(self, x: Tensor, y: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        """The prepared batch that is trained on instead."""
        return x, y

    def loss(self, loss: Tensor, batch: Batch, step: Step) -> Tensor:
        """The loss that is minimised instead."""
        return loss

    def edit_gradients(self, step: Step) -> None:
        """After the backward pass, in place; clipping comes after everyone's edits."""

    def end_task(self, lesson: Lesson) -> None: ...

    def features(self, extract: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Features at prediction."""
        return extract(x)

    def scores(self, head: Callable[[Tensor], Tensor], features: Tensor) -> Tensor:
        """Scores at prediction."""
        return head(features)

    def modules(self) -> dict[str, nn.Module]:
        """Own modules that are trained together with the network."""
        return {}

    def state(self) -> State:
        """All that the ingredient's future depends on, its modules apart."""
        return State()

    def restore(self, state: State) -> None: ...

    def traces(self) -> dict[str, float]:
        """Share of each protected layer's input space that is still free."""
        return {}

    def measures(self) -> dict[str, Any]:
        """Numbers about the task just learnt, for the result: plain values that JSON can hold."""
        return {}

    def generate(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        """Generated features of these classes, from an ingredient that has some."""
        return None

    def images(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        """Generated images of these classes with values from 0 to 1, or texts, from an ingredient that has some."""
        return None
