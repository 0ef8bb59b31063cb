"""Generators, and the replay of what they generate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engram.settings.checks import check_choice, check_number, check_whole

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
    generator_rate: float = 5e-4
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
class ReplaySettings(GeneratorSettings):
    """What generated samples of old classes are used for, and how a generator goes on making them."""

    critic: Literal["auxiliary", "conditional"] = "auxiliary"
    """auxiliary: it also tells the class (AC-GAN); conditional: it is told the class, and has no class loss"""
    alignment: float = 0.0
    """weight that holds old classes' samples where the former generator put them, beside learning them from it"""
    weight: float = 1.0
    """of the replay loss"""
    temperature: float = 2.0
    """of the old network's soft targets"""
    squared: bool = True
    """multiply the replay loss by the temperature's square, which keeps its gradient's size"""
    batch_size: int = 64
    """generated samples a step"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "at least 0", "weight", "alignment")
        check_number(self, "above 0", "temperature")
        check_whole(self, 1, "batch_size")
        check_choice(self, "critic", "auxiliary", "conditional")


@dataclass(frozen=True)
class FeatureReplaySettings(ReplaySettings):
    """Generative feature replay: the head goes on seeing generated features of the old classes."""

    labels: Literal["soft", "hard"] = "soft"
    """what the head shall say to a generated feature: what the old head says, or the class that was asked for"""
    share: Literal["added", "by_classes"] = "added"
    """added to the loss of the real data; or both averaged, by old and new classes"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self, "labels", "soft", "hard")
        check_choice(self, "share", "added", "by_classes")

    def start(self) -> Ingredient:
        from engram.ingredients.feature_replay import FeatureReplay

        return FeatureReplay(self)


@dataclass(frozen=True)
class InputReplaySettings(ReplaySettings):
    """Generative input replay: the whole network goes on seeing generated images or texts of the old classes."""

    generator_width: int = 32
    """channels of the widest maps of generator and critic; their others have twice and four times as many"""
    generator_batch: int = 64
    """samples a step, real and generated each"""
    generator_rate: float = 1e-4
    """learning rate of Adam; the optimisers are made anew for each task"""
    pretraining_steps: int = 1000
    """texts only: steps of learning by likelihood a task, before the critic's judgement counts"""
    adversarial_steps: int = 20
    """texts only: steps of learning from the critic a task"""
    rollouts: int = 16
    """texts only: how often a text that is begun is finished, to see what its beginning is worth"""
    text_vocabulary: int = 10_000
    """texts only: words that the generator can have at most; a set with more is refused"""
    text_length: int = 30
    """texts only: words or characters that a generated text has at most"""
    text_width: int = 128
    """texts only: width of the generator's LSTM, and filters of its critic"""
    text_rate: float = 2e-3
    """texts only: learning rate of Adam"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, 0, "pretraining_steps", "adversarial_steps")
        check_whole(self, 1, "rollouts", "text_vocabulary", "text_length", "text_width")
        check_number(self, "above 0", "text_rate")

    def start(self) -> Ingredient:
        from engram.ingredients.input_replay import InputReplay

        return InputReplay(self)
