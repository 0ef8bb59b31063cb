"""A model file of the command line: a saved Learner whose notes say how inputs are read and what was taught when."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engram.data.own import Form, form_from
from engram.errors import FileError
from engram.learner import Learner


def open_model(path: str, device: str = "auto") -> Learner:
    if not Path(path).exists():
        raise FileError(f"{path} does not exist: `engram learn {path} PATH` makes it.")
    return Learner.load(path, device=device)


def form_of(learner: Learner, path: str) -> Form:
    """How the model's inputs are read."""
    if "form" not in learner.notes_:
        raise FileError(f"{path} was saved in Python and does not say how files become its inputs: use it in Python.")
    try:
        return form_from(learner.notes_["form"])
    except (KeyError, TypeError) as error:
        raise FileError(f"{path} says how its inputs are read in a way that this Engram does not know.") from error


def lessons_of(learner: Learner) -> list[dict[str, Any]]:
    """What was learnt when, in order: {"when", "classes": {name: {"learnt", "held_out", "right", "new"}}}."""
    return learner.notes_.setdefault("lessons", [])


def tasks_of(learner: Learner) -> dict[str, int]:
    """The lesson that each class first came with."""
    first: dict[str, int] = {}
    for index, lesson in enumerate(lessons_of(learner)):
        for name in lesson["classes"]:
            first.setdefault(name, index)
    return first


def known_classes(learner: Learner) -> list[Any]:
    """Those learnt so far, announced ones left out."""
    return sorted(learner.table_.seen)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
