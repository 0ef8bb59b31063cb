"""A memory of real samples of old classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engram.settings.checks import check_number, check_whole

if TYPE_CHECKING:
    from engram.ingredients.base import Ingredient


@dataclass(frozen=True)
class ExemplarSettings:
    """Real samples that are stored, the same number in all whatever the number of classes."""

    memory: int = 2000
    """samples that are stored, all classes together"""

    def __post_init__(self) -> None:
        check_whole(self, 1, "memory")


@dataclass(frozen=True)
class ICaRLSettings(ExemplarSettings):
    """Incremental classifier and representation learning; its learning rate is the loop's."""

    distillation: float = 1.0
    """weight of what old outputs shall stay, relative to what new ones shall become"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "at least 0", "distillation")

    def start(self) -> Ingredient:
        from engram.ingredients.exemplars import ICaRL

        return ICaRL(self)


@dataclass(frozen=True)
class ExperienceReplaySettings(ExemplarSettings):
    """Stored samples, drawn at random, are added to each batch."""

    batch_size: int = 64
    """stored samples that are added to a step's batch"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, 1, "batch_size")

    def start(self) -> Ingredient:
        from engram.ingredients.exemplars import ExperienceReplay

        return ExperienceReplay(self)
