"""What every method offers."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from engram.lesson import Lesson, State, Watch


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
