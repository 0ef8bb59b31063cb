"""`engram bench`. Free of torch until it is called."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BenchCommand:
    """Measure how fast Engram is on this machine, mostly as ratios to something else measured beside it."""

    json: str | None = None
    """file for the figures, the machine and the versions"""
    only: str = ""
    """letters of the items to measure, with commas, such as a,c,h (default: all)"""
    threads: int = 0
    """CPU threads (0: all cores)"""
    quick: bool = False
    """small sizes and few repeats: shows that everything runs, and says nothing of speed"""

    def __call__(self) -> None:
        from engram.bench.run import bench

        bench(self)
