"""Learning from the network as it was after the last task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engram.settings.checks import check_number

if TYPE_CHECKING:
    from engram.ingredients.base import Ingredient


@dataclass(frozen=True)
class LwFSettings:
    """Learning without forgetting: on new data, old classes' scores shall stay as they were."""

    weight: float = 1.0
    """of the distillation loss"""
    temperature: float = 2.0
    """of the old network's soft targets"""

    def __post_init__(self) -> None:
        check_number(self, "at least 0", "weight")
        check_number(self, "above 0", "temperature")

    def start(self) -> Ingredient:
        from engram.ingredients.distillation import LwF

        return LwF(self)


@dataclass(frozen=True)
class FeatureDistillationSettings:
    """New data's features shall stay where the old network put them."""

    weight: float = 1.0
    """of the mean distance that features have moved, times old classes for each new one"""

    def __post_init__(self) -> None:
        check_number(self, "at least 0", "weight")

    def start(self) -> Ingredient:
        from engram.ingredients.distillation import FeatureDistillation

        return FeatureDistillation(self)
