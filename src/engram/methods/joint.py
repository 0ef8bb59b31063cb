"""Joint training, the upper bound: it keeps all data, and trains afresh on everything with every task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from engram.lesson import Lesson, State, Watch
from engram.methods.gradient import GradientMethod


class JointMethod:
    def __init__(self, start: Callable[[int], GradientMethod], width: int) -> None:
        self._start = start
        self._inner = start(width)
        self._kept: list[tuple[Tensor, Tensor]] = []

    def learn(self, lesson: Lesson, watch: Watch) -> None:
        if self._inner.training is None:
            self._inner = self._start(lesson.width)
        kept = [*self._kept, (lesson.x, lesson.y)]
        x, y = (torch.cat(parts) for parts in zip(*kept, strict=True))
        self._inner.learn(replace(lesson, index=0, x=x, y=y), watch)
        self._kept = kept

    def features(self, x: Tensor) -> Tensor:
        return self._inner.features(x)

    def extract(self, x: Tensor) -> Tensor:
        return self._inner.extract(x)

    def generate(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        return self._inner.generate(columns, random)

    def images(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        return self._inner.images(columns, random)

    def scores(self, x: Tensor) -> Tensor:
        return self._inner.scores(x)

    def encoder(self) -> nn.Module | None:
        return self._inner.encoder()

    def exportable(self) -> nn.Module | None:
        return self._inner.exportable()

    def traces(self) -> dict[str, float]:
        return {}

    def measures(self) -> dict[str, Any]:
        return self._inner.measures()

    def state(self) -> State:
        state = self._inner.state()
        state.meta["kept"] = len(self._kept)
        for index, (x, y) in enumerate(self._kept):
            state.put(f"kept{index}", {"x": x, "y": y})
        return state

    def restore(self, state: State) -> None:
        self._inner = self._start(state.meta["width"])
        self._inner.restore(state)
        parts = [state.take(f"kept{index}") for index in range(state.meta["kept"])]
        self._kept = [(part["x"], part["y"]) for part in parts]
