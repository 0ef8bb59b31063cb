"""Generators, and the replay of what they generate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engram.settings.checks import check_number, check_whole

if TYPE_CHECKING:
    from engram.ingredients.base import Ingredient


@dataclass(frozen=True)
class GeneratorSettings:
    """A conditional Wasserstein GAN with gradient penalty, trained after each task."""

    generator_steps: int = 800
    """steps of the generator a task: its whole budget"""
    generator_width: int = 512
    """of the hidden layers of generator and critic"""
    generator_batch: int = 128
    """samples a step, real and generated each"""
    generator_rate: float = 1e-4
    """learning rate of Adam; the optimisers are made anew for each task"""
    critic_steps: int = 5
    """steps of the critic for each one of the generator"""
    penalty: float = 10.0
    """weight of the gradient penalty"""
    noise: int = 128
    """random numbers that a sample is made of"""

    def __post_init__(self) -> None:
        check_whole(self, 1, "generator_steps", "generator_width", "generator_batch", "critic_steps", "noise")
        check_number(self, "above 0", "generator_rate")
        check_number(self, "at least 0", "penalty")


@dataclass(frozen=True)
class FeatureReplaySettings(GeneratorSettings):
    """Generative feature replay: the head goes on seeing generated features of the old classes."""

    weight: float = 1.0
    """of the replay loss"""
    temperature: float = 2.0
    """of the old head's soft targets"""
    squared: bool = False
    """multiply the replay loss by the temperature's square, which keeps its gradient's size"""
    batch_size: int = 64
    """generated features a step"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "at least 0", "weight")
        check_number(self, "above 0", "temperature")
        check_whole(self, 1, "batch_size")

    def start(self) -> Ingredient:
        from engram.ingredients.feature_replay import FeatureReplay

        return FeatureReplay(self)
