"""Settings chosen by validation data: a few runs with a seed of their own, before the seeds that count."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram import files
from engram.errors import FileError
from engram.study.folder import CHOICE, RESULT, status
from engram.study.grid import Cell
from engram.study.protocol import read_result


@dataclass(frozen=True)
class Trial:
    """One set of values, and how it did; `score` is the accuracy on the validation data of all classes."""

    cell: Cell
    values: dict[str, Any]
    score: float | None
    seconds: float
    remark: str = ""

    def plain(self) -> dict[str, Any]:
        return {"values": self.values, "validation_accuracy": self.score, "remark": self.remark}


def score(folder: Path, cell: Cell, tuned: Sequence[str]) -> Trial:
    values = {key: _value(cell, key) for key in tuned}
    state, reason = status(folder, cell)
    if state != "done":
        return Trial(cell, values, None, 0.0, reason or state)
    result = read_result(folder / cell.place / RESULT)
    return Trial(cell, values, result.get("validation_accuracy"), result["seconds"])


def choose(trials: Sequence[Trial]) -> Trial | None:
    """The best score; of equals the first in the grid. None until every trial has ended, or where all failed."""
    if any(trial.remark in ("to do", "half done") for trial in trials):
        return None
    scored = [trial for trial in trials if trial.score is not None]
    return max(scored, key=lambda trial: trial.score or 0.0) if scored else None


def write_choice(folder: Path, trials: Sequence[Trial], chosen: Trial) -> None:
    """Beside the row's seeds, for the report and for whoever wants to know."""
    cell = chosen.cell
    path = folder / cell.column / cell.row / CHOICE
    plain = {
        "column": cell.column,
        "row": cell.row,
        "seed": cell.seed,
        "chosen": chosen.values,
        "by": "accuracy on the validation data of all classes after the last task",
        "trials": [trial.plain() for trial in trials],
    }
    if not path.exists() or _read(path) != json.loads(json.dumps(plain)):
        files.write_json(path, plain)


def _value(cell: Cell, key: str) -> Any:
    group, _, setting = key.partition(".")
    return cell.settings[group][setting]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error}.") from error
