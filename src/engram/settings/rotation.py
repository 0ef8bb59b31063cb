"""The self-supervised task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engram.settings.checks import check_number

if TYPE_CHECKING:
    from engram.ingredients.base import Ingredient


@dataclass(frozen=True)
class RotationSettings:
    """The self-supervised task: tell by how many quarter turns a batch was rotated."""

    weight: float = 5.0
    """of the rotation loss"""

    def __post_init__(self) -> None:
        check_number(self, "at least 0", "weight")

    def start(self) -> Ingredient:
        from engram.ingredients.rotation import Rotation

        return Rotation(self)
