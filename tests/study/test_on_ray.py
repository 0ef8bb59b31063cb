"""A real local Ray; its workers are found and ended by their process ids."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.study.studies import tiny

from engram.errors import InputError
from engram.study import on_ray as module
from engram.study.conduct import Plan, conduct
from engram.study.folder import read_folder
from engram.study.grid import cells_of
from engram.study.on_ray import on_ray
from engram.study.processes import Ended, Started
from engram.study.run import CHECKPOINT, RESULT
from engram.study.worker import Machine, Order

SETTINGS = {"network": {"filters": [4, 6, 8], "hidden": 16}, "training": {"batch_size": 8}}
TIMES = ("seconds", "versions", "machine")


def test_without_ray_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    order = Order(cells_of(tiny(), {})[0], str(tmp_path), Machine())
    with pytest.raises(InputError, match=r"pip install 'engram\[ray\]'"):
        next(on_ray([order], "local", 2))


def test_a_cluster_that_is_not_there_is_named(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    order = Order(cells_of(tiny(), {})[0], str(tmp_path), Machine())
    with pytest.raises(InputError, match="cannot be reached at '127\\.0\\.0\\.1:9'"):
        next(on_ray([order], "127.0.0.1:9", 2))


@pytest.mark.slow
@pytest.mark.filterwarnings("default::FutureWarning", "default::ResourceWarning")
def test_a_worker_is_lost_and_the_study_ends_complete_with_nothing_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    study = tiny(settings=SETTINGS, epochs=5)
    out, whole = tmp_path / "ray", tmp_path / "whole"
    ended: list[str] = []
    killed: list[int] = []
    stamps: dict[str, int] = {}

    def watched(orders: Any, address: str, jobs: int | None) -> Iterator[Any]:
        for event in on_ray(orders, address, jobs):
            if isinstance(event, Ended):
                assert event.reason is None
                ended.append(event.cell.place)
                stamps[event.cell.place] = (out / event.cell.place / RESULT).stat().st_mtime_ns
            elif isinstance(event, Started) and not killed and len(ended) == 1:
                killed.append(kill_a_busy_worker(out))
            yield event

    monkeypatch.setattr("engram.study.conduct.on_ray", watched)
    monkeypatch.setattr(module, "TICK", 0.1)
    machine = Machine(checkpoint_seconds=0)
    cells = conduct(study, Plan(out, jobs=2, ray="local", machine=machine, quiet=True))
    assert killed
    assert {one.state for one in cells} == {"done"}
    assert sorted(ended) == sorted(one.cell.place for one in cells)
    assert {place: (out / place / RESULT).stat().st_mtime_ns for place in stamps} == stamps

    conduct(study, Plan(whole, jobs=2, machine=Machine(), quiet=True))
    for found, undisturbed in zip(read_folder(out).results, read_folder(whole).results, strict=True):
        for key, value in undisturbed.result.items():
            assert key in TIMES or found.result[key] == value


def kill_a_busy_worker(out: Path) -> int:
    """One that has come some way with its cell."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        busy = [pid for pid in descendants(os.getpid()) if title(pid).startswith("ray::_work")]
        if busy and list(out.glob(f"**/{CHECKPOINT}")):
            os.kill(busy[0], signal.SIGKILL)
            return busy[0]
        time.sleep(0.05)
    raise AssertionError("no worker was busy")


def descendants(pid: int) -> list[int]:
    children = [int(one) for task in Path(f"/proc/{pid}/task").glob("*/children") for one in task.read_text().split()]
    return children + [one for child in children if Path(f"/proc/{child}").exists() for one in descendants(child)]


def title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""
