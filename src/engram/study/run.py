"""One recipe, one data set, one seed: learnt task by task, measured, and written down as a result."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engram import files
from engram.data import Part, TaskStream, class_order, load, split_classes
from engram.data.sets import set_info
from engram.devices import resolve_device
from engram.distributed import first_process, joined, world
from engram.errors import InputError
from engram.learner import Learner
from engram.lesson import Position, State, Watch
from engram.memory import keep_freed_memory
from engram.progress import Progress
from engram.recipes import Recipe
from engram.study import metrics
from engram.study.machine import describe_machine, threads, versions
from engram.study.options import RunOptions
from engram.study.pictures import write_grid
from engram.study.protocol import asked, check_same, protocol, read_result
from engram.study.scalars import Scalars

RESULT = "result.json"
CHECKPOINT = "checkpoint.safetensors"
ANALYSIS = "analysis.safetensors"
SHOWN = 100
"""real and generated features a class that are kept for pictures"""
PICTURED = 10
"""generated images a class in a picture of replay"""


def run(recipe: Recipe, options: RunOptions, progress: Progress) -> dict[str, Any]:
    """Do the run, or what is left of it, and return its result (also in its folder).

    Under `torchrun` with the other processes, of which the first writes the files.
    """
    keep_freed_memory()
    with joined(resolve_device(options.device)):
        return _run(recipe, options, progress)


def _run(recipe: Recipe, options: RunOptions, progress: Progress) -> dict[str, Any]:
    out = options.folder(recipe.name)
    if "training" not in recipe.own and options.selection != "last":
        raise InputError(f"Recipe {recipe.name!r} has no epochs to select among: use --selection last.")
    recipe = recipe.for_set(set_info(options.dataset))
    if not options.resume and ((out / RESULT).exists() or (out / CHECKPOINT).exists()):
        raise InputError(f"{out} already holds a run: add --resume to go on with it, or choose another --out.")
    if (out / RESULT).exists():
        result = read_result(out / RESULT)
        check_same(out / RESULT, result, protocol(recipe, options) | asked(options))
        progress.say(f"{out / RESULT} is there already: this run is finished.")
        return result
    with threads(options.threads):
        job = Run(recipe, options, progress)
        files.make_folder(out)  # found out before the training rather than after it
        if options.resume:
            job.resume(out / CHECKPOINT)
        with closing(Scalars(out if options.tensorboard and first_process() else None)) as job.scalars:
            result = job.work(out)
    if first_process():
        files.write_json(out / RESULT, result)
        (out / CHECKPOINT).unlink(missing_ok=True)
    return result


class Run:
    """Owns the data, hands the tasks to a learner one by one, and measures after each."""

    def __init__(self, recipe: Recipe, options: RunOptions, progress: Progress) -> None:
        self.options = options
        self.scalars = Scalars(None)
        self.progress = progress
        self.data = load(options.dataset, options.data_dir, quiet=options.quiet)
        order = class_order(range(len(self.data.classes)), options.class_order_seed)
        tasks = options.resolved_tasks()
        self.groups = split_classes(order, tasks)
        self.recipe = recipe
        self.learner = Learner(
            recipe,
            seed=options.seed,
            precision=options.precision,
            device=str(resolve_device(options.device)),
            embeddings=options.vectors(),
        )
        # joint training sees one task that holds all classes, and is measured by the split it is compared with
        self.lessons = [order] if recipe.keeps_data else self.groups
        self.measured: dict[str, Any] = {
            "matrix": [],
            "drift": [],
            "projector_traces": [],
            "measures": [],
            "confusion": [],
            "seconds": 0.0,
        }
        self.first_features: np.ndarray | None = None
        self.versions = versions()  # asked now: the checkout may be another one when the run ends
        self.started = time.perf_counter()

    def work(self, out: Path) -> dict[str, Any]:
        classes = [label for group in self.groups for label in group]
        watch = RunWatch(self, out / CHECKPOINT)
        for task in TaskStream(self.data.train, self.lessons, start=len(self.measured["matrix"])):
            watch.task = task.index
            self.progress.task(task.index, len(self.lessons))
            self.learner.learn(task.x, task.y, classes if task.index == 0 else None, watch)
            self.measure(task.index)
            self.picture(task.index, out)
            self.checkpoint(out / CHECKPOINT)
        self.analyse(out / ANALYSIS)
        return self.result()

    def measure(self, index: int) -> None:
        """Accuracy on the test part of every task so far, drift of the first task's validation features, traces."""
        groups = self.groups if self.recipe.keeps_data else self.groups[: index + 1]
        confusion = self.confusion(groups)
        row = [float(confusion[group, group].sum() / confusion[group].sum()) for group in groups]
        self.measured["matrix"].append(row)
        self.measured["confusion"] = confusion.tolist()
        self.measured["projector_traces"].append(self.learner.projector_traces())
        self.measured["measures"].append(self.learner.measures())
        features = self.learner.features(self.data.validation.only(self.groups[0]).x)
        if self.first_features is None:
            self.first_features = features
        else:
            self.measured["drift"].append(metrics.feature_drift(self.first_features, features))
        self.progress.measured(index, float(np.mean(row)))
        self.show(index)

    def show(self, index: int) -> None:
        """The task's numbers as curves over the tasks."""
        after, seen = index + 1, self.measured["matrix"][-1]
        self.scalars.add("accuracy", float(np.average(seen, weights=self.test_counts()[: len(seen)])), after)
        if self.measured["drift"]:
            self.scalars.add("drift", self.measured["drift"][-1], after)
        self.scalars.add_all("projector trace", self.measured["projector_traces"][-1], after)
        self.scalars.add_all("measures", self.measured["measures"][-1], after)

    def picture(self, index: int, out: Path) -> None:
        """Where images are generated: a grid of them, a row for each class so far; texts, with what they pass for."""
        seen = [label for group in self.lessons[: index + 1] for label in group]
        images = self.learner.images(np.repeat(seen, PICTURED))
        if images is not None and first_process():
            names = [self.data.classes[label] for label in seen]
            rows = dict(zip(names, np.split(images, len(seen)), strict=True))
            write_grid(out / f"replayed-after-task{index + 1}.png", rows)
        texts = self.learner.texts(PICTURED * len(seen))
        if texts is not None:
            found = self.learner.predict([text or "-" for text in texts])
            lines = sorted(f"{self.data.classes[label]}\t{text}\n" for label, text in zip(found, texts, strict=True))
            files.write_text(out / f"replayed-after-task{index + 1}.txt", "".join(lines))

    def analyse(self, path: Path) -> None:
        """Where features are generated: some of each class, real and generated, side by side for a picture."""
        y = np.concatenate([np.full(SHOWN, label) for label in range(len(self.data.classes))])
        generated = self.learner.generate(y)
        if generated is None or not first_process():
            return
        rng = np.random.default_rng(self.options.seed)
        rows = [np.flatnonzero(self.data.train.y == label) for label in range(len(self.data.classes))]
        chosen = np.concatenate([rng.choice(of_class, min(SHOWN, len(of_class)), False) for of_class in rows])
        features = {"real": self.learner.extract(self.data.train.x[chosen]), "generated": generated}
        tensors = {name: torch.from_numpy(values).half() for name, values in features.items()}
        labels = {"real_y": torch.from_numpy(self.data.train.y[chosen]), "generated_y": torch.from_numpy(y)}
        files.save(path, tensors | labels, self.identity(), kind="analysis")

    def accuracy(self, part: Part, classes: list[int]) -> float:
        chosen = part.only(classes)
        return float((self.learner.predict(chosen.x) == chosen.y).mean())

    def confusion(self, groups: list[list[int]]) -> np.ndarray:
        """Of the test samples of these tasks."""
        chosen = self.data.test.only([label for group in groups for label in group])
        return metrics.confusion_matrix(chosen.y, self.learner.predict(chosen.x), len(self.data.classes))

    def test_counts(self) -> list[int]:
        """Test samples of each task."""
        return [int(np.isin(self.data.test.y, group).sum()) for group in self.groups]

    def checkpoint(self, path: Path) -> None:
        """Everything that the rest of the run depends on, in one file."""
        if not first_process():
            return
        state = self.learner.state()
        if self.first_features is not None:
            state.tensors["run.first_features"] = torch.from_numpy(self.first_features)
        state.meta |= {"run": self.identity(), "versions": self.versions}
        state.meta["measured"] = self.measured | {"seconds": self.seconds()}
        files.save(path, state.tensors, state.meta, kind="checkpoint")

    def resume(self, path: Path) -> None:
        self.check_same_folder(path)
        if not path.exists():
            self.progress.say(f"There is nothing to resume in {path.parent}: starting afresh.")
            return
        tensors, meta = files.load(path, kind="checkpoint")
        check_same(path, meta["run"], self.identity())
        features = tensors.pop("run.first_features", None)
        self.first_features = None if features is None else features.numpy()
        self.measured = meta["measured"]
        if meta["versions"] != self.versions:
            began = ", ".join(f"{name} {version}" for name, version in meta["versions"].items())
            self.progress.say(f"This run began with other versions, which its result will name: {began}.")
            self.versions = meta["versions"]
        self.learner.restore(State(tensors, meta))
        done = len(self.measured["matrix"])
        self.progress.say(
            f"Resuming after {done} of {len(self.lessons)} tasks and {meta['measured']['seconds']:.0f} s."
        )

    def check_same_folder(self, path: Path) -> None:
        """All processes go on from the same checkpoint, or none does."""
        seen = torch.tensor(float(path.exists()))
        world().sum([seen])
        if float(seen) not in (0, world().size):
            raise InputError(f"Not every process finds {path}: give an --out that all machines share.")

    def identity(self) -> dict[str, Any]:
        """What makes this run this run: resuming with anything else would not give its numbers."""
        machine = {"precision": self.options.precision, "device": self.options.device}
        processes = {"processes": world().size} if world().size > 1 else {}
        return protocol(self.recipe, self.options) | machine | {"threads": torch.get_num_threads()} | processes

    def seconds(self) -> float:
        return self.measured["seconds"] + time.perf_counter() - self.started

    def result(self) -> dict[str, Any]:
        task_of = {label: index for index, group in enumerate(self.groups) for label in group}
        confusion = self.measured["confusion"]  # the last one, of all classes
        accuracy, inter, inner = metrics.errors_by_task(confusion, [task_of[c] for c in range(len(task_of))])
        matrix = self.measured["matrix"]
        after = [accuracy] if self.recipe.keeps_data else metrics.accuracy_after_task(matrix, self.test_counts())
        return {
            **self.identity(),
            "precision": self.learner.precision_,
            "device": str(self.learner.device_),
            "groups": self.groups,
            "class_names": list(self.data.classes),
            "texts": None if self.learner.texts_ is None else self.learner.texts_.describe(),
            "samples": {part: len(getattr(self.data, part)) for part in ("train", "validation", "test")},
            "accuracy": accuracy,
            "validation_accuracy": self.accuracy(self.data.validation, list(range(len(task_of)))),
            "inter_task_error": inter,
            "inner_task_error": inner,
            "accuracy_after_task": after,
            "average_incremental_accuracy": float(np.mean(after)),
            "forgetting": None if self.recipe.keeps_data else metrics.forgetting(matrix),
            "matrix": matrix,
            "drift": self.measured["drift"],
            "confusion": confusion,
            "projector_traces": self.measured["projector_traces"],
            "measures": self.measured["measures"],
            "seconds": self.seconds(),
            "versions": self.versions,
            "machine": describe_machine(),
        }


class RunWatch(Watch):
    """Shows the progress, writes checkpoints, and scores epochs where the protocol selects among them."""

    def __init__(self, job: Run, path: Path) -> None:
        self.job = job
        self.path = path
        self.task = 0
        self.saved = time.perf_counter()

    def stepped(self, position: Position) -> None:
        self.job.progress.stepped(position)
        if world().size > 1 and "training" not in self.job.recipe.own:
            return  # a closed form's sums are in pieces until the task ends
        if time.perf_counter() - self.saved >= self.job.options.checkpoint_seconds:
            self.job.checkpoint(self.path)
            self.saved = time.perf_counter()

    def worked(self, what: str, done: int, total: int) -> None:
        self.job.progress.worked(what, done, total)

    def epoch_ended(self, epoch: int, epochs: int, loss: float) -> None:
        self.job.scalars.add("loss", loss, self.task * epochs + epoch + 1)

    def score_epoch(self) -> float | None:
        job = self.job
        if job.options.selection == "last":
            return None
        first = self.task if job.options.selection == "current" else 0
        groups = job.lessons[first : self.task + 1]
        return job.accuracy(job.data.validation, [label for group in groups for label in group])
