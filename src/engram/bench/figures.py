"""What an item measures: figures, each with the value that it should have."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from engram.recipes import RECIPES


@dataclass(frozen=True)
class Effort:
    """How much work a measurement may be."""

    quick: bool

    def rounds(self, usual: int) -> int:
        return 1 if self.quick else usual


@dataclass(frozen=True)
class Figure:
    """One number; `most` or `least` is what it should keep."""

    name: str
    value: float
    unit: str = "ratio"
    most: float | None = None
    least: float | None = None

    @property
    def target(self) -> str:
        if self.most is not None:
            return f"≤ {self.most:g}"
        return "" if self.least is None else f"≥ {self.least:g}"

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if self.most is not None:
            return self.value <= self.most
        return None if self.least is None else self.value >= self.least


def different_recipes() -> list[str]:
    """One of each method and ingredients: what differs in settings alone is as fast and as large."""
    kinds = {(entry.method, tuple(entry.ingredients)): name for name, entry in reversed(RECIPES.items())}
    return [name for name in RECIPES if name in kinds.values()]


Act = Callable[[], object]


def interleaved(acts: Mapping[str, Act], rounds: int, each: int = 1) -> dict[str, list[float]]:
    """Seconds that each act takes, in turns; the mean of `each` in a row, which have their memory at hand again.

    A round that is not counted comes first.
    """
    found: dict[str, list[float]] = {name: [] for name in acts}
    for turn in range(rounds + 1):
        for name, act in acts.items():
            begun = time.perf_counter()
            for _ in range(each):
                act()
            if turn:
                found[name].append((time.perf_counter() - begun) / each)
    return found


def ratio(top: Iterable[float], bottom: Iterable[float]) -> float:
    """Median over the rounds of their ratio, so that a slow spell of the machine meets both."""
    return median(a / b for a, b in zip(top, bottom, strict=True))


def milliseconds(name: str, seconds: Iterable[float]) -> Figure:
    return Figure(name, 1000 * median(seconds), "ms")
