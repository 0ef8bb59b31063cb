"""Means over seeds, their errors, and whether two rows differ by more than chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

AGAINST = "owm"
PROPOSED = ("owm+gfr", "owm+ssl", "owm+ssl+gfr", "analytic")
"""Rows that are tested against OWM."""
FEWEST = 3
"""seeds that either row needs for a test"""
MARKS = ((0.01, "†"), (0.05, "⋆"))
"""the paper's, strictest first"""


@dataclass(frozen=True)
class Summary:
    """A mean and its standard error, which a single value does not have."""

    mean: float
    error: float | None
    count: int


@dataclass(frozen=True)
class Comparison:
    """Welch's t-test, two-sided: means may differ in either direction, variances may differ too."""

    difference: float
    t: float
    degrees: float
    p: float

    @property
    def mark(self) -> str:
        """With an arrow where the difference is one for the worse, of which the paper has none."""
        mark = next((mark for level, mark in MARKS if self.p < level), "")
        return f"{mark}↓" if mark and self.difference < 0 else mark


def summarise(values: Sequence[float]) -> Summary | None:
    if not values:
        return None
    error = float(stats.sem(values)) if len(values) > 1 else None
    return Summary(float(np.mean(values)), error, len(values))


def compare(ours: Sequence[float], theirs: Sequence[float]) -> Comparison | None:
    """None with fewer than three values on a side, or where neither side varies at all."""
    if min(len(ours), len(theirs)) < FEWEST or len(set(ours)) == len(set(theirs)) == 1:
        return None
    test: Any = stats.ttest_ind(ours, theirs, equal_var=False)
    if not math.isfinite(test.pvalue):
        return None
    difference = float(np.mean(ours) - np.mean(theirs))
    return Comparison(difference, float(test.statistic), float(test.df), float(test.pvalue))
