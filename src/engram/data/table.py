"""People's own tables: CSV, JSONL or parquet, with numbers or a text in each row, and a column of labels."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from engram.errors import DataError, InputError

ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
LARGEST = float(np.finfo(np.float32).max)

Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A file's rows by column; a row that could not be read is the sentence that says so."""

    path: Path
    columns: list[str]
    rows: list[tuple[int, Row | str]]
    """with the number of the line or row in the file, from 1"""

    def place(self, number: int) -> str:
        return f"{self.path}:{number}"


@dataclass(frozen=True)
class TableForm:
    """Which columns are learnt from, and as what; fixed by the first task."""

    label: str
    columns: tuple[str, ...]
    kind: Literal["numbers", "text"]

    @classmethod
    def of(cls, table: Table, label: str, columns: Sequence[str]) -> Self:
        """All columns but the label's unless some are named; numbers, or a single column of text."""
        chosen = tuple(columns) or tuple(name for name in table.columns if name != label)
        need(table, (*chosen, label))
        if label in chosen or not chosen:
            raise InputError(
                f"No column of {table.path} is left to learn from beside the label {label!r}: name others."
            )
        if "" in chosen:
            raise InputError(f"A column of {table.path} has no name: name those to learn from with --columns.")
        texts = {name: found for name in chosen if (found := _first_text(table, name))}
        if not texts:
            return cls(label, chosen, "numbers")
        if len(chosen) == 1:
            return cls(label, chosen, "text")
        name, where = next(iter(texts.items()))
        raise InputError(
            f"Column {name!r} of {table.path} holds text ({where}), and it is not the only one: name columns of "
            "numbers, or a single one of text, with --columns."
        )

    def read(self, row: Row) -> np.ndarray | str:
        """A row's numbers, or its text."""
        if self.kind == "numbers":
            return np.array([_number(row.get(name), name) for name in self.columns], np.float32)
        text = row.get(self.columns[0])
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"has no text in column {self.columns[0]!r}")
        return text

    def label_of(self, row: Row) -> str:
        """Class names are text, also where they are numbers."""
        value = row.get(self.label)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is None or (isinstance(value, str) and not value.strip()):
            raise DataError(f"has no label in column {self.label!r}")
        if not isinstance(value, str | int):
            raise DataError(f"has {value!r} in column {self.label!r}, which is no class")
        return str(value)

    def state(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        return cls(state["label"], tuple(state["columns"]), state["kind"])

    def __str__(self) -> str:
        if self.kind == "text":
            return f"texts of column {self.columns[0]!r}"
        named = ", ".join(self.columns[:8]) + (", ..." if len(self.columns) > 8 else "")
        return f"tables of {len(self.columns)} columns: {named}"


def need(table: Table, names: Sequence[str]) -> None:
    for name in names:
        if name not in table.columns:
            there = ", ".join(map(repr, table.columns[:20])) or "none"
            raise DataError(
                f"{table.path} has no column {name!r}; there are {there}: name another with --label or "
                "--columns, or rename it."
            )


def one_kind_of_labels(table: Table, label: str) -> None:
    """1 and "1" would become one class."""
    kinds = {type(row[label]).__name__ for _, row in table.rows if isinstance(row, dict) and row.get(label) is not None}
    kinds = {"number" if kind in ("int", "float") else kind for kind in kinds}
    if len(kinds) > 1:
        raise DataError(f"The labels of {table.path} mix types ({', '.join(sorted(kinds))}): use one for all classes.")


def read_table(path: Path) -> Table:
    """By the file's ending."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise DataError(f"{path} is neither a folder nor a table: tables end in {', '.join(ENDINGS)}.")
    table = _read_parquet(path) if ending == ".parquet" else _read_lines(path, ending)
    if not table.rows:
        raise DataError(f"{path} holds no rows: give at least one.")
    return table


def _read_lines(path: Path, ending: str) -> Table:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): check the path and its permissions.") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise DataError(f"{path} is no UTF-8 text (see line {line}): save it as UTF-8.") from error
    return _read_json_lines(path, text) if ending in (".jsonl", ".ndjson") else _read_csv(path, text, ending)


def _read_csv(path: Path, text: str, ending: str) -> Table:
    first = text.partition("\n")[0]
    semicolons = ";" in first and "," not in first  # as spreadsheets write where the comma is for decimals
    reader = csv.reader(io.StringIO(text), delimiter="\t" if ending == ".tsv" else ";" if semicolons else ",")
    try:
        lines = [(reader.line_num, line) for line in reader if line]
    except csv.Error as error:
        raise DataError(f"{path} cannot be read as CSV from line {reader.line_num} on: {error}.") from error
    columns = [name.strip() for name in lines[0][1]] if lines else []
    if repeated := [name for name in columns if columns.count(name) > 1]:
        raise DataError(f"{path} has several columns named {repeated[0]!r}: rename all but one.")
    return Table(path, columns, [(number, _as_row(columns, values)) for number, values in lines[1:]])


def _as_row(columns: list[str], values: list[str]) -> Row | str:
    if len(values) != len(columns):
        return f"has {len(values)} values, and the header {len(columns)} names"
    return dict(zip(columns, values, strict=True))


def _read_json_lines(path: Path, text: str) -> Table:
    rows = [(number, _json_row(line)) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    columns = list(dict.fromkeys(name for _, row in rows if isinstance(row, dict) for name in row))
    return Table(path, columns, rows)


def _json_row(line: str) -> Row | str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return "is no JSON"
    return row if isinstance(row, dict) else "is no JSON object with a name for each value"


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"{path} needs pyarrow to be read: pip install 'engram[parquet]', or save it as CSV.") from None
    try:
        # one file and not a data set: partitions of folders above it would become columns
        content = pyarrow.parquet.ParquetFile(path).read()
        return Table(path, content.column_names, list(enumerate(content.to_pylist(), 1)))
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or 'it is damaged'}): check the file.") from error
    except (pyarrow.ArrowException, ValueError) as error:
        raise DataError(f"{path} cannot be read as parquet ({str(error).splitlines()[0]}): check the file.") from error


def _first_text(table: Table, name: str) -> str | None:
    """The first value that is neither a number nor missing, and its row."""
    for number, row in table.rows:
        value = row.get(name) if isinstance(row, dict) else None
        if isinstance(value, str) and value.strip() and _as_float(value) is None:
            return f"{value[:30]!r} in row {number}"
    return None


def _number(value: Any, name: str) -> float:
    found = _as_float(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        raise DataError(f"has nothing in column {name!r}")
    if found is None or not math.isfinite(found) or abs(found) > LARGEST:
        raise DataError(f"has {str(value)[:30]!r} in column {name!r}, which is no finite number")
    return found


def _as_float(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
