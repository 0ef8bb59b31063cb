"""Dynamic generative memory."""

from __future__ import annotations

from dataclasses import dataclass

from engram.settings.checks import check_number
from engram.settings.replay import GeneratorSettings


@dataclass(frozen=True)
class DGMSettings(GeneratorSettings):
    """A generator of images that gives each task some of its weights for good, and grows by as many."""

    generator_width: int = 32
    """channels of the widest maps of generator and discriminator at the start; the others have two and four times"""
    generator_batch: int = 64
    """samples a step, real and generated each"""
    mask_weight: float = 1e-3
    """of the share of free weights that a task's masks claim"""
    mask_scale: float = 1e4
    """how sharp the masks are at a task's end; they begin at its inverse"""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "at least 0", "mask_weight")
        check_number(self, "above 0", "mask_scale")
