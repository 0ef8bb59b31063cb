"""What a person sees while something long goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from engram.distributed import first_process
from engram.lesson import Position

REFRESH_SECONDS = 0.2

T = TypeVar("T")


class Progress:
    """One bar for a whole run: task, epoch, samples a second, time left. Goes to stderr."""

    def __init__(self, title: str, quiet: bool = False) -> None:
        self.quiet = quiet
        self.console = Console(stderr=True, quiet=not first_process())
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=quiet or not self.console.is_terminal,
            transient=True,
        )
        self._title = title
        self._row = self._bar.add_task(title, total=None, speed="")
        self._extra: TaskID | None = None
        self._task, self._tasks = 0, 1
        self._samples, self._since = 0, time.perf_counter()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def say(self, sentence: str) -> None:
        self.console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def task(self, index: int, tasks: int) -> None:
        self._task, self._tasks = index, tasks
        where = f"{self._title}: task {index + 1}/{tasks}"
        self._bar.update(self._row, description=where, total=float(tasks), completed=float(index), speed="")
        self._samples, self._since = 0, time.perf_counter()

    def stepped(self, position: Position) -> None:
        self._samples += position.samples
        elapsed = time.perf_counter() - self._since
        if elapsed < REFRESH_SECONDS and position.step < position.steps:
            return
        done = (position.epoch + position.step / position.steps) / position.epochs
        self._bar.update(
            self._row,
            description=f"{self._title}: task {self._task + 1}/{self._tasks}, "
            f"epoch {position.epoch + 1}/{position.epochs}",
            total=float(self._tasks),
            completed=self._task + done,
            speed=f"{self._samples / max(elapsed, 1e-9):,.0f} samples/s",
        )

    def worked(self, what: str, done: int, total: int) -> None:
        """A second bar for work that follows a task's training, such as a generator's."""
        if self._extra is None:
            title = f"{self._title}: task {self._task + 1}/{self._tasks}, {what}"
            self._extra = self._bar.add_task(title, total=total, speed="")
        self._bar.update(self._extra, completed=done)
        if done == total:
            self._bar.remove_task(self._extra)
            self._extra = None

    def measured(self, index: int, accuracy: float) -> None:
        if not self.quiet:
            self.say(f"{self._title}: after task {index + 1} of {self._tasks}, mean accuracy {accuracy:.1%}")


@contextmanager
def each(quiet: bool) -> Iterator[Callable[[Sequence[T], str], Iterable[T]]]:
    """Goes through lists, one after the other, with a bar for each; on stderr, and gone afterwards."""
    console = Console(stderr=True)
    with Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=quiet or not console.is_terminal,
        transient=True,
    ) as bar:
        yield lambda items, title: bar.track(items, description=title)
