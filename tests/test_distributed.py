import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.processes import learnt

from engram import files
from engram.distributed import World, first_process, joined, world
from engram.methods.registry import SHARING
from engram.recipes import RECIPES

ROOT = Path(__file__).parents[1]
SHARED = [
    name
    for name, entry in RECIPES.items()
    if entry.method in SHARING and not entry.exemplars and "gir" not in name.split("+")
]


def together(*command: str, processes: int = 2) -> list[tuple[int, str, str]]:
    """Exit status, output and errors of each of the processes that `torchrun` would start."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes)}
    shared |= {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, *command],
            env={**shared, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for rank in range(processes)
    ]
    ended = [process.communicate(timeout=240) for process in started]
    return [(process.returncode, *texts) for process, texts in zip(started, ended, strict=True)]


@pytest.fixture(scope="module")
def learnt_by_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    done = together("-m", "tests.processes", str(folder), "lives", ",".join(SHARED))
    assert [status for status, *_ in done] == [0, 0], "\n".join(error for *_, error in done)
    return folder


@pytest.mark.parametrize("name", SHARED)
def test_two_processes_with_half_the_batch_learn_what_one_does(name: str, learnt_by_two: Path) -> None:
    ours, (theirs, _) = learnt(name).tensors, files.load(learnt_by_two / name, kind="model")
    assert ours.keys() == theirs.keys()
    for key, tensor in ours.items():
        limit = 1e-3 if "critic" in key or "generator" in key else 1e-4  # Adam makes much of small differences
        size = tensor.double().norm()
        away = (tensor.double() - theirs[key].double()).norm()
        assert away <= limit * size, f"{key} is {float(away / size):.2g} away"


def test_when_a_process_dies_the_others_say_so_and_end(tmp_path: Path) -> None:
    (status, _, error), (died, *_) = together("-m", "tests.processes", str(tmp_path), "dies", "owm")
    assert died == 1
    assert status != 0
    assert "EngramError: Another process of this run has ended" in error
    assert "Traceback" not in error


@pytest.mark.parametrize("name", ["er", "owm+gir", "pgma", "dgm"])
def test_recipes_that_are_not_made_for_it_refuse(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engram.distributed._world", World(0, 2))
    with pytest.raises(ValueError, match="not made for several processes: run it without torchrun"):
        learnt(name)


def test_only_the_first_process_writes_and_speaks(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = together("-m", "engram", "run", "ncm", "digits", "--out", str(out), "--analytic.filters", "8")
    (status, text, progress), (other, silence, nothing) = done
    assert (status, other) == (0, 0), done
    assert "accuracy" in text
    assert "after task 5" in progress
    assert (silence, nothing) == ("", "")
    assert (out / "result.json").exists()
    assert not list(out.glob("*.tmp"))


@pytest.mark.parametrize("rows", [1, 2, 7, 64])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_shares_make_up_the_batch(rows: int, size: int) -> None:
    shares = [World(rank, size).share(torch.arange(rows)) for rank in range(size)]
    assert sum(weight for _, weight in shares) == pytest.approx(1)
    together = torch.cat([part for part, _ in shares])
    wanted = torch.arange(rows).repeat(size if rows < size else 1)
    assert torch.equal(together.sort().values, wanted.sort().values)
    assert all(len(part) for part, _ in shares)


def test_alone_there_is_nothing_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined(torch.device("cpu")) as everyone:
        assert everyone == world() == World(0, 1)
    assert first_process()
    tensor = torch.ones(3)
    World().sum([tensor], 0.5)
    assert torch.equal(tensor, torch.ones(3))
