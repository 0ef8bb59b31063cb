"""What a report is made from: the results of a folder, by column and row, and what is still missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.recipes import RECIPES
from engram.report import paper
from engram.report.tables import effort
from engram.study.folder import Contents, Found, read_folder
from engram.study.grid import cells_of
from engram.study.statistics import Summary, summarise


@dataclass(frozen=True)
class Progress:
    """How much of one column is done; cells by their place."""

    column: str
    done: int
    wanted: int
    missing: tuple[str, ...] = ()


class Evidence:
    """Sorted results of one folder; of one class order, the natural one if it is there, unless another is named."""

    def __init__(self, folder: Path) -> None:
        self.contents: Contents = read_folder(folder)
        self.study = self.contents.study
        self.folder = folder
        found = self.contents.results
        self.class_order = min((one.class_order for one in found), default=0)
        self._cells: dict[tuple[str, str, int], list[Found]] = defaultdict(list)
        for one in sorted(found, key=lambda one: one.seed):
            self._cells[one.column, one.row, one.class_order].append(one)
        self.columns = self._columns()
        self.rows = self._rows()

    def results(self, column: str, row: str, class_order: int | None = None) -> list[Found]:
        order = self.class_order if class_order is None else class_order
        return self._cells.get((column, row, order), [])

    def all_results(self, column: str) -> list[Found]:
        return [one for row in self.rows for one in self.results(column, row)]

    def values(self, column: str, row: str, name: str, class_order: int | None = None) -> list[float]:
        """A measure of every seed, without those that do not have it."""
        values = (one.result.get(name) for one in self.results(column, row, class_order))
        return [value for value in values if value is not None]

    def summary(self, column: str, row: str, name: str, class_order: int | None = None) -> Summary | None:
        return summarise(self.values(column, row, name, class_order))

    def over_tasks(self, column: str, row: str, name: str) -> list[Summary]:
        """A measure that has a value for each task, task by task."""
        lists: list[list[float]] = [one.result.get(name) or [] for one in self.results(column, row)]
        summaries = (summarise(values) for values in zip(*lists, strict=False))
        return [summary for summary in summaries if summary]

    def rows_in(self, column: str) -> list[str]:
        """Rows that have a result there."""
        return [row for row in self.rows if self.results(column, row)]

    def tasks(self, column: str) -> int:
        """Found in the results, as a folder that no study made may have any name."""
        return max(one.result["tasks"] for one in self.all_results(column))

    def stores_samples(self, column: str, row: str) -> bool:
        return any(one.result["recipe"] in storing() for one in self.results(column, row))

    def class_orders(self) -> list[int]:
        return sorted({order for _, _, order in self._cells})

    def progress(self) -> list[Progress]:
        """By column; without a study nobody knows what is missing."""
        if self.study is None:
            return []
        done = {one.place for one in self.contents.results}
        cells = cells_of(self.study, {})
        return [
            Progress(
                column.name,
                sum(cell.place in done for cell in cells if cell.column == column.name),
                sum(cell.column == column.name for cell in cells),
                tuple(cell.place for cell in cells if cell.column == column.name and cell.place not in done),
            )
            for column in self.study.columns
            if any(cell.column == column.name for cell in cells)
        ]

    def _columns(self) -> list[str]:
        found = {one.column for one in self.contents.results}
        wanted = [column.name for column in self.study.columns] if self.study else paper.order()[0]
        return [name for name in wanted if self.study or name in found] + sorted(found - set(wanted))

    def _rows(self) -> list[str]:
        found = {one.row for one in self.contents.results}
        if self.study:
            wanted = [row.name for row in self.study.rows]
        else:
            known = set(paper.rows()) if set(self.columns) & set(paper.order()[0]) else set()
            wanted = [name for name in paper.order()[1] if name in found | known]
        return wanted + sorted(found - set(wanted))


def storing() -> list[str]:
    """Recipes that keep old samples, and so do not compete with the others."""
    return [name for name, recipe in RECIPES.items() if recipe.keeps_data or recipe.exemplars]


def protocols(results: Iterable[Found]) -> list[str]:
    """How these results came about, one line for each way."""
    ways: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for one in results:
        ways[_way(one)][one.row].append(one.seed)
    lines = []
    for way, rows in ways.items():
        by_seeds: dict[str, list[str]] = defaultdict(list)
        for row, seeds in rows.items():
            by_seeds[_seeds(seeds)].append(row)
        lines.append(f"{way}; " + "; ".join(f"{seeds}: {', '.join(names)}" for seeds, names in by_seeds.items()))
    return lines


def _way(one: Found) -> str:
    result: Any = one.result
    order = f"class order {one.class_order}" if one.class_order else "natural class order"
    samples = result.get("samples", {}).get("test")
    tested = f", {samples:,} test samples" if samples else ""
    return (
        f"{one.column}: {result['tasks']} tasks, {order}, {effort(result)} a task, "
        f"selection {result.get('selection')}, {result.get('precision')} on {result.get('device')}{tested}"
    )


def _seeds(seeds: Sequence[int]) -> str:
    seeds = sorted(set(seeds))
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]}-{seeds[-1]}"
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
