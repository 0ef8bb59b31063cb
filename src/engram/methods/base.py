"""What every method offers."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from engram.lesson import Lesson, State, Watch


class Method(Protocol):
    """A way to learn one task after another."""

    def learn(self, lesson: Lesson, watch: Watch) -> None: ...

    def features(self, x: Tensor) -> Tensor:
        """What the head sees of raw inputs x, as used for prediction."""
        ...

    def extract(self, x: Tensor) -> Tensor:
        """Features of raw inputs x as the extractor alone gives them: what generated features stand for."""
        ...

    def generate(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        """Generated features of these columns' classes; None where nothing generates any."""
        ...

    def images(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        """Generated images of these columns' classes with values from 0 to 1; None where nothing generates any.

        A method that learns texts gives rows of numbers of words.
        """
        ...

    def scores(self, x: Tensor) -> Tensor:
        """One number per raw input and column of the head."""
        ...

    def encoder(self) -> nn.Module | None:
        """A frozen copy of a trained network, from raw inputs to features; None where no network is trained."""
        ...

    def exportable(self) -> nn.Module | None:
        """From raw inputs to scores, all at once and in full precision, for other programs; None if they cannot."""
        ...

    def traces(self) -> dict[str, float]:
        """Share of each protected layer's input space that is still free."""
        ...

    def measures(self) -> dict[str, Any]:
        """Numbers about the task just learnt, for the result."""
        ...

    def state(self) -> State: ...

    def restore(self, state: State) -> None: ...
