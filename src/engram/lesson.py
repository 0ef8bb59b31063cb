"""What passes between a learner, its method and its ingredients: a lesson, a state, and somebody who looks on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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

    def worked(self, what: str, done: int, total: int) -> None:
        """After each step of work that follows a task's training, such as a generator's."""

    def epoch_ended(self, epoch: int, epochs: int, loss: float) -> None:
        """After each epoch, with the mean loss of its steps."""

    def score_epoch(self) -> float | None:
        """After each epoch: a score, if the epoch with the best one shall be kept; None keeps the last."""
        return None
