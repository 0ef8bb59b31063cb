"""How long cells will take, from those that are done; without any, a rough guess."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from engram.data.sets import SETS, set_info
from engram.recipes import RECIPES
from engram.study.folder import Found
from engram.study.grid import Cell

SECONDS_PER_PIXEL = 4e-6
"""of one sample in one epoch on one core: results/cifar10-5/owm took 2,573 s for 12 epochs of 50,000 32x32 images"""
STARTING = 4.0
"""seconds for a process to load torch and the data"""


def seconds_of(cell: Cell, done: Sequence[Found]) -> float:
    """The mean over the same row and column, else scaled from the same row, else from anything, else guessed."""
    same_row = [found for found in done if found.row == cell.row]
    same = [found for found in same_row if found.column == cell.column]
    if same:
        return STARTING + fmean(found.result["seconds"] for found in same)
    rates = [
        found.result["seconds"] / _work_of(found) for found in (same_row or done) if found.result["dataset"] in SETS
    ]
    return STARTING + _work(cell) * (fmean(rates) if rates else SECONDS_PER_PIXEL)


def in_words(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def _work(cell: Cell) -> float:
    """Pixels that are looked at."""
    return _pixels(cell.dataset) * (_epochs(cell) or 1)


def _work_of(found: Found) -> float:
    return _pixels(found.result["dataset"]) * (found.result.get("epochs") or 1)


def _pixels(dataset: str) -> float:
    info = set_info(dataset)
    return info.train * math.prod(info.shape[-2:])


def _epochs(cell: Cell) -> int | None:
    training = RECIPES[cell.recipe].changed(cell.settings).groups().get("training")
    return None if training is None else training.epochs
