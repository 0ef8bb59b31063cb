"""What a report consists of, before it becomes HTML, Markdown or anything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from matplotlib.figure import Figure


@dataclass(frozen=True)
class Entry:
    """One cell of a table: what it says, what it sorts by, and smaller remarks below, a line each."""

    text: str
    value: float | None = None
    remarks: Sequence[str] = ()
    strong: bool = False


@dataclass(frozen=True)
class Table:
    key: str
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    protocol: Sequence[str] = ()
    notes: Sequence[str] = ()

    def numeric(self, column: int) -> bool:
        """Also where nothing is there yet."""
        entries = [row[column] for row in self.rows]
        return any(one.value is not None for one in entries) or all(one.text == "–" for one in entries)


@dataclass(frozen=True)
class Picture:
    key: str
    title: str
    figure: Figure
    caption: str
    description: str
    """for those who cannot see it"""
    protocol: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """`short` is its name where there is little room."""

    key: str
    short: str
    title: str
    words: Sequence[str] = ()
    parts: Sequence[Table | Picture] = field(default_factory=tuple)


def percent(value: float) -> str:
    return f"{100 * value:.2f}"


def signed(value: float) -> str:
    """With a real minus sign."""
    return f"{value:+.2f}".replace("-", "−")
