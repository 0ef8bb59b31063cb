"""Every hyper-parameter with its one default, one idea a file; free of torch, so that `--help` answers at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from engram.settings.analytic import AnalyticSettings, HeadSettings
from engram.settings.dgm import DGMSettings
from engram.settings.distillation import FeatureDistillationSettings, LwFSettings
from engram.settings.exemplars import ExemplarSettings, ExperienceReplaySettings, ICaRLSettings
from engram.settings.gpm import GPMSettings
from engram.settings.importance import EWCSettings, ImportanceSettings, MASSettings
from engram.settings.owm import OWMSettings
from engram.settings.pgma import PGMASettings
from engram.settings.replay import FeatureReplaySettings, GeneratorSettings, InputReplaySettings, ReplaySettings
from engram.settings.rotation import RotationSettings
from engram.settings.text import TextSettings
from engram.settings.training import NetworkSettings, TrainingSettings

if TYPE_CHECKING:
    from engram.ingredients.base import Ingredient

__all__ = [
    "AnalyticSettings",
    "DGMSettings",
    "EWCSettings",
    "ExemplarSettings",
    "ExperienceReplaySettings",
    "FeatureDistillationSettings",
    "FeatureReplaySettings",
    "GPMSettings",
    "GeneratorSettings",
    "HeadSettings",
    "ICaRLSettings",
    "ImportanceSettings",
    "IngredientSettings",
    "InputReplaySettings",
    "LwFSettings",
    "MASSettings",
    "NetworkSettings",
    "OWMSettings",
    "PGMASettings",
    "Precision",
    "ReplaySettings",
    "RotationSettings",
    "Selection",
    "TextSettings",
    "TrainingSettings",
]

Selection = Literal["last", "current", "seen"]
Precision = Literal["auto", "float32", "bfloat16"]


class IngredientSettings(Protocol):
    """Frozen settings that can start a live ingredient; its class name, less `Settings`, is the flags' prefix."""

    def start(self) -> Ingredient: ...
