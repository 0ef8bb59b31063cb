"""`engram evaluate`: a model measured on labelled data of one's own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from engram.commands.model import form_of, known_classes, lessons_of, open_model, tasks_of
from engram.commands.predict import Answer, answers_to, check_probability
from engram.commands.words import count, listed, share, shown, tell_left_out
from engram.data.own import Choice, Samples, read_lesson
from engram.errors import DataError
from engram.learner import Learner
from engram.progress import each
from engram.study.metrics import confusion_matrix, errors_by_task

if TYPE_CHECKING:
    from engram.commands.asked import EvaluateCommand

MOST_CLASSES = 2000
"""up to which the counts of all pairs of classes are kept"""


@dataclass(frozen=True)
class Evaluation:
    """Predictions for samples of learnt classes, and how many of others there were."""

    classes: list[str]
    tasks: list[int]
    """the lesson that each class first came with"""
    true: np.ndarray
    predicted: np.ndarray
    rejected: np.ndarray
    strangers: dict[str, int]
    strangers_rejected: int

    def confusion(self) -> np.ndarray:
        return confusion_matrix(self.true, self.predicted, len(self.classes))

    def numbers(self) -> dict[str, Any]:
        confusion = self.confusion()
        accuracy, inter, inner = errors_by_task(confusion, self.tasks)
        answered = ~self.rejected
        right = self.true == self.predicted
        return {
            "samples": len(self.true),
            "accuracy": accuracy,
            "inter_task_error": inter,
            "inner_task_error": inner,
            "classes": [
                {
                    "class": name,
                    "lesson": self.tasks[column] + 1,
                    "samples": int(row.sum()),
                    "accuracy": float(row[column] / row.sum()) if row.sum() else None,
                }
                for column, (name, row) in enumerate(zip(self.classes, confusion, strict=True))
            ],
            "answered": float(answered.mean()),
            "accuracy_of_answers": float(right[answered].mean()) if answered.any() else None,
            "not_learnt": self.strangers,
            "not_learnt_rejected": self.strangers_rejected,
            "confusion": confusion.tolist(),
        }


def evaluate(asked: EvaluateCommand) -> None:
    check_probability(asked.reject_below)
    learner = open_model(asked.model, asked.device)
    form = form_of(learner, asked.model)
    if len(known_classes(learner)) > MOST_CLASSES:
        raise DataError(
            f"{asked.model} knows more than the {MOST_CLASSES:,} classes that this can compare: use predict."
        )
    with each(asked.quiet) as going:
        _, samples = read_lesson(Path(asked.path), form, Choice(label=asked.label), asked.strict, going)
        answers = answers_to(learner, samples, 1, asked.reject_below, going)
    tell_left_out(samples.left_out)
    found = compared(learner, samples, answers)
    if asked.picture is not None:
        from engram.report.figures import confusion_figure

        confusion_figure(found.confusion(), found.classes, Path(asked.picture))
    if asked.json:
        print(json.dumps(found.numbers(), indent=1))
    else:
        _print(found, asked.reject_below, len(lessons_of(learner)))


def compared(learner: Learner, samples: Samples, answers: list[Answer]) -> Evaluation:
    """Answers beside the labels; samples of classes that were not learnt are only counted."""
    columns = {str(name): column for column, name in enumerate(known_classes(learner))}
    true = np.array([columns.get(label, -1) for label in samples.labels.tolist()])
    learnt = true >= 0
    if not learnt.any():
        strange = str(samples.labels[0])
        raise DataError(f"No class of this data has been learnt, such as {strange!r}: see `engram show`.")
    names, counts = np.unique(samples.labels[~learnt], return_counts=True)
    predicted = np.array([columns[answer.classes[0]] for answer in answers])
    rejected = np.array([answer.rejected for answer in answers])
    first, elsewhere = tasks_of(learner), len(lessons_of(learner))  # what was learnt in Python has no lesson here
    return Evaluation(
        list(columns),
        [first.get(name, elsewhere) for name in columns],
        true[learnt],
        predicted[learnt],
        rejected[learnt],
        dict(zip(names.tolist(), counts.tolist(), strict=True)),
        int(rejected[~learnt].sum()),
    )


def _print(found: Evaluation, reject_below: float, lessons: int) -> None:
    numbers = found.numbers()
    table = Table("class", "lesson", "samples", "accuracy", "most taken for")
    confusion = found.confusion()
    for one, row, column in zip(numbers["classes"], confusion, range(len(confusion)), strict=True):
        accuracy = "" if one["accuracy"] is None else share(one["accuracy"])
        table.add_row(
            Text(shown(one["class"])),
            str(one["lesson"]),
            f"{one['samples']:,}",
            accuracy,
            _mistaken(found, row, column),
        )
    Console().print(table)
    print(
        f"accuracy {share(numbers['accuracy'])} of {count(numbers['samples'], 'sample')}, among all "
        f"{count(len(found.classes), 'learnt class', 'learnt classes')} of {count(lessons, 'lesson')}"
    )
    print(
        f"errors: {share(numbers['inter_task_error'])} taken for a class of another lesson, "
        f"{share(numbers['inner_task_error'])} for another class of the same lesson"
    )
    if reject_below:
        of_answers = numbers["accuracy_of_answers"]
        rightly = "" if of_answers is None else f", of which {share(of_answers)} are right"
        print(f"with --reject-below {reject_below:g}: {share(numbers['answered'])} are answered{rightly}")
    if found.strangers:
        total = sum(found.strangers.values())
        said = f", of which {found.strangers_rejected:,} are answered unknown" if reject_below else ""
        print(f"not counted: {count(total, 'sample')} of classes not learnt ({listed(list(found.strangers))}){said}")


def _mistaken(found: Evaluation, row: np.ndarray, column: int) -> Text:
    others = np.where(np.arange(len(row)) == column, 0, row)
    worst = int(others.argmax())
    return Text(f"{shown(found.classes[worst])} {share(others[worst] / row.sum())}" if others[worst] else "")
