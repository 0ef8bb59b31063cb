import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.study.studies import put, tiny

from engram.cli import main
from engram.errors import InputError
from engram.study import conduct as conductor
from engram.study.conduct import NO_CHOICE, Plan, conduct, outlook
from engram.study.folder import CHOICE, FAILED, read_folder
from engram.study.grid import cells_of
from engram.study.processes import Ended, Event, Started, in_processes
from engram.study.run import CHECKPOINT, RESULT
from engram.study.store import STORE
from engram.study.worker import Machine, Order, work

TIMES = ("seconds", "versions", "machine")
MEASURES = "SELECT cell, accuracy, validation_accuracy, forgetting, settings FROM results ORDER BY cell"
TABLES = ("after_task", "matrix", "traces", "failures")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Cells are done in this process, and listed."""
    done: list[str] = []

    def one_by_one(orders: Sequence[Order], jobs: int) -> Iterator[Event]:
        for order in orders:
            done.append(order.cell.place)
            yield Started(order.cell)
            yield Ended(order.cell, work(order))

    monkeypatch.setattr(conductor, "in_processes", one_by_one)
    return done


def plan(folder: Path, **changes: Any) -> Plan:
    return Plan(folder, jobs=2, quiet=True, **changes)


def states(cells: Sequence[conductor.Outlook]) -> dict[str, str]:
    return {one.cell.place: one.state for one in cells}


def numbers(folder: Path) -> dict[str, Any]:
    """All that the results hold, times apart."""
    found = read_folder(folder).results
    return {one.place: {key: value for key, value in one.result.items() if key not in TIMES} for one in found}


def stored(folder: Path) -> list[Any]:
    """All that the store holds, times apart."""
    connection = sqlite3.connect(folder / STORE)
    try:
        rows = [connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in TABLES]
        return [connection.execute(MEASURES).fetchall(), *rows]
    finally:
        connection.close()


def test_a_study_does_everything_once_and_stores_it(tmp_path: Path, here: list[str]) -> None:
    study = tiny()
    assert states(outlook(study, plan(tmp_path / "new"))) == dict.fromkeys(
        (c.place for c in cells_of(study, {})), "to do"
    )
    assert not (tmp_path / "new").exists()
    ended = conduct(study, plan(tmp_path))
    assert set(states(ended).values()) == {"done"}
    assert here == [cell.place for cell in cells_of(study, {})]
    assert [row[0] for row in stored(tmp_path)[0]] == sorted(here)
    assert not list(tmp_path.glob("**/*.tmp"))
    conduct(study, plan(tmp_path))
    assert len(here) == 4


def test_what_lies_in_cells_already_is_taken_in(tmp_path: Path, here: list[str]) -> None:
    study = tiny()
    cells = cells_of(study, {})
    put(tmp_path, cells[0], 0.75)
    conduct(study, plan(tmp_path))
    assert cells[0].place not in here
    assert len(here) == 3
    assert read_folder(tmp_path).results[0].result["accuracy"] == 0.75


def test_only_some_cells_and_more_seeds_later(tmp_path: Path, here: list[str]) -> None:
    conduct(tiny(seeds=1), plan(tmp_path, only=("*:owm",)))
    assert here == ["digits-2/owm/seed0"]
    conduct(tiny(seeds=2), plan(tmp_path, only=("*:owm",)))
    assert here == ["digits-2/owm/seed0", "digits-2/owm/seed1"]
    with pytest.raises(InputError, match="matches no cell"):
        conduct(tiny(), plan(tmp_path / "other", only=("owm",)))
    assert not (tmp_path / "other").exists()


def test_a_failed_cell_gives_its_reason_and_stops_nobody(
    tmp_path: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tiny()
    from engram.study.run import Run

    def fragile(self: Run, out: Path) -> dict[str, Any]:
        if self.recipe.name == "finetune" and self.options.seed == 0:
            raise RuntimeError("no luck")
        return whole(self, out)

    whole = Run.work
    monkeypatch.setattr(Run, "work", fragile)
    ended = conduct(study, plan(tmp_path))
    failed = [one for one in ended if one.state == "failed"]
    assert [(one.cell.place, one.reason) for one in failed] == [("digits-2/finetune/seed0", "RuntimeError: no luck")]
    assert list(states(ended).values()).count("done") == 3
    assert "in fragile" in json.loads((tmp_path / "digits-2/finetune/seed0" / FAILED).read_text())["details"]
    assert stored(tmp_path)[-1] == [("digits-2/finetune/seed0", "RuntimeError: no luck")]

    conduct(study, plan(tmp_path))
    assert len(here) == 4, "what failed is left alone"
    monkeypatch.setattr(Run, "work", whole)
    assert set(states(conduct(study, plan(tmp_path, retry_failed=True))).values()) == {"done"}
    assert here[4:] == ["digits-2/finetune/seed0"]
    assert not (tmp_path / "digits-2/finetune/seed0" / FAILED).exists()


def test_settings_are_chosen_first_and_used_by_the_seeds_that_count(tmp_path: Path, here: list[str]) -> None:
    study = tiny(rows={"owm+ssl": {"tune": {"rotation.weight": [0.5, 3.0]}}, "owm": {}}, seeds=1)
    conduct(study, plan(tmp_path))
    assert here[:2] == [f"digits-2/owm+ssl/tuning/rotation.weight={value}" for value in (0.5, 3.0)]
    choice = json.loads((tmp_path / "digits-2/owm+ssl" / CHOICE).read_text())
    scores = [trial["validation_accuracy"] for trial in choice["trials"]]
    weight = (0.5, 3.0)[int(np.argmax(scores))]
    assert choice["chosen"] == {"rotation.weight": weight}
    results = {one.place: one.result for one in read_folder(tmp_path).results}
    assert sorted(results) == ["digits-2/owm+ssl/seed0", "digits-2/owm/seed0"], "trials are no results"
    assert results["digits-2/owm+ssl/seed0"]["settings"]["rotation"]["weight"] == weight
    assert states(conduct(study, plan(tmp_path)))["digits-2/owm+ssl/seed0"] == "done"


def test_without_a_choice_the_cells_fail_and_say_so(
    tmp_path: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engram.study.run.Run.work", lambda *_: 1 / 0)
    study = tiny(rows={"owm+ssl": {"tune": {"rotation.weight": [0.5]}}}, seeds=1)
    ended = conduct(study, plan(tmp_path))
    assert {one.cell.place: one.reason for one in ended} == {
        "digits-2/owm+ssl/tuning/rotation.weight=0.5": "ZeroDivisionError: division by zero",
        "digits-2/owm+ssl/seed0": NO_CHOICE,
    }
    assert len(here) == 1
    monkeypatch.undo()


def test_a_result_of_other_settings_is_reported_and_left_alone(tmp_path: Path, here: list[str]) -> None:
    conduct(tiny(), plan(tmp_path))
    longer = conduct(tiny(epochs=2), plan(tmp_path, retry_failed=True))
    assert {one.state for one in longer} == {"failed"}
    assert all("training.epochs 1, and the study asks for 2" in one.reason for one in longer)
    assert len(here) == 4


def test_a_worker_that_is_killed_is_a_failed_cell(tmp_path: Path) -> None:
    orders = [Order(cell, str(tmp_path), Machine(checkpoint_seconds=0)) for cell in cells_of(slow(), {})[:1]]
    for event in in_processes(orders, 1):
        if isinstance(event, Started):
            pid = int(subprocess.check_output(["pgrep", "-P", str(os.getpid()), "-f", "engram.study.worker"]))
            os.kill(pid, signal.SIGKILL)
        else:
            assert "SIGKILL" in str(event.reason)
    assert "SIGKILL" in json.loads((orders[0].place / FAILED).read_text())["error"]


def slow(**changes: Any) -> Any:
    """A study whose cells take seconds and can be taken up again."""
    return tiny(
        settings={"network": {"filters": [4, 6, 8], "hidden": 16}, "training": {"batch_size": 8}}, epochs=6, **changes
    )


def command(out: Path, toml: Path) -> list[str]:
    return [sys.executable, "-m", "engram", "study", str(toml), "--out", str(out), "--jobs", "2"]


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(
        'title = "Small"\nseeds = 3\nepochs = 4\n[settings.training]\nbatch_size = 16\n'
        "[settings.network]\nfilters = [4, 6, 8]\nhidden = 16\n"
        '[columns.digits-2]\n[rows.finetune]\n[rows.owm]\n[rows."owm+ssl"]\ntune = { "rotation.weight" = [0.5, 2.0] }\n'
    )
    return path


def test_a_killed_study_takes_its_workers_along(tmp_path: Path, toml: Path) -> None:
    toml.write_text(toml.read_text().replace("epochs = 4", "epochs = 5000"))
    process = subprocess.Popen(command(tmp_path / "out", toml), stderr=subprocess.DEVNULL, env=os.environ)
    workers = wait_for_workers(process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 30
    while any(alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid in workers if alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


@pytest.mark.slow
def test_a_study_killed_ten_times_ends_as_an_undisturbed_one(tmp_path: Path, toml: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(whole, toml), check=True, capture_output=True)
    rng = np.random.default_rng(0)
    for _ in range(10):
        process = subprocess.Popen(command(killed, toml), stderr=subprocess.DEVNULL, env=os.environ)
        wait_for_workers(process)
        time.sleep(float(rng.uniform(0, 5)))
        assert process.poll() is None, "it ended before it could be killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
        stored(killed)  # can be read at any time
    before = {path: path.stat().st_mtime_ns for path in killed.glob(f"**/{RESULT}")}
    subprocess.run(command(killed, toml), check=True, capture_output=True)
    assert {path: path.stat().st_mtime_ns for path in before} == before, "nothing is done twice"
    assert not list(killed.glob(f"**/{CHECKPOINT}"))
    assert numbers(killed) == numbers(whole)
    assert stored(killed) == stored(whole)


def wait_for_workers(process: subprocess.Popen[bytes]) -> list[int]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        if len(found) == 2:
            return [int(pid) for pid in found]
        time.sleep(0.05)
    raise AssertionError("the study started no workers")


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_dry_run_lists_every_cell_and_touches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "paper", "--out", str(tmp_path / "out"), "--dry-run", "--seeds", "2", "--jobs", "2"]) == 0
    shown = capsys.readouterr().out
    assert "cifar10-5/owm/seed1  to do  about" in shown
    assert "cifar10-5/owm/seed2" not in shown
    assert "cifar10-5/owm+ssl+gfr/tuning/rotation.weight=5.0  to do" in shown
    assert "2 cells at a time" in shown
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["paperr"], "did you mean 'paper'"),
        (["no.toml"], "cannot be read"),
        (["digits", "--seeds", "0"], "--seeds 0"),
        (["digits", "--jobs", "0"], "--jobs 0"),
        (["digits", "--only", "owm"], "matches no cell"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_status_2(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", *words, "--out", str(tmp_path / "out"), "--quiet"]) == 2
    caught = capsys.readouterr().err
    assert sentence in caught
    assert len(caught.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_failed_cells_end_the_command_with_a_sentence(
    tmp_path: Path, here: list[str], toml: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("engram.study.run.Run.work", lambda *_: 1 / 0)
    assert main(["study", str(toml), "--out", str(tmp_path / "out"), "--only", "*:owm", "--seeds", "1"]) == 2
    caught = capsys.readouterr()
    assert "1 of 1 cells failed, such as digits-2/owm/seed0 (ZeroDivisionError" in caught.err
    assert "--retry-failed" in caught.err


def test_ctrl_c_says_how_to_go_on(
    tmp_path: Path, toml: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(orders: Sequence[Order], jobs: int) -> Iterator[Event]:
        yield Started(orders[0].cell)
        raise KeyboardInterrupt

    monkeypatch.setattr(conductor, "in_processes", interrupted)
    assert main(["study", str(toml), "--out", str(tmp_path / "out"), "--quiet"]) == 130
    assert "the same command goes on" in capsys.readouterr().err
