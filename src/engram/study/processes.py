"""Cells on this machine: so many processes at a time, each with a fixed number of threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from engram.study.folder import FAILED, status, write_failure
from engram.study.grid import Cell
from engram.study.worker import Order

TICK = 0.1
PATIENCE = 5.0
"""seconds that a worker has to notice that its study is gone"""
SHOWN = 2000
"""last characters of what a worker that died had to say"""


@dataclass(frozen=True)
class Started:
    cell: Cell


@dataclass(frozen=True)
class Ended:
    cell: Cell
    reason: str | None
    """why it failed, if it did"""


Event = Started | Ended


def in_processes(orders: Sequence[Order], jobs: int) -> Generator[Event, None, None]:
    """Start and end are told as they happen. Close the iterator to stop; half-done runs keep their checkpoints."""
    waiting = deque(orders)
    running: list[_Running] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_Running(waiting.popleft()))
                yield Started(running[-1].order.cell)
            time.sleep(TICK)
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                yield Ended(one.order.cell, one.outcome())
    finally:
        for one in running:
            one.let_go()
        for one in running:
            one.see_off()


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Running:
    def __init__(self, order: Order) -> None:
        self.order = order
        self.said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        environment = os.environ | {"OMP_NUM_THREADS": str(order.machine.threads)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "engram.study.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self.said,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the study, which lets its workers go
        )
        assert self.process.stdin is not None
        self.stdin = self.process.stdin
        with suppress(BrokenPipeError):  # it died at once: its outcome tells
            self.stdin.write(order.to_json().encode() + b"\n")
            self.stdin.flush()

    def outcome(self) -> str | None:
        """Of a process that has ended: why it failed, if it did."""
        self.let_go()
        with self.said:
            code = self.process.returncode
            if code == 0:
                return None
            if not (self.order.place / FAILED).exists():
                self.said.seek(0)
                said = self.said.read().decode(errors="replace")[-SHOWN:]
                write_failure(self.order.place, _cause(code), said)
        return status(Path(self.order.folder), self.order.cell)[1]

    def let_go(self) -> None:
        """A worker whose stdin ends, ends too."""
        with suppress(BrokenPipeError):
            self.stdin.close()

    def see_off(self) -> None:
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.said.close()


def _cause(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        hint = ", for want of memory perhaps" if -code == signal.SIGKILL else ""
        return f"its process was ended by {name}{hint}"
    return f"its process ended with status {code}"
