"""On what a number was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
import torch

import engram
from engram.errors import InputError


def versions() -> dict[str, Any]:
    """Of the code and of what it stands on; `commit` only where Engram runs from a git checkout."""
    return {
        "engram": engram.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }


def describe_machine() -> dict[str, Any]:
    return {
        "system": platform.system(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


@contextmanager
def threads(count: int) -> Iterator[None]:
    """A fixed number of threads in here (0: as many as torch chooses)."""
    if count < 0:
        raise InputError(f"--threads {count} makes no sense: give 0 for all cores, or a number of threads.")
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _commit() -> str | None:
    """With a + where files differ from the commit, so that no number claims a code that it did not come from."""
    here = Path(__file__).parent
    try:
        command = ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=10, check=True)
        tracked = ["git", "ls-files", "--error-unmatch", Path(__file__).name]
        subprocess.run(tracked, cwd=here, capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
