"""How long cells will take, from those that are done; without any, a rough guess."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from engram.data.sets import SETS, set_info
from engram.study.folder import Found
from engram.study.grid import Cell

SECONDS_PER_PIXEL = 4e-6
"""of one sample in one epoch on one core: owm took 2,573 s for 12 epochs of CIFAR-10's 50,000 32x32 images"""
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
    return _pixels(cell.dataset, cell.tasks, cell.chosen_recipe().for_set(set_info(cell.dataset)).settings())


def _work_of(found: Found) -> float:
    result = found.result
    return _pixels(result["dataset"], result["tasks"], result.get("settings", {}))


def _pixels(dataset: str, tasks: int, settings: Mapping[str, Mapping[str, Any]]) -> float:
    """Of all real images that are looked at, again and again."""
    info = set_info(dataset)
    samples = info.train * settings.get("training", {}).get("epochs", 1)
    if own := settings.get("dgm"):  # counts steps and no epochs
        samples = tasks * own["generator_steps"] * own["critic_steps"] * own["generator_batch"]
    return samples * math.prod(info.shape[-2:])
