"""The points of a training step at which an ingredient may act; each does nothing unless overridden."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from engram.lesson import Lesson, State
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
    batch_size: int
    ingredients: list[Ingredient]
    """all of them, in the order of their edits"""

    def batches(self, lesson: Lesson, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """A task's prepared batches, in an order that belongs to the epoch."""
        ...

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and scores of prepared inputs, in the method's precision."""
        ...


class Ingredient:
    """Acts on the training of a host. The order of a recipe's ingredients is the order of their edits."""

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
