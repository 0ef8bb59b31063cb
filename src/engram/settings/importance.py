"""Penalties on changing the weights that mattered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engram.settings.checks import check_choice, check_number

if TYPE_CHECKING:
    from engram.ingredients.base import Ingredient


@dataclass(frozen=True)
class ImportanceSettings:
    """A quadratic penalty that holds each weight where it was, as firmly as it mattered."""

    weight: float = 1.0
    """of the penalty"""
    decay: float = 1.0
    """what earlier tasks' importance is multiplied with when a task's own is added (1: their sum)"""

    def __post_init__(self) -> None:
        check_number(self, "at least 0", "weight", "decay")


@dataclass(frozen=True)
class EWCSettings(ImportanceSettings):
    """Elastic weight consolidation: a weight matters by its Fisher information, sample by sample."""

    weight: float = 5000.0
    """of the penalty: half of it times Fisher times the squared change"""
    labels: Literal["model", "true"] = "model"
    """model: labels drawn from the network's own probabilities (the Fisher information); true: the data's labels"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "labels", "model", "true")

    def start(self) -> Ingredient:
        from engram.ingredients.importance import EWC

        return EWC(self)


@dataclass(frozen=True)
class MASSettings(ImportanceSettings):
    """Memory-aware synapses: a weight matters by how far it moves the squared length of the scores."""

    weight: float = 1.0
    """of the penalty: all of it times importance times the squared change"""

    def start(self) -> Ingredient:
        from engram.ingredients.importance import MAS

        return MAS(self)
