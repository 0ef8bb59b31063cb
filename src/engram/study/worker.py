"""One cell of a study in a process of its own: `python -m engram.study.worker`, the order as a line on stdin.

The study keeps stdin open for as long as it lives. When it ends, however it is killed, so does this process.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engram.errors import EngramError
from engram.study.grid import Cell

ORPHANED = 3


@dataclass(frozen=True)
class Machine:
    """How cells are computed, wherever they are; none of it changes what a study is."""

    threads: int = 1
    device: str = "auto"
    data_dir: str | None = None
    checkpoint_seconds: float = 60.0
    tensorboard: bool = False


@dataclass(frozen=True)
class Order:
    """What a worker is asked to do."""

    cell: Cell
    folder: str
    machine: Machine

    @property
    def place(self) -> Path:
        return Path(self.folder, self.cell.place)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Order:
        plain: Mapping[str, Any] = json.loads(text)
        return cls(Cell(**plain["cell"]), plain["folder"], Machine(**plain["machine"]))


def work(order: Order) -> str | None:
    """Do the cell, or what is left of it; the reason if it fails, which is also written down."""
    from engram.progress import Progress
    from engram.study.folder import FAILED, locked, status, write_failure
    from engram.study.run import run

    with locked(order.place):
        (order.place / FAILED).unlink(missing_ok=True)
        if status(Path(order.folder), order.cell)[0] == "done":  # another process did it while this one waited
            return None
        try:
            machine = asdict(order.machine) | {"threads": _threads(order)}
            options = order.cell.options(str(order.place), **machine, resume=True, quiet=True)
            with Progress(order.cell.place, quiet=True) as progress:
                run(order.cell.chosen_recipe(), options, progress)
        except Exception as error:
            reason = str(error) if isinstance(error, EngramError) else f"{type(error).__name__}: {error}"
            write_failure(order.place, reason, traceback.format_exc())
            return reason
    return None


def main() -> None:
    order = Order.from_json(_first_line())
    threading.Thread(target=_end_with_the_study, daemon=True).start()
    sys.exit(1 if work(order) else 0)


def _threads(order: Order) -> int:
    """A half-done run goes on with the threads that it began with, or it would not end with the same numbers."""
    from engram import files
    from engram.study.run import CHECKPOINT

    checkpoint = order.place / CHECKPOINT
    if not checkpoint.exists():
        return order.machine.threads
    return files.load(checkpoint, kind="checkpoint")[1]["run"]["threads"]


def _first_line() -> str:
    # not through sys.stdin, whose lock a waiting thread would hold when the process ends
    line = b""
    while not line.endswith(b"\n"):
        if not (more := os.read(0, 1 << 16)):
            os._exit(ORPHANED)
        line += more
    return line.decode()


def _end_with_the_study() -> None:
    while os.read(0, 1):
        pass
    os._exit(ORPHANED)


if __name__ == "__main__":
    main()
