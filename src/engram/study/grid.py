"""From a study to its cells: one recipe, one set, one seed each. Free of torch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from typing import Any

from engram.data.sets import set_info
from engram.errors import InputError
from engram.recipes import RECIPES, Recipe
from engram.settings import Precision, Selection
from engram.study.definition import Column, Groups, Row, Study
from engram.study.options import RunOptions

Choices = Mapping[tuple[str, str], Groups]
"""Settings that validation data chose, by (column, row)."""


@dataclass(frozen=True)
class Cell:
    """One run of a study."""

    column: str
    row: str
    recipe: str
    dataset: str
    tasks: int
    seed: int
    class_order: int
    selection: Selection
    precision: Precision
    settings: Groups = field(hash=False)
    trial: str = ""
    """for a run that only helps to choose settings: those it tries"""

    @property
    def place(self) -> str:
        """Its folder within the study's."""
        order = f"order{self.class_order}-" if self.class_order else ""
        last = f"tuning/{self.trial}" if self.trial else f"{order}seed{self.seed}"
        return f"{self.column}/{self.row}/{last}"

    def chosen_recipe(self) -> Recipe:
        return RECIPES[self.recipe].changed(self.settings)

    def options(self, out: str, **machine: Any) -> RunOptions:
        return RunOptions(
            self.dataset,
            out,
            tasks=self.tasks,
            seed=self.seed,
            class_order_seed=self.class_order,
            selection=self.selection,
            precision=self.precision,
            **machine,
        )

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def cells_of(study: Study, choices: Choices) -> list[Cell]:
    """The runs that count, seed by seed, so that an unfinished study has something of everything."""
    return [
        _cell(study, row, column, seed, order, settings_of(study, row, column, choices.get((column.name, row.name))))
        for order in study.class_orders
        for seed in study.seeds
        for column, row in pairs(study)
    ]


def trials_of(study: Study, column: Column, row: Row) -> list[Cell]:
    """The runs that choose a row's settings in one column."""
    cells = []
    for values in itertools.product(*row.tune.values()):
        tried = dict(zip(row.tune, values, strict=True))
        settings = settings_of(study, row, column, nested(tried))
        name = ",".join(f"{key}={value}" for key, value in tried.items())
        cells.append(_cell(study, row, column, study.tuning_seed, 0, settings, name))
    return cells


def pairs(study: Study) -> list[tuple[Column, Row]]:
    """Every (column, row) that has cells and whose set and recipe this version has."""
    return [(c, r) for c, r in all_pairs(study) if c.missing is None and r.missing is None]


def all_pairs(study: Study) -> list[tuple[Column, Row]]:
    return [(c, r) for c in study.columns for r in study.rows if any(fnmatch(c.name, p) for p in r.columns)]


def check_patterns(study: Study, only: Sequence[str]) -> None:
    names = [f"{column.name}:{row.name}" for column, row in all_pairs(study)]
    for pattern in only:
        if not any(fnmatch(name, pattern) for name in names):
            raise InputError(f"--only {pattern!r} matches no cell: give COLUMN:ROW, such as {', '.join(names[:3])}.")


def matching(cells: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """The cells of some (column, row) pairs: patterns such as cifar10-5:owm* or *:finetune; none means all."""
    names = [f"{cell.column}:{cell.row}" for cell in cells]
    kept = [not only or any(fnmatch(name, pattern) for pattern in only) for name in names]
    return [cell for cell, keep in zip(cells, kept, strict=True) if keep]


def settings_of(study: Study, row: Row, column: Column, chosen: Groups | None = None) -> dict[str, dict[str, Any]]:
    """The later ones win: the study's, the column's, the row's, those chosen on validation data."""
    own = RECIPES[row.recipe].groups()
    merged: dict[str, dict[str, Any]] = {}
    for part in (study, column):
        epochs = {"training": {"epochs": part.epochs}} if part.epochs is not None else {}
        for groups in (epochs, part.settings):
            _merge(merged, {group: values for group, values in groups.items() if group in own})
    _merge(merged, row.settings)
    _merge(merged, chosen or {})
    return merged


def nested(flat: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """{"rotation.weight": 2} as groups."""
    groups: dict[str, dict[str, Any]] = {}
    for key, value in flat.items():
        group, _, setting = key.partition(".")
        groups.setdefault(group, {})[setting] = value
    return groups


def disagreement(cell: Cell, result: Mapping[str, Any]) -> str | None:
    """How a stored result differs from what the cell asks for; settings that did not exist then do not count."""
    recipe = cell.chosen_recipe().for_set(set_info(cell.dataset))
    wanted: dict[str, Any] = {name: getattr(cell, name) for name in ("recipe", "dataset", "tasks", "seed", "selection")}
    wanted["class_order_seed"] = cell.class_order
    if cell.precision != "auto":
        wanted["precision"] = cell.precision
    found = {name: result.get(name) for name in wanted}
    stored = result.get("settings", {})
    for group, values in recipe.settings().items():
        for name in sorted(set(values) & set(stored.get(group, {}))):
            wanted[f"{group}.{name}"], found[f"{group}.{name}"] = values[name], stored[group][name]
    for name, value in wanted.items():
        if _listed(value) != _listed(found[name]):
            return f"its result has {name} {found[name]!r}, and the study asks for {_listed(value)!r}"
    return None


def _cell(study: Study, row: Row, column: Column, seed: int, order: int, settings: Groups, trial: str = "") -> Cell:
    return Cell(
        column=column.name,
        row=row.name,
        recipe=row.recipe,
        dataset=column.dataset,
        tasks=column.tasks,
        seed=seed,
        class_order=order,
        selection=study.selection if "training" in RECIPES[row.recipe].groups() else "last",  # no epochs, no choice
        precision=study.precision,
        settings=settings,
        trial=trial,
    )


def _merge(into: dict[str, dict[str, Any]], groups: Groups) -> None:
    for group, values in groups.items():
        into.setdefault(group, {}).update(values)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
