"""Every hyper-parameter, each with its one default. Free of torch, so that `--help` answers at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, Protocol

from engram.errors import InputError

if TYPE_CHECKING:
    from engram.ingredients.base import Ingredient

Selection = Literal["last", "current", "seen"]
Precision = Literal["auto", "float32", "bfloat16"]


class IngredientSettings(Protocol):
    """Frozen settings that can start a live ingredient; its class name, less `Settings`, is the flags' prefix."""

    def start(self) -> Ingredient: ...


RANGES: dict[str, Callable[[float], bool]] = {
    "above 0": lambda value: value > 0,
    "at least 0": lambda value: value >= 0,
    "at least 0 and below 1": lambda value: 0 <= value < 1,
}


def check_whole(settings: object, least: int, *names: str) -> None:
    """Refuse what is no whole number of at least so much; numbers of NumPy's become plain ones, which JSON can hold."""
    for name in names:
        value = getattr(settings, name)
        if not _is_whole(value, least):
            raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        object.__setattr__(settings, name, int(value))


def check_number(settings: object, wanted: str, *names: str) -> None:
    """Refuse what is no finite number in one of RANGES."""
    for name in names:
        value = getattr(settings, name)
        real = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if not real or not RANGES[wanted](float(value)):
            raise InputError(f"{name} must be a number {wanted}, not {value!r}.")
        object.__setattr__(settings, name, float(value))


def check_choice(settings: object, name: str, *choices: str) -> None:
    value = getattr(settings, name)
    if value not in choices:
        raise InputError(f"{name} must be {' or '.join(choices)}, not {value!r}.")


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


@dataclass(frozen=True)
class TrainingSettings:
    """The loop over batches, the same for every task."""

    epochs: int = 25
    """passes over each task's data"""
    batch_size: int = 64
    """samples a step"""
    learning_rate: float = 0.02
    """of SGD, constant; the optimiser is made anew for each task"""
    momentum: float = 0.9
    """of SGD"""
    clip_norm: float = 10.0
    """largest norm of the whole gradient, after every ingredient's edit (0: no clipping)"""

    def __post_init__(self) -> None:
        check_whole(self, 1, "epochs", "batch_size")
        check_number(self, "above 0", "learning_rate")
        check_number(self, "at least 0 and below 1", "momentum")
        check_number(self, "at least 0", "clip_norm")


@dataclass(frozen=True)
class NetworkSettings:
    """The paper's network: three convolutions for images, none for tables, then three linear layers."""

    filters: tuple[int, int, int] = (64, 128, 256)
    """channels of the three 2x2 convolutions (images only), times width"""
    width: int = 0
    """multiplies the filters (0: twice on CIFAR-100, as in the paper, and once elsewhere)"""
    hidden: int = 1000
    """width of the two hidden linear layers"""
    dropout: float = 0.2
    """after each convolution (images only)"""

    def __post_init__(self) -> None:
        check_whole(self, 0, "width")
        check_whole(self, 1, "hidden")
        check_number(self, "at least 0 and below 1", "dropout")
        listed = isinstance(self.filters, tuple | list)
        if not listed or len(self.filters) != 3 or not all(_is_whole(number, 1) for number in self.filters):
            raise InputError(f"filters must be three whole numbers of at least 1, not {self.filters!r}.")
        object.__setattr__(self, "filters", tuple(int(number) for number in self.filters))


@dataclass(frozen=True)
class OWMSettings:
    """Orthogonal weight modification. Each alpha falls geometrically from 1 to the value here over a task."""

    alpha_conv: float = 1e-5
    """at a task's end, convolutions"""
    alpha_first: float = 1e-4
    """at a task's end, the first linear layer"""
    alpha_hidden: float = 1e-2
    """at a task's end, linear layers between the first and the last"""
    alpha_last: float = 1e-1
    """at a task's end, the last linear layer"""
    patch_stride: int = 0
    """step between a convolution's input patches that are protected (0: the kernel's size)"""
    refresh: Literal["online", "task_end"] = "online"
    """online: absorb every batch before its step; task_end: one pass after each task, the first trained freely"""
    head: Literal["protected", "free"] = "protected"
    """free: the last linear layer has no projector, so that only replay keeps it from forgetting"""

    def __post_init__(self) -> None:
        check_number(self, "above 0", "alpha_conv", "alpha_first", "alpha_hidden", "alpha_last")
        check_whole(self, 0, "patch_stride")
        check_choice(self, "refresh", "online", "task_end")
        check_choice(self, "head", "protected", "free")

    def start(self) -> Ingredient:
        from engram.ingredients.owm import OWMIngredient

        return OWMIngredient(self)


@dataclass(frozen=True)
class RotationSettings:
    """The self-supervised task: tell by how many quarter turns a batch was rotated."""

    weight: float = 1.0
    """of the rotation loss"""

    def __post_init__(self) -> None:
        check_number(self, "at least 0", "weight")

    def start(self) -> Ingredient:
        from engram.ingredients.rotation import Rotation

        return Rotation(self)


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
