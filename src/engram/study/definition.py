"""What a study is: rows (recipes), columns (sets cut into tasks), seeds, and one protocol. Free of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from engram.data.sets import SETS
from engram.errors import InputError
from engram.recipes import RECIPES
from engram.settings import Precision, Selection

Groups = Mapping[str, Mapping[str, Any]]
"""Settings by group: {"owm": {"alpha_hidden": 1e-3}}."""


@dataclass(frozen=True)
class Row:
    """A recipe with settings of its own; `planned` rows are passed over where this version lacks the recipe."""

    name: str
    recipe: str
    columns: tuple[str, ...] = ("*",)
    """patterns of the columns that the row has cells in"""
    settings: Groups = field(default_factory=dict)
    tune: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """values by "group.setting", of which validation data chooses one set a column"""
    planned: bool = False

    @property
    def missing(self) -> str | None:
        return None if self.recipe in RECIPES else f"this version has no recipe {self.recipe!r} yet"


@dataclass(frozen=True)
class Column:
    """A data set cut into tasks, named SET-TASKS."""

    name: str
    epochs: int | None = None
    settings: Groups = field(default_factory=dict)
    planned: bool = False

    @property
    def dataset(self) -> str:
        return self.name.rpartition("-")[0]

    @property
    def tasks(self) -> int:
        return int(self.name.rpartition("-")[2])

    @property
    def missing(self) -> str | None:
        return None if self.dataset in SETS else f"this version has no data set {self.dataset!r} yet"


@dataclass(frozen=True)
class Study:
    """A grid of runs; see docs/studies.md for the same as a TOML file."""

    name: str
    title: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    class_orders: tuple[int, ...] = (0,)
    tuning_seed: int = 100
    """of the runs that settings are chosen by; never one of the seeds that count"""
    epochs: int | None = None
    """for recipes that train in epochs; None takes the recipe's own"""
    selection: Selection = "last"
    precision: Precision = "auto"
    settings: Groups = field(default_factory=dict)
    """for every recipe that has these groups"""

    def __post_init__(self) -> None:
        if self.tuning_seed in self.seeds:
            raise InputError(
                f"Study {self.name!r} would choose settings with seed {self.tuning_seed}, which is one of its seeds: "
                "give another tuning_seed."
            )

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    def plain(self) -> dict[str, Any]:
        """As a file holds it: what `engram.study.reading` reads back to the same study."""
        plain = {key: value for key, value in asdict(self).items() if key != "name" and value is not None}
        for part in ("rows", "columns"):
            plain[part] = {
                entry["name"]: {key: value for key, value in entry.items() if key != "name" and value is not None}
                for entry in plain[part]
            }
        return plain
