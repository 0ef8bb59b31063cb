import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engram import files
from engram.data import SETS
from engram.errors import EngramError, FileError, InputError
from engram.lesson import Position
from engram.progress import Progress
from engram.recipes import RECIPES, Recipe, recipe
from engram.report import demo
from engram.report.tables import effort
from engram.study.options import RunOptions
from engram.study.run import ANALYSIS, CHECKPOINT, RESULT, SHOWN, Run, RunWatch, run

SMALL: dict[str, dict[str, Any]] = {
    "training": {"epochs": 2, "batch_size": 32},
    "network": {"filters": (4, 6, 8), "hidden": 16},
}
ONE_PASS: dict[str, dict[str, Any]] = {"analytic": {"filters": 8}, "head": {"rows": 8}}
GENERATOR = {"generator_steps": 2, "generator_width": 12, "generator_batch": 8}
FLAGS = ["--epochs", "2", "--batch-size", "32", "--network.filters", "4", "6", "8", "--network.hidden", "16"]
TIMES = ("seconds", "versions", "machine")


def small(name: str) -> Recipe:
    methods = {"dgm": GENERATOR, "pgma": {**GENERATOR, "hidden": 10}}
    every = {**SMALL, **ONE_PASS, **methods, "replay": GENERATOR}
    return recipe(name, **{group: every[group] for group in RECIPES[name].groups() if group in every})


def quietly(chosen: Recipe, options: RunOptions) -> dict[str, Any]:
    with Progress("test", quiet=True) as progress:
        return run(chosen, options, progress)


def options(out: Path, **changes: Any) -> RunOptions:
    return RunOptions("digits", str(out), quiet=True, threads=1, **changes)


def numbers(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key not in TIMES}


@pytest.fixture(scope="module", params=sorted(RECIPES))
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp(request.param)
    return out, quietly(small(request.param), options(out))


def test_a_result_holds_what_the_readme_of_results_promises(finished: tuple[Path, dict[str, Any]]) -> None:
    out, result = finished
    protocol = "recipe dataset tasks seed class_order_seed epochs selection precision settings versions"
    errors = "forgetting inter_task_error inner_task_error"
    numbers = f"accuracy validation_accuracy accuracy_after_task average_incremental_accuracy {errors}"
    promised = f"{protocol} {numbers} matrix drift confusion projector_traces seconds".split()
    assert set(promised) <= set(result)
    assert json.loads((out / RESULT).read_text()) == result
    assert not (out / CHECKPOINT).exists()


def test_accuracy_and_the_two_errors_sum_to_one(finished: tuple[Path, dict[str, Any]]) -> None:
    result = finished[1]
    assert result["accuracy"] + result["inter_task_error"] + result["inner_task_error"] == pytest.approx(1, abs=1e-12)


def test_no_class_is_lost_and_the_numbers_agree_with_the_confusion(finished: tuple[Path, dict[str, Any]]) -> None:
    result = finished[1]
    confusion = np.array(result["confusion"])
    assert sorted(label for group in result["groups"] for label in group) == list(range(10))
    assert confusion.sum() == result["samples"]["test"] == 378
    assert (confusion.sum(1) > 0).all()
    assert result["accuracy"] == pytest.approx(np.trace(confusion) / confusion.sum())
    per_task = [confusion[group, group].sum() / confusion[group].sum() for group in result["groups"]]
    assert result["matrix"][-1] == pytest.approx(per_task)
    assert result["accuracy_after_task"][-1] == pytest.approx(result["accuracy"])


def test_the_matrix_has_a_row_a_task_and_joint_training_one(finished: tuple[Path, dict[str, Any]]) -> None:
    result = finished[1]
    joint = result["recipe"] == "joint"
    assert [len(row) for row in result["matrix"]] == ([5] if joint else [1, 2, 3, 4, 5])
    assert len(result["drift"]) == (0 if joint else 4)
    assert (result["forgetting"] is None) == joint


CLOSED_FORM = {"ridge", "temperature", "features"}
MEASURED = {
    **dict.fromkeys(("analytic", "lda", "ncm"), CLOSED_FORM),
    "icarl": {"stored_samples"},
    "er": {"stored_samples"},
    "gir": {"generator"},
    "owm+gir": {"generator"},
    "dgm": {"generator", "growth"},
    "pgma": {"AutoEncoder_loss", "AdaptedSolver_loss"},
}


def test_a_run_with_a_generator_measures_it_and_leaves_features_for_a_picture(
    finished: tuple[Path, dict[str, Any]],
) -> None:
    out, result = finished
    if not result["recipe"].endswith("gfr"):
        assert not (out / ANALYSIS).exists()
        wanted = MEASURED.get(result["recipe"], set())
        assert [set(entry) for entry in result["measures"]] == [wanted] * len(result["matrix"])
        return
    assert [list(entry["generator"]["as_asked"]) for entry in result["measures"]] == [
        [str(column) for column in range(2 * task)] for task in range(1, 6)
    ]
    tensors, meta = files.load(out / ANALYSIS, kind="analysis")
    assert meta["recipe"] == result["recipe"]
    for part in ("real", "generated"):
        assert tensors[f"{part}_y"].bincount().tolist() == [SHOWN] * 10
        assert tensors[part].shape == (10 * SHOWN, 16)
        assert (tensors[part] >= 0).all()
        # unprotected, so small a network may lose its last active unit
        assert tensors[part].any() or result["recipe"] in ("gfr", "fd+gfr")


def test_projector_traces_fall_with_owm_and_are_absent_without(finished: tuple[Path, dict[str, Any]]) -> None:
    result = finished[1]
    traces = result["projector_traces"]
    if result["recipe"] == "gpm":  # a layer may be all closed, or need no more directions
        assert all(later[n] <= earlier[n] < 1 for earlier, later in itertools.pairwise(traces) for n in earlier)
        return
    if not result["recipe"].startswith("owm"):
        assert not any(traces)
        return
    assert all(0 < share < 1 for share in traces[0].values())
    assert all(later[name] < earlier[name] for earlier, later in itertools.pairwise(traces) for name in earlier)


def test_the_projectors_keep_the_features_where_finetuning_lets_them_drift(tmp_path: Path) -> None:
    """Fails if a projector does nothing (drift as without) or zeroes everything (nothing learnt after task 1)."""
    small = {"training": {"epochs": 6, "batch_size": 16}, "network": {"filters": (8, 16, 32), "hidden": 64}}
    changes: dict[str, dict[str, Any]] = {
        "finetune": {},
        "owm": {"owm": demo.SETTINGS["owm"]},
    }
    results = {
        name: quietly(recipe(name, **small, **own), options(tmp_path / name, tasks=2)) for name, own in changes.items()
    }
    drift = {name: result["drift"][0] for name, result in results.items()}
    assert 0 < drift["owm"] < 0.7 * drift["finetune"]
    first, second = results["owm"]["matrix"][-1]
    assert first > results["finetune"]["matrix"][-1][0] + 0.1
    assert second > 0.1


class Interrupting(Progress):
    """Ctrl-C after so many steps."""

    def __init__(self, steps: int) -> None:
        super().__init__("test", quiet=True)
        self.left = steps

    def stepped(self, position: Position) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("name", "selection"),
    [("owm", "last"), ("owm", "current"), ("owm", "seen"), ("owm+ssl+gfr", "seen"), ("analytic", "last")],
)
def test_a_run_stopped_anywhere_and_resumed_ends_with_the_same_numbers(
    name: str, selection: Any, tmp_path: Path
) -> None:
    chosen = small(name)
    undisturbed = quietly(chosen, options(tmp_path / "whole", selection=selection))
    often = options(tmp_path / "parts", selection=selection, checkpoint_seconds=0, resume=True)
    for steps in (1, 9, 15, 7, 20, 0):
        with pytest.raises(KeyboardInterrupt), Interrupting(steps) as progress:
            run(chosen, often, progress)
    assert (tmp_path / "parts" / CHECKPOINT).exists()
    assert numbers(quietly(chosen, often)) == numbers(undisturbed)


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.slow)])
def test_a_run_killed_and_resumed_ends_with_the_same_numbers(kills: int, tmp_path: Path) -> None:
    whole = quietly(recipe("owm", **SMALL), options(tmp_path / "whole"))
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "engram", "run", "owm", "digits", "--out", str(out), "--resume", "--quiet"]
    command += ["--threads", "1", "--checkpoint-seconds", "0", *FLAGS]
    rng = np.random.default_rng(kills)
    for _ in range(kills):
        process = subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for_a_change(out, process)
        time.sleep(float(rng.uniform(0, 0.2)))
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert numbers(json.loads((out / RESULT).read_text())) == numbers(whole)


def wait_for_a_change(out: Path, process: subprocess.Popen[bytes]) -> None:
    def stamp() -> float:
        return max((path.stat().st_mtime_ns for path in out.glob("*.*") if path.exists()), default=0)

    before = stamp()
    while process.poll() is None and stamp() == before:
        time.sleep(0.01)


def test_resuming_a_finished_run_says_so_and_changes_nothing(
    finished: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    out, result = finished
    written = (out / RESULT).read_bytes()
    with Progress("test") as progress:
        again = run(small(result["recipe"]), options(out, resume=True), progress)
    assert again == result
    assert (out / RESULT).read_bytes() == written
    assert "finished" in capsys.readouterr().err


def test_a_finished_run_of_another_precision_is_not_taken_for_this_one(finished: tuple[Path, dict[str, Any]]) -> None:
    out, result = finished
    with pytest.raises(InputError, match="with precision 'float32', not 'bfloat16'"):
        quietly(small(result["recipe"]), options(out, resume=True, precision="bfloat16"))


def test_how_long_each_task_is_learnt_is_told_as_it_is() -> None:
    described = {name: effort({"epochs": small(name).epochs, "settings": small(name).settings()}) for name in RECIPES}
    assert described.pop("dgm") == "2 generator steps"
    assert {name for name, words in described.items() if words == "one pass"} == {"analytic", "lda", "ncm"}
    assert set(described.values()) == {"one pass", "2 epochs"}
    assert small("dgm").epochs is None


def test_the_progress_bar_names_the_task_of_a_method_without_epochs() -> None:
    shown: list[tuple[str, float | None, float]] = []

    class Looking(Progress):
        def worked(self, what: str, done: int, total: int) -> None:
            bar = self._bar.tasks[0]
            shown.append((bar.description, bar.total, bar.completed))
            super().worked(what, done, total)

    with Looking("dgm on digits", quiet=True) as progress:
        progress.task(0, 5)
        progress.worked("generator", 1, 2)
        progress.task(3, 5)
        progress.worked("generator", 1, 2)
    assert shown == [("dgm on digits: task 1/5", 5.0, 0.0), ("dgm on digits: task 4/5", 5.0, 3.0)]


def test_where_there_are_no_epochs_none_can_be_selected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'analytic' has no epochs to select among: use --selection last"):
        quietly(small("analytic"), options(tmp_path, selection="seen"))


def test_in_closed_form_five_tasks_are_nearly_as_good_as_one(tmp_path: Path) -> None:
    accuracy = [quietly(small("analytic"), options(tmp_path / str(tasks), tasks=tasks))["accuracy"] for tasks in (5, 1)]
    assert accuracy[0] > accuracy[1] - 0.05


def test_the_filters_are_doubled_on_cifar100_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr("engram.study.run.Run", lambda chosen, *_: seen.append(chosen.network.width) or 1 / 0)
    for name, network in (("cifar100", {}), ("cifar10", {}), ("cifar100", {"width": 1})):
        with pytest.raises(ZeroDivisionError), Progress("test", quiet=True) as progress:
            run(recipe("owm", network=network), RunOptions(name, str(tmp_path)), progress)
    assert seen == [2, 1, 1]


def test_a_folder_that_cannot_be_made_is_found_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(Run, "work", lambda *_: pytest.fail("trained first"))
    with pytest.raises(FileError, match="file"):
        quietly(recipe("owm", **SMALL), options(tmp_path / "file"))


def test_the_result_names_the_code_that_the_run_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(tmp_path)
    first = json.loads(json.dumps(Run(recipe("owm", **SMALL), options(tmp_path), Progress("test")).versions))
    monkeypatch.setattr("engram.study.run.versions", lambda: {"engram": "9"})
    assert quietly(recipe("owm", **SMALL), options(tmp_path, resume=True))["versions"] == first
    assert "began with" in capsys.readouterr().err


def test_resuming_where_there_is_nothing_starts_afresh_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress("test") as progress:
        run(recipe("finetune", **SMALL), options(tmp_path, resume=True, tasks=2), progress)
    assert "starting afresh" in capsys.readouterr().err
    assert (tmp_path / RESULT).exists()


def test_a_second_run_into_the_same_folder_is_refused(finished: tuple[Path, dict[str, Any]]) -> None:
    out, result = finished
    with pytest.raises(InputError, match="--resume"):
        quietly(small(result["recipe"]), options(out))


def interrupted(out: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Interrupting(5) as progress:
        run(recipe("owm", **SMALL), options(out, checkpoint_seconds=0), progress)


OTHER: list[dict[str, Any]] = [{"seed": 1}, {"class_order_seed": 3}, {"tasks": 2}, {"selection": "seen"}]


@pytest.mark.parametrize("changes", OTHER, ids=str)
def test_resuming_with_other_settings_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    interrupted(tmp_path)
    with pytest.raises(InputError, match=f"with {next(iter(changes))} "):
        quietly(recipe("owm", **SMALL), options(tmp_path, resume=True, **changes))


def test_a_finished_run_of_other_settings_is_not_taken_for_this_one(finished: tuple[Path, dict[str, Any]]) -> None:
    out, result = finished
    with pytest.raises(InputError, match="with seed 0, not 5"):
        quietly(small(result["recipe"]), options(out, resume=True, seed=5))


def test_a_damaged_checkpoint_or_result_gives_one_sentence(tmp_path: Path) -> None:
    interrupted(tmp_path)
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(FileError, match="checkpoint"):
        quietly(recipe("owm", **SMALL), options(tmp_path, resume=True))
    (tmp_path / RESULT).write_text("{")
    with pytest.raises(FileError, match=RESULT):
        quietly(recipe("owm", **SMALL), options(tmp_path, resume=True))


def test_selection_scores_validation_data_of_the_current_or_all_seen_classes(tmp_path: Path) -> None:
    scored: list[list[int]] = []

    class Spy(Run):
        def accuracy(self, part: Any, classes: list[int]) -> float:
            if part is self.data.validation:
                scored.append(sorted(classes))
            return super().accuracy(part, classes)

    first, both = [0, 1, 2, 3, 4], list(range(10))
    for selection, second in (("current", [5, 6, 7, 8, 9]), ("seen", both), ("last", None)):
        scored.clear()
        with Progress("test", quiet=True) as progress:
            job = Spy(
                recipe("finetune", **SMALL), options(tmp_path / selection, tasks=2, selection=selection), progress
            )
            job.work(tmp_path / selection)
        epochs = [first] * 2 + [second] * 2 if second else []
        assert scored == [*epochs, both], "and once at the end, for whoever chooses settings"


def test_the_thread_count_is_fixed_within_a_run_and_put_back(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    result = quietly(recipe("finetune", **SMALL), options(tmp_path, tasks=1))
    assert result["threads"] == 1
    assert torch.get_num_threads() == before


def test_watch_writes_checkpoints_only_after_the_time_between_them(tmp_path: Path) -> None:
    with Progress("test", quiet=True) as progress:
        job = Run(recipe("finetune", **SMALL), options(tmp_path, checkpoint_seconds=1e6), progress)
        watch = RunWatch(job, tmp_path / CHECKPOINT)
        watch.stepped(Position(0, 1, 1, 2, 8))
    assert not (tmp_path / CHECKPOINT).exists()


def test_every_set_has_a_default_number_of_tasks() -> None:
    assert {RunOptions(name).resolved_tasks() for name in SETS} == {5}
    assert RunOptions("digits", tasks=3).resolved_tasks() == 3
    assert RunOptions("digits", seed=2).folder("owm") == Path("runs/digits-5/owm/seed2")


def test_curves_for_tensorboard_hold_the_results_numbers(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    result = quietly(small("owm+gfr"), options(tmp_path, tasks=2, tensorboard=True))
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    curves = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    assert [step for step, _ in curves["loss"]] == [1, 2, 3, 4], "an epoch each, counted over both tasks"
    assert curves["loss"][1][1] < curves["loss"][0][1]
    assert [value for _, value in curves["accuracy"]] == pytest.approx(result["accuracy_after_task"])
    assert curves["drift"] == [(2, pytest.approx(result["drift"][0]))]
    assert curves["projector trace/head"][1] == (2, pytest.approx(result["projector_traces"][1]["head"]))
    assert "measures/generator/as_asked/0" in curves


def test_without_tensorboard_a_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard.writer", None)
    with pytest.raises(InputError, match=r"pip install 'engram\[tensorboard\]'"):
        quietly(small("finetune"), options(tmp_path, tensorboard=True))


def test_the_loss_that_a_watch_is_told_is_the_mean_of_the_epochs_steps(tmp_path: Path) -> None:
    from engram.methods.gradient import GradientMethod

    told: list[tuple[int, int, float]] = []
    steps: list[float] = []

    class Telling(RunWatch):
        def epoch_ended(self, epoch: int, epochs: int, loss: float) -> None:
            told.append((epoch, epochs, loss))

    original = GradientMethod.train_step

    def train_step(self: GradientMethod, *arguments: Any) -> torch.Tensor:
        loss = original(self, *arguments)
        steps.append(float(loss))
        return loss

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engram.study.run.RunWatch", Telling)
        patch.setattr(GradientMethod, "train_step", train_step)
        quietly(small("finetune"), options(tmp_path, tasks=1))
    half = len(steps) // 2
    assert told == [(0, 2, pytest.approx(np.mean(steps[:half]))), (1, 2, pytest.approx(np.mean(steps[half:])))]


@pytest.mark.parametrize("name", ["gir", "dgm"])
def test_replayed_images_are_pictured_after_each_task(name: str, tmp_path: Path) -> None:
    quietly(small(name), options(tmp_path, tasks=2))
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [
        "replayed-after-task1.png",
        "replayed-after-task2.png",
    ]


def test_a_spoilt_run_leaves_its_last_good_checkpoint_and_says_where_it_went_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engram.methods.gradient import GradientMethod

    step = GradientMethod.train_step

    def spoilt(self: GradientMethod, optimizer: Any, x: Any, y: Any, position: Any) -> Any:
        if (position.task, position.epoch, position.index) == (1, 0, 3):
            self.network.head.weight.data[:] = float("nan")
        return step(self, optimizer, x, y, position)

    monkeypatch.setattr(GradientMethod, "train_step", spoilt)
    with pytest.raises(EngramError, match="loss of task 2 is no longer a finite number in epoch 1, step 4"):
        quietly(small("finetune"), options(tmp_path, checkpoint_seconds=0))
    tensors, meta = files.load(tmp_path / CHECKPOINT, kind="checkpoint")
    assert meta["training"]["step"] == 3
    assert all(tensor.isfinite().all() for name, tensor in tensors.items() if name.startswith("weights."))
    monkeypatch.undo()
    assert quietly(small("finetune"), options(tmp_path, resume=True))["accuracy"] >= 0
