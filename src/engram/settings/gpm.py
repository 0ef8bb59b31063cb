"""Gradient projection memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engram.settings.checks import check_number, check_whole

if TYPE_CHECKING:
    from engram.ingredients.base import Ingredient


@dataclass(frozen=True)
class GPMSettings:
    """Gradient projection memory: after each task, the main directions of each layer's inputs are closed for good."""

    threshold: float = 0.97
    """part of the inputs' squared length that the closed directions shall hold, after the first task"""
    growth: float = 0.003
    """what is added to the threshold with each further task (up to 1)"""
    samples: int = 300
    """of a task, from which the directions are taken"""

    def __post_init__(self) -> None:
        check_number(self, "at least 0 and below 1", "threshold", "growth")
        check_whole(self, 1, "samples")

    def start(self) -> Ingredient:
        from engram.ingredients.gpm import GPM

        return GPM(self)
