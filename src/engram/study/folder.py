"""A study's folder: what lies in each cell. The result.json files are the truth; everything else is made of them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engram import files
from engram.errors import FileError
from engram.study.definition import Study
from engram.study.grid import Cell, disagreement
from engram.study.protocol import read_result
from engram.study.reading import read_stored
from engram.study.run import ANALYSIS, CHECKPOINT, RESULT

STUDY = "study.json"
FAILED = "failed.json"
CHOICE = "choice.json"

Status = Literal["done", "half done", "to do", "failed"]


@dataclass(frozen=True)
class Found:
    """A result, and the cell that it lies in."""

    column: str
    row: str
    place: str
    result: Mapping[str, Any]
    analysis: Path | None
    """real and generated features, where the recipe generates some"""

    @property
    def seed(self) -> int:
        return self.result["seed"]

    @property
    def class_order(self) -> int:
        return self.result["class_order_seed"]


@dataclass(frozen=True)
class Contents:
    """Everything that a study's folder holds."""

    study: Study | None
    results: tuple[Found, ...]
    failures: Mapping[str, str]
    """reasons by place"""
    choices: tuple[Mapping[str, Any], ...]


def read_folder(folder: Path) -> Contents:
    """Take in COLUMN/ROW/SEED/result.json, whether or not a study put them there."""
    if not folder.is_dir():
        raise FileError(f"{folder} is not a folder: name one that holds COLUMN/ROW/seedK/result.json.")
    study = read_stored(folder / STUDY) if (folder / STUDY).exists() else None
    failures = {_place(folder, path): _reason(path) for path in sorted(folder.glob(f"*/*/*/{FAILED}"))}
    results = []
    for path in sorted(folder.glob(f"*/*/*/{RESULT}")):
        try:
            results.append(_found(folder, path))
        except FileError as error:
            failures[_place(folder, path)] = str(error)
    choices = (_json(path) for path in sorted(folder.glob(f"*/*/{CHOICE}")))
    return Contents(study, tuple(results), failures, tuple(one for one in choices if "trials" in one))


def status(folder: Path, cell: Cell) -> tuple[Status, str]:
    """How far a cell is, and why it failed."""
    place = folder / cell.place
    if (place / RESULT).exists():
        try:
            reason = disagreement(cell, read_result(place / RESULT))
        except FileError as error:
            reason = str(error)
        return ("failed", f"{reason}: delete it, or choose another --out") if reason else ("done", "")
    if (place / FAILED).exists():
        return "failed", _reason(place / FAILED)
    return ("half done" if (place / CHECKPOINT).exists() else "to do"), ""


def write_failure(place: Path, reason: str, details: str = "") -> None:
    files.write_json(place / FAILED, {"error": reason, "details": details})


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """One process at a time in a cell; it waits for one that a killed study has left behind."""
    files.make_folder(place)
    descriptor = os.open(place, os.O_RDONLY) if os.name == "posix" else None
    try:
        if descriptor is not None:
            import fcntl

            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _found(folder: Path, path: Path) -> Found:
    result = read_result(path)
    analysis = path.with_name(ANALYSIS)
    column, row, _ = _place(folder, path).split("/")
    return Found(column, row, _place(folder, path), result, analysis if analysis.exists() else None)


def _place(folder: Path, path: Path) -> str:
    return path.parent.relative_to(folder).as_posix()


def _reason(path: Path) -> str:
    return str(_json(path).get("error", "for a reason that was not written down"))


def _json(path: Path) -> dict[str, Any]:
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return {"error": f"{path} cannot be read: {error}"}
    return plain if isinstance(plain, dict) else {}
