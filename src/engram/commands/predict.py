"""`engram predict`: classes and probabilities of people's own files."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engram.commands.model import form_of, open_model
from engram.commands.words import share, shown, tell_left_out
from engram.data.own import Samples, read_inputs
from engram.errors import InputError
from engram.learner import LARGEST_SCORES, Learner
from engram.progress import each

if TYPE_CHECKING:
    from engram.commands.asked import PredictCommand

UNKNOWN = "unknown"
ROWS = 1024


@dataclass(frozen=True)
class Answer:
    """The most probable classes of one sample, the first of them first."""

    place: str
    classes: list[str]
    probabilities: list[float]
    rejected: bool

    @property
    def name(self) -> str:
        return UNKNOWN if self.rejected else self.classes[0]


def predict(asked: PredictCommand) -> None:
    if asked.csv and asked.json:
        raise InputError("--csv and --json exclude each other: choose one.")
    if asked.top < 1:
        raise InputError(f"--top must be at least 1, not {asked.top}.")
    check_probability(asked.reject_below)
    if not asked.paths:
        raise InputError("There is nothing to predict: name images, folders of images or tables.")
    learner = open_model(asked.model, asked.device)
    form = form_of(learner, asked.model)
    with each(asked.quiet) as going:
        samples = read_inputs([Path(path) for path in asked.paths], form, asked.strict, going)
        answers = answers_to(learner, samples, asked.top, asked.reject_below, going)
    tell_left_out(samples.left_out)
    (_write_csv if asked.csv else _write_json if asked.json else _write_lines)(answers)


def answers_to(learner: Learner, samples: Samples, top: int, reject_below: float, going: Any) -> list[Answer]:
    """In parts, as there may be very many samples times classes."""
    seen = len(learner.table_.seen)
    rows = max(1, min(ROWS, LARGEST_SCORES // max(1, seen)))
    answers = []
    for start in going(range(0, len(samples), rows), "predicting"):
        part = samples.only(np.arange(start, min(start + rows, len(samples))))
        probabilities = learner.predict_proba(part.x)
        order = np.argsort(-probabilities, axis=1, kind="stable")[:, : min(top, seen)]
        for place, row, chosen in zip(part.places, probabilities, order, strict=True):
            names = [str(name) for name in learner.classes_[chosen].tolist()]
            found = row[chosen].tolist()
            answers.append(Answer(place, names, found, found[0] < reject_below))
    return answers


def check_probability(value: float) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"--reject-below must be a probability from 0 to 1, not {value}.")


def _write_lines(answers: list[Answer]) -> None:
    for answer in answers:
        found = zip(answer.classes, answer.probabilities, strict=True)
        named = ", ".join(f"{shown(name)} {share(probability)}" for name, probability in found)
        print(f"{shown(answer.place)}: {f'{UNKNOWN} ({named})' if answer.rejected else named}")


def _write_csv(answers: list[Answer]) -> None:
    """As UTF-8 whatever the terminal's own encoding."""
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", newline="")  # pyright: ignore
    writer = csv.writer(sys.stdout)
    width = len(answers[0].classes)
    ranked = [f"{what}{rank}" for rank in range(1, width + 1) for what in ("class", "probability")]
    writer.writerow(["input", "answer", *ranked])
    for answer in answers:
        pairs = zip(answer.classes, answer.probabilities, strict=True)
        writer.writerow([answer.place, answer.name, *(cell for pair in pairs for cell in pair)])


def _write_json(answers: list[Answer]) -> None:
    content = [
        {
            "input": answer.place,
            "answer": answer.name,
            "rejected": answer.rejected,
            "classes": [
                {"class": name, "probability": probability}
                for name, probability in zip(answer.classes, answer.probabilities, strict=True)
            ],
        }
        for answer in answers
    ]
    print(json.dumps(content, indent=1))
