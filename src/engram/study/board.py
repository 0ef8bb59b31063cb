"""What a person sees while a study goes on: what is done, running, failed and to do, and the time left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from engram.study.estimates import in_words
from engram.study.folder import Status

STYLES = {
    "done": ("●", "green"),
    "running": ("▶", "cyan"),
    "half done": ("◐", "yellow"),
    "failed": ("✗", "red"),
    "to do": ("·", "dim"),
}
MANY = 8


class Board:
    """A live table on a terminal; a line for each event elsewhere. Goes to stderr. Cells go by their place."""

    def __init__(self, title: str, states: Mapping[str, Status], estimates: Mapping[str, float], quiet: bool) -> None:
        self.title = title
        self.states: dict[str, str] = dict(states)
        self.estimates = dict(estimates)
        self.since: dict[str, float] = {}
        self.quiet = quiet
        self.console = Console(stderr=True)
        live = self.console.is_terminal and not quiet
        self.live = Live(get_renderable=self.table, console=self.console, transient=True) if live else None

    def __enter__(self) -> Self:
        if self.live:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()

    def started(self, place: str) -> None:
        again = self.states[place] == "half done"
        self.states[place] = "running"
        self.since[place] = time.monotonic()
        if not self.live:
            self.say(f"{place}: {'goes on' if again else 'started'}")

    def ended(self, place: str, reason: str | None) -> None:
        self.states[place] = "failed" if reason else "done"
        took = in_words(time.monotonic() - self.since.pop(place))
        if reason:
            self.say(f"{place}: failed after {took}: {reason}")
        elif not self.live:
            self.say(f"{place}: done in {took} ({self.counts()})")

    def say(self, sentence: str) -> None:
        if not self.quiet:
            self.console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def counts(self) -> str:
        counted = Counter(self.states.values())
        counts = ", ".join(f"{counted[state]} {state}" for state in STYLES if counted[state])
        left = self.left()
        return f"{counts}, about {in_words(left)} left" if left else counts

    def left(self) -> float:
        """In seconds, at the number of cells that run now."""
        now, since = time.monotonic(), dict(self.since)  # a copy, as the live table is drawn by another thread
        waiting = sum(self.estimates[place] for place, state in self.states.items() if state in ("to do", "half done"))
        running = [max(0.0, self.estimates[place] - now + start) for place, start in since.items()]
        return max([(waiting + sum(running)) / max(1, len(running)), *running])

    def table(self) -> RenderableType:
        cells = [(place.split("/")[0], place.split("/")[1], state) for place, state in self.states.items()]
        columns, rows = (list(dict.fromkeys(cell[part] for cell in cells)) for part in (0, 1))
        table = Table("", *columns, title=self.title, title_justify="left")
        for row in rows:
            table.add_row(
                row, *(_symbols([state for *pair, state in cells if pair == [name, row]]) for name in columns)
            )
        return Group(table, Text(self.counts()), Text(", ".join(self.since), style="cyan"))


def _symbols(states: Sequence[str]) -> Text:
    """One symbol a cell; where there are many, counts."""
    text = Text()
    for state, (symbol, style) in STYLES.items():
        number = states.count(state)
        if number:
            text.append(symbol * number if len(states) <= MANY else f"{number}{symbol} ", style)
    return text
