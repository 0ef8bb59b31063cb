"""How things are said on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

NAMED = 10
"""how many of many are named"""


def shown(text: str) -> str:
    """Names come from files: what could move the cursor, or is no text at all, is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)


def count(number: int, thing: str, many: str | None = None) -> str:
    return f"{number:,} {thing if number == 1 else many or thing + 's'}"


def listed(names: Sequence[str], most: int = NAMED) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(shown, names[:most])) + more


def share(value: float) -> str:
    return f"{value:.1%}"


def tell_left_out(left_out: Sequence[str]) -> None:
    """Named and counted, on stderr."""
    if not left_out:
        return
    for sentence in left_out[:NAMED]:
        print(f"left out: {shown(sentence)}", file=sys.stderr)
    more = f"; the first {NAMED} are named above" if len(left_out) > NAMED else ""
    print(f"{count(len(left_out), 'file or row', 'files or rows')} left out{more}", file=sys.stderr)
