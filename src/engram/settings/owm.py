"""Orthogonal weight modification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from engram.settings.checks import check_choice, check_number, check_whole

if TYPE_CHECKING:
    from engram.ingredients.base import Ingredient


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
