"""Memory that a process has given back to itself."""

from __future__ import annotations

import contextlib
import ctypes

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""numbers of glibc's parameters"""
KEPT = (1 << 31) - 1
LARGEST = 32 << 20
"""the largest block that glibc takes from its own heap"""


def keep_freed_memory() -> None:
    """Have glibc keep what is freed for the next allocation; elsewhere nothing is done.

    A training step frees and asks for the same hundred megabytes again and again. glibc would hand large blocks back to
    the system each time, which clears every page of them before it gives them out again.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(MMAP_THRESHOLD, LARGEST)
        mallopt(TRIM_THRESHOLD, KEPT)
