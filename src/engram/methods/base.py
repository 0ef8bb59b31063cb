"""What methods share: the lesson they are given, who may watch them, and what they offer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Lesson:
    """One task as tensors on the device: raw inputs, and labels as columns of the head."""

    index: int
    x: Tensor
    y: Tensor
    width: int
    """columns that the head must have"""


@dataclass
class State:
    """Everything that matters, as tensors and JSON."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)

    def put(self, prefix: str, tensors: dict[str, Tensor]) -> None:
        self.tensors |= {f"{prefix}.{name}": tensor.detach() for name, tensor in tensors.items()}

    def take(self, prefix: str) -> dict[str, Tensor]:
        start = f"{prefix}."
        return {name.removeprefix(start): tensor for name, tensor in self.tensors.items() if name.startswith(start)}


@dataclass(frozen=True)
class Position:
    """Where a task's training is: `step` of `steps` in `epoch` of `epochs`, and the batch's size."""

    epoch: int
    epochs: int
    step: int
    steps: int
    samples: int


class Watch:
    """Looks on while a task is learnt; does nothing unless overridden. It may call the method's `state`."""

    def stepped(self, position: Position) -> None:
        """After each step."""

    def score_epoch(self) -> float | None:
        """After each epoch: a score, if the epoch with the best one shall be kept; None keeps the last."""
        return None


class Method(Protocol):
    """A way to learn one task after another."""

    def learn(self, lesson: Lesson, watch: Watch) -> None: ...

    def features(self, x: Tensor) -> Tensor:
        """What the head sees of raw inputs x, as used for prediction."""
        ...

    def scores(self, x: Tensor) -> Tensor:
        """One number per raw input and column of the head."""
        ...

    def traces(self) -> dict[str, float]:
        """Share of each protected layer's input space that is still free."""
        ...

    def state(self) -> State: ...

    def restore(self, state: State) -> None: ...
