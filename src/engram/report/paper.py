"""The paper's own numbers, in percent: Tables 2 and 3 of Shen et al. 2021.

Its Table 3 prints +0.96 for the inner-task error of OWM+GFR on CIFAR-10, where its figures differ by 1.04; differences
here are always taken from the figures.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from engram.study.reading import read_study


@dataclass(frozen=True)
class Printed:
    """A number as printed; the paper gives no standard error for the upper bound and for what it quotes."""

    mean: float
    error: float | None

    def __str__(self) -> str:
        return f"{self.mean:.2f}" if self.error is None else f"{self.mean:.2f} ± {self.error:.2f}"


@cache
def accuracies() -> dict[tuple[str, str], Printed]:
    """By (column, row)."""
    found = {}
    for line in _lines("table2.csv"):
        for column, text in line.items():
            if column != "method" and text:
                mean, _, error = text.partition("±")
                found[column, line["method"]] = Printed(float(mean), float(error) if error else None)
    return found


@cache
def errors() -> dict[tuple[str, str], tuple[float, float]]:
    """Inter-task and inner-task error by (column, row)."""
    lines = _lines("table3.csv")
    return {
        (line["setting"], line["method"]): (float(line["inter_task_error"]), float(line["inner_task_error"]))
        for line in lines
    }


@cache
def order() -> tuple[list[str], list[str]]:
    """Columns and rows in the order that readers of the paper know."""
    study = read_study("paper")
    return [column.name for column in study.columns], [row.name for row in study.rows]


def rows() -> list[str]:
    return [line["method"] for line in _lines("table2.csv")]


def _lines(name: str) -> list[dict[str, str]]:
    text = (files("engram.report") / "printed" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
