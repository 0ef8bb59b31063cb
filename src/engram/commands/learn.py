"""`engram learn`: one task of one's own data."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engram import files
from engram.commands.model import form_of, known_classes, lessons_of, now, open_model
from engram.commands.words import count, listed, share, shown, tell_left_out
from engram.data.own import Choice, Form, Samples, held_out, read_lesson
from engram.errors import FileError, InputError
from engram.learner import Learner
from engram.lesson import Position, Watch
from engram.progress import Progress, each
from engram.recipes import Recipe, recipe

if TYPE_CHECKING:
    from engram.commands.asked import LearnCommand

FIXED = ("columns", "image_size", "recipe", "settings", "seed")
"""what a model is made with"""


def learn(asked: LearnCommand) -> None:
    started, before = time.perf_counter(), _stamp(asked.model)
    if not 0 <= asked.held_out < 1:
        raise InputError(f"--held-out must be at least 0 and below 1, not {asked.held_out}.")
    old = _existing(asked)
    learner = old or _fresh(asked)
    form = None if old is None else form_of(old, asked.model)
    choice = Choice(asked.image_size, asked.label, asked.columns)
    with each(asked.quiet) as reading:
        form, samples = read_lesson(Path(asked.path), form, choice, asked.strict, reading)
    tell_left_out(samples.left_out)
    files.make_folder(Path(asked.model).resolve().parent)  # found out before the learning rather than after it
    lesson = Lesson(learner, samples, asked.held_out)
    with Progress(f"learning {Path(asked.path).name}", asked.quiet) as progress:
        lesson.learn(progress)
    lesson.note(form)
    if _stamp(asked.model) != before:
        raise FileError(f"{asked.model} was changed by another while this learnt: learn again, to lose neither.")
    learner.save(asked.model)
    print("\n".join(lesson.told(time.perf_counter() - started)))
    size = Path(asked.model).stat().st_size / 1e6
    print(f"model: {asked.model} ({size:.1f} MB, {count(len(known_classes(learner)), 'class', 'classes')})")


class Lesson:
    """A task's samples on their way into a learner, and what can be said of it afterwards."""

    def __init__(self, learner: Learner, samples: Samples, share: float) -> None:
        self.learner = learner
        self.known = known_classes(learner) if hasattr(learner, "table_") else []
        held = held_out(samples, share)
        self.train, self.test = samples.only(np.flatnonzero(~held)), samples.only(np.flatnonzero(held))
        self.classes = np.unique(samples.labels).tolist()
        self.new = sorted(set(self.classes) - set(self.known))
        self.again = sorted(set(self.classes) & set(self.known))
        if self.again and learner.recipe_.method == "dgm":
            raise InputError(
                f"Recipe 'dgm' learns each class once, and {self.again[0]!r} is known already: what it knew of it "
                "would be lost; leave it out, or use 'analytic', which takes more of known classes."
            )

    def learn(self, progress: Progress) -> None:
        before = self.learner.expected_accuracy(self.known) if self.known else None
        progress.task(0, 1)
        self.learner.learn(self.train.x, self.train.labels, None, Shown(progress))
        self.predicted = self.learner.predict(self.test.x) if len(self.test) else np.array([], str)
        after = self.learner.expected_accuracy(self.known) if self.known else None
        self.expected = None if before is None or after is None else (before, after)

    def note(self, form: Form) -> None:
        """Into the model's file, where `engram show` finds it."""
        learnt, tested = Counter(self.train.labels.tolist()), Counter(self.test.labels.tolist())
        right = Counter(self.test.labels[self.predicted == self.test.labels].tolist())
        classes = {
            name: {"learnt": learnt[name], "held_out": tested[name], "right": right[name]} for name in self.classes
        }
        self.learner.notes_["form"] = form.state()
        lessons_of(self.learner).append({"when": now(), "classes": classes})

    def told(self, seconds: float) -> list[str]:
        new = f"{count(len(self.new), 'new class', 'new classes')}: {listed(self.new)}" if self.new else "no new class"
        lines = [f"learnt {count(len(self.train), 'sample')} in {seconds:.1f} s; {new}"]
        if self.again:
            lines.append(f"more of known classes: {listed(self.again)} ({self._how_more_is_learnt()})")
        return [*lines, *self._measured(), *self._lost()]

    def _how_more_is_learnt(self) -> str:
        method = self.learner.recipe_.method
        if method == "analytic":
            return "added to the sums: as if all had come at once"
        if method == "joint":
            return "stored with the others"
        return f"{self.learner.recipe_.name} trains on the new samples of them; the old ones are not there"

    def _measured(self) -> list[str]:
        if not len(self.test):
            return ["accuracy: not measured, as no samples were held out (see --held-out)"]
        right = self.predicted == self.test.labels
        among = count(len(self.learner.table_.seen), "class", "classes")
        lines = [
            f"accuracy on the {count(len(right), 'sample')} of these classes that were held out, among all {among}: "
            f"{share(float(right.mean()))}"
        ]
        each_class = {name: right[self.test.labels == name] for name in self.classes}
        worst = sorted((float(found.mean()), name) for name, found in each_class.items() if len(found))[:5]
        if len(self.classes) > 1:
            lines.append("  lowest: " + ", ".join(f"{shown(name)} {share(value)}" for value, name in worst))
        return lines

    def _lost(self) -> list[str]:
        """What is known of the old classes without any sample of them."""
        if not self.known:
            return []
        if self.expected is None:
            lines = ["old classes: what they lost is not known, as no sample of them is there to measure with"]
        else:
            before, after = self.expected
            lines = [
                f"old classes: estimated accuracy {share(before)} before and {share(after)} now; from stored sums, as "
                "no sample of them is there to measure with: what new classes take from them, nothing is unlearnt"
            ]
        of_new = np.isin(self.test.labels, self.new)
        if of_new.any():
            taken = int(np.isin(self.predicted[of_new], self.known).sum())
            lines.append(f"  {taken:,} of {int(of_new.sum()):,} held-out samples of new classes are taken for old ones")
        return lines


class Shown(Watch):
    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def stepped(self, position: Position) -> None:
        self.progress.stepped(position)

    def worked(self, what: str, done: int, total: int) -> None:
        self.progress.worked(what, done, total)


def _stamp(path: str) -> tuple[int, int] | None:
    """Another once the file has been written again."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def _existing(asked: LearnCommand) -> Learner | None:
    if not Path(asked.model).exists():
        return None
    for name in FIXED:
        if getattr(asked, name) not in (None, ()):
            flag = "set" if name == "settings" else name.replace("_", "-")
            raise InputError(f"{asked.model} is there already, and --{flag} is for new models: leave it out.")
    return open_model(asked.model, asked.device)


def _fresh(asked: LearnCommand) -> Learner:
    groups: dict[str, dict[str, Any]] = {}
    for word in asked.settings:
        name, equals, value = word.partition("=")
        group, dot, key = name.partition(".")
        if not (equals and dot):
            raise InputError(f"--set {word} is not understood: write GROUP.NAME=VALUE, such as analytic.size=large.")
        groups.setdefault(group, {})[key] = _plain(value)
    chosen: Recipe = recipe(asked.recipe or "analytic").changed(groups)
    return Learner(chosen, seed=asked.seed or 0, device=asked.device)


def _plain(value: str) -> Any:
    """Numbers, lists, true, false and null as in JSON; everything else is a word."""
    try:
        found = json.loads(value)
    except ValueError:
        return value
    return tuple(found) if isinstance(found, list) else found
