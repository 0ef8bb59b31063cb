"""What a learner is given: classes split into tasks, and a stream that hands each task out once."""

import operator
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np

from engram.errors import InputError

ClassT = TypeVar("ClassT", bound=Hashable)
VALIDATION_FRACTION = 0.3


@dataclass(frozen=True, eq=False)
class Task:
    """All that a learner sees of one task; `classes` are the values that `y` can take."""

    index: int
    classes: tuple[Any, ...]
    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True, eq=False)
class Part:
    """Samples and their labels, row by row."""

    x: np.ndarray
    y: np.ndarray

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise InputError(f"{len(self.x)} samples came with {len(self.y)} labels: give one label per sample")

    def __len__(self) -> int:
        return len(self.y)

    def only(self, classes: Collection[Any]) -> "Part":
        """A copy of the rows that belong to `classes`."""
        rows = np.isin(self.y, list(classes))
        return Part(self.x[rows], self.y[rows])


@dataclass(frozen=True, eq=False)
class DataSet:
    """Images (uint8, N x C x H x W) in three parts; labels are int64 positions in `classes`, the names."""

    name: str
    classes: tuple[str, ...]
    train: Part
    validation: Part
    test: Part


def split_classes(classes: Sequence[ClassT], tasks: int) -> list[list[ClassT]]:
    """Consecutive groups of sizes as even as possible, the larger ones first: 14 into 5 is 3, 3, 3, 3, 2."""
    names = _distinct(classes)
    count = _whole_number("tasks", tasks)
    if not 1 <= count <= len(names):
        raise InputError(f"{len(names)} classes cannot make {count} tasks: choose 1 to {len(names)} tasks")
    size, larger = divmod(len(names), count)
    ends = [size * i + min(i, larger) for i in range(count + 1)]
    return [names[start:end] for start, end in pairwise(ends)]


def class_order(classes: Sequence[ClassT], seed: int = 0) -> list[ClassT]:
    """The classes in the order they are learnt: seed 0 keeps the order given, any other seed shuffles."""
    names = _distinct(classes)
    number = _whole_number("class order seed", seed)
    if number < 0:
        raise InputError(f"the class order seed {number} is negative: use 0 for the natural order, or more")
    if number == 0:
        return names
    return [names[i] for i in np.random.default_rng(number).permutation(len(names))]


def cut_validation(part: Part, fraction: float = VALIDATION_FRACTION, seed: int = 0) -> tuple[Part, Part]:
    """Cut a test part at random into (validation, test)."""
    # The seed is fixed and not the run's own: were the cut to change from run to run, validation images of
    # one seed would be test images of another, and settings chosen on validation data tuned on test data.
    count = round(len(part) * fraction)
    if not 0 < count < len(part):
        raise InputError(
            f"a fraction of {fraction} of {len(part)} samples leaves no validation or no test part: "
            "give more samples or a fraction between 0 and 1"
        )
    order = np.random.default_rng(seed).permutation(len(part))
    validation, test = np.sort(order[:count]), np.sort(order[count:])
    return Part(part.x[validation], part.y[validation]), Part(part.x[test], part.y[test])


class TaskStream(Iterator[Task]):
    """Hands out one task per group of labels, each once, and keeps none; `start` skips those learnt."""

    def __init__(self, part: Part, groups: Sequence[Sequence[int]], start: int = 0) -> None:
        _check_groups(part, groups)
        if not 0 <= start <= len(groups):
            raise InputError(f"the start {start} is outside the {len(groups)} tasks: give 0 to {len(groups)}")
        self._part = part
        self._groups = [tuple(group) for group in groups]
        self._next = start
        self._ended = False

    def __len__(self) -> int:
        """How many tasks are still to come."""
        return len(self._groups) - self._next

    def __iter__(self) -> Self:
        if self._ended:
            raise InputError("this stream has handed out all of its tasks: make a new TaskStream to start over")
        return self

    def __next__(self) -> Task:
        if not len(self):
            self._ended = True
            raise StopIteration
        index, self._next = self._next, self._next + 1
        rows = self._part.only(self._groups[index])
        return Task(index, self._groups[index], rows.x, rows.y)


def _check_groups(part: Part, groups: Sequence[Sequence[int]]) -> None:
    if not groups or not all(len(group) for group in groups):
        raise InputError("a task without classes cannot be learnt: give every task at least one class")
    labels = _distinct([label for group in groups for label in group])
    without = sorted(set(labels) - set(part.y.tolist()))
    if without:
        raise InputError(f"class {without[0]!r} has no samples: leave it out of the tasks or add samples of it")


def _distinct(classes: Sequence[ClassT]) -> list[ClassT]:
    seen: set[ClassT] = set()
    for name in classes:
        if name in seen:
            raise InputError(f"class {name!r} is listed twice: list each class once")
        seen.add(name)
    return list(classes)


def _whole_number(what: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(f"{what} is {value!r}: give a whole number") from None
