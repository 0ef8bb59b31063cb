"""Every hyper-parameter, each with its one default. Free of torch, so that `--help` answers at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from engram.ingredients.base import Ingredient

Selection = Literal["last", "current", "seen"]
Precision = Literal["auto", "float32", "bfloat16"]


class IngredientSettings(Protocol):
    """Frozen settings that can start a live ingredient; its class name, less `Settings`, is the flags' prefix."""

    def start(self) -> Ingredient: ...


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


@dataclass(frozen=True)
class NetworkSettings:
    """The paper's network: three convolutions for images, none for tables, then three linear layers."""

    filters: tuple[int, int, int] = (64, 128, 256)
    """channels of the three 2x2 convolutions (images only), times width"""
    width: int = 1
    """multiplies the filters; the paper doubles them on CIFAR-100"""
    hidden: int = 1000
    """width of the two hidden linear layers"""
    dropout: float = 0.2
    """after each convolution (images only)"""


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

    def start(self) -> Ingredient:
        from engram.ingredients.owm import OWMIngredient

        return OWMIngredient(self)
