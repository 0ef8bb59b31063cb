"""What the conformance suite tries recipes with: small data, small learners, and eyes for what they do and hold."""

from __future__ import annotations

import gc
import json
import random
import types
import weakref
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import is_lazy

from engram import files
from engram.learner import Learner
from engram.lesson import Lesson, Position, State, Watch
from engram.projection import PENDING_ROWS
from engram.recipes import Recipe
from engram.settings import ExemplarSettings, GeneratorSettings, InputReplaySettings

Inputs = Literal["images", "tables", "texts"]
Task = tuple[np.ndarray, np.ndarray]
Moment = tuple[int, int, int]
"""(task, epoch, step); the epoch is END when the task is done"""

END = 10**6
LENGTH = 9
"""words of a text"""
EXEMPLARS = 13
"""samples that recipes with a memory of exemplars may store here: fewer than two small tasks have"""


SMALL: dict[str, dict[str, Any]] = {
    "training": {"epochs": 2, "batch_size": 8},
    "network": {"filters": (4, 6, 8), "hidden": 16},
    "analytic": {"filters": 6, "width": 16},
    "head": {"rows": 8},
    "dgm": {"generator_steps": 3, "generator_width": 3, "generator_batch": 8, "noise": 5},
    "text": {"filters": 6, "dimension": 7, "buckets": 50, "length": LENGTH},
    "pgma": {"generator_steps": 2, "generator_width": 12, "hidden": 10, "rank": 4, "latent": 5},
}
"""settings that make methods small, by group"""
WRITER = {"pretraining_steps": 2, "adversarial_steps": 1, "rollouts": 2, "text_length": 6, "text_width": 5}
"""the same of generators of texts"""


@dataclass(frozen=True)
class Trial:
    """A recipe, made small and quick where that changes nothing of its nature, and data for it."""

    recipe: Recipe
    inputs: Inputs

    @classmethod
    def of(cls, recipe: Recipe, inputs: Inputs) -> Trial:
        small = {name: values for name, values in SMALL.items() if name in recipe.own}
        generator = {"generator_steps": 2, "generator_width": 12, "generator_batch": 8}
        generators = {
            name: generator for name, group in recipe.ingredients.items() if isinstance(group, GeneratorSettings)
        }
        writers = {
            name: {**generator, **WRITER}
            for name, group in recipe.ingredients.items()
            if isinstance(group, InputReplaySettings)
        }
        memories = {
            name: {"memory": EXEMPLARS}
            for name, group in recipe.ingredients.items()
            if isinstance(group, ExemplarSettings)
        }
        return cls(recipe.changed(small | generators | writers | memories), inputs)

    @property
    def trains(self) -> bool:
        """Whether it goes over its data in epochs, at a learning rate."""
        return "training" in self.recipe.own

    def training(self, **settings: Any) -> Trial:
        return Trial(self.recipe.changed({"training": settings}), self.inputs)

    def learner(self, seed: int = 0) -> Learner:
        return Learner(self.recipe, seed=seed)

    def learnt(self, tasks: Sequence[Task], classes: Any = None, seed: int = 0) -> Learner:
        learner = self.learner(seed)
        for index, (x, y) in enumerate(tasks):
            learner.partial_fit(x, y, None if index else classes)
        return learner

    def task(self, *classes: int, rows: int | None = None) -> Task:
        """Samples of these classes in a mixed order, always the same ones."""
        rng = np.random.default_rng([len(classes), *classes])
        y = rng.permutation(np.resize(classes, 11 * len(classes) if rows is None else rows))
        if self.inputs == "texts":
            return np.array([_sentence(label, rng) for label in y.tolist()], dtype=object), y
        shape = (8, 8) if self.inputs == "images" else (6,)
        centres = {label: np.random.default_rng(label).integers(40, 216, shape) for label in classes}
        x = np.stack([centres[label] for label in y.tolist()]) + rng.integers(-40, 40, (len(y), *shape))
        return (x.astype(np.uint8) if self.inputs == "images" else x.astype(np.float32)), y


def _sentence(label: int, rng: np.random.Generator) -> str:
    """A few words, most of which only this class has; enough of them for a small network to answer to some."""
    words = [f"c{label}w{rng.integers(5)}" if rng.random() < 0.7 else f"w{rng.integers(20)}" for _ in range(LENGTH + 2)]
    return " ".join(words[: rng.integers(5, len(words) + 1)])


def copy(state: State) -> State:
    """A state as it is now and stays, in the form that it has in a file."""
    return State({name: t.detach().clone() for name, t in state.tensors.items()}, json.loads(json.dumps(state.meta)))


def through_file(state: State) -> State:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.safetensors"
        files.save(path, state.tensors, state.meta, kind="checkpoint")
        return State(*files.load(path, kind="checkpoint"))


def saved_size(learner: Learner) -> int:
    """Bytes of the learner's file, without the projectors' pending rows: these come and go, up to a bound."""
    pending = [t for name, t in learner.state().tensors.items() if name.endswith(".pending")]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        learner.save(path)
        return path.stat().st_size - sum(t.nbytes for t in pending)


def state_bytes(state: State) -> int:
    """Bytes of all tensors, each projector's pending rows counted at their bound."""
    tensors = state.tensors.items()
    return sum(t[0:1].nbytes * PENDING_ROWS if _pending(name, t) else t.nbytes for name, t in tensors)


def _pending(name: str, tensor: Tensor) -> bool:
    return name.endswith(".pending") and 0 < len(tensor) <= PENDING_ROWS


def difference(one: State, other: State) -> str:
    """The first thing in which two states differ, bit for bit; empty if they do not."""
    if one.tensors.keys() != other.tensors.keys():
        return f"tensors {sorted(one.tensors.keys() ^ other.tensors.keys())} in one of them only"
    for name, tensor in one.tensors.items():
        if not _same_bits(tensor, other.tensors[name]):
            return f"tensor {name!r}"
    here, there = copy(one).meta, copy(other).meta
    return next((f"meta {key!r}" for key in here.keys() | there.keys() if here.get(key) != there.get(key)), "")


def _same_bits(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))


def scores_by_class(learner: Learner, x: np.ndarray) -> dict[Any, np.ndarray]:
    return dict(zip(learner.classes_.tolist(), learner._class_scores(x).T, strict=True))


class Recorder(Watch):
    """Has a learner learn tasks and remembers its state at every step.

    With `scored`, the first epoch is the best one, and the classes are announced.
    """

    def __init__(self, learner: Learner, scored: bool, start: Moment = (0, 0, 0)) -> None:
        self.learner, self.scored = learner, scored
        self.task, self.epoch, _ = start
        self.states: dict[Moment, State] = {}
        self.outputs: dict[int, list[np.ndarray]] = {}

    def learn(self, tasks: Sequence[Task]) -> Recorder:
        for index in range(self.task + (self.epoch == END), len(tasks)):
            self.task, (x, y) = index, tasks[index]
            announced = range(4) if self.scored and self.task == 0 else None
            self.learner.learn(x, y, announced, self)
            self.states[self.task, END, 0] = copy(self.learner.state())
            self.outputs[self.task] = [self.learner.predict_proba(x), self.learner.features(x)]
        return self

    def stepped(self, position: Position) -> None:
        self.epoch = position.epoch
        self.states[self.task, position.epoch, position.step] = copy(self.learner.state())

    def score_epoch(self) -> float | None:
        return -float(self.epoch) if self.scored else None


class Meddler(Watch):
    """Draws from and seeds every global generator, and predicts, while somebody else is learning."""

    def __init__(self, learner: Learner, x: np.ndarray) -> None:
        self.learner, self.x = learner, x

    def stepped(self, position: Position) -> None:
        meddle()
        self.learner.predict_proba(self.x)

    def score_epoch(self) -> float | None:
        meddle()
        return None


def meddle() -> None:
    fresh = random.SystemRandom().randrange(2**31)  # no two runs are meddled with in the same way
    torch.manual_seed(fresh)
    np.random.seed(fresh)
    random.seed(fresh)


def random_states() -> dict[str, Any]:
    arrays = np.random.get_state(legacy=False)
    return {
        "torch": torch.random.get_rng_state().numpy().tobytes(),
        "numpy": json.dumps(arrays, default=np.ndarray.tolist),
        "random": random.getstate(),
    }


@contextmanager
def randomness_restored() -> Iterator[None]:
    """The suite itself leaves the caller's generators as they were."""
    before = torch.random.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.random.set_rng_state(before[0])
        np.random.set_state(before[1])
        random.setstate(before[2])


@dataclass
class Spy(Watch):
    """Holds weak references to what a task consists of, and looks for its samples in checkpoints."""

    learner: Learner
    rows: int
    given: list[tuple[str, weakref.ref[Any]]] = field(default_factory=list)
    rows_in_state: set[str] = field(default_factory=set)

    def learn(self, x: Any, y: Any) -> None:
        self.given += [("X", weakref.ref(x)), ("y", weakref.ref(y))]
        self.learner.learn(x, y, None, self)
        self.search_state()

    def stepped(self, position: Position) -> None:
        if position.epoch == 0 and position.step == 1:
            for lesson in [item for item in gc.get_objects() if type(item) is Lesson]:
                parts = {"the lesson": lesson, "the lesson's x": lesson.x, "the lesson's y": lesson.y}
                self.given += [(name, weakref.ref(part)) for name, part in parts.items()]
            self.search_state()

    def search_state(self) -> None:
        self.rows_in_state |= {name for name, t in self.learner.state().tensors.items() if self.rows in t.shape}

    def alive(self) -> list[str]:
        gc.collect()
        return sorted({name for name, reference in self.given if reference() is not None})


def live_arrays() -> dict[int, Any]:
    """Every tensor and array that Python can reach, by id; collect garbage before."""
    kinds = _kinds(Tensor) | _kinds(np.ndarray)
    level = [item for item in gc.get_objects() if type(item) not in _HOLD_NO_ARRAYS]
    found: dict[int, Any] = {id(item): item for item in level if type(item) in kinds}
    while level:  # NumPy's arrays are not among these objects, nor are tuples and dictionaries of nothing else
        held = gc.get_referents(*level)
        found |= {id(item): item for item in held if type(item) in kinds}
        hidden = {id(item): item for item in held if type(item) in (tuple, dict) and not gc.is_tracked(item)}
        level = list(hidden.values())
    return found


_HOLD_NO_ARRAYS = {
    *(types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, property, classmethod, staticmethod),
    *(types.WrapperDescriptorType, types.MethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType),
    *(weakref.ref, types.GenericAlias, types.MappingProxyType),
}
"""kinds of objects, very many of them, that hold nothing but code or dictionaries that are objects themselves"""


def _kinds(base: type) -> set[type]:
    return {base}.union(*(_kinds(kind) for kind in type.__subclasses__(base)))


def memory_blocks(arrays: dict[int, Any], besides: Container[int] = ()) -> dict[int, tuple[int, int]]:
    """(bytes, numbers) of each piece of memory that arrays are views of, by its address."""
    blocks: dict[int, tuple[int, int]] = {}
    for item in (item for key, item in arrays.items() if key not in besides):
        if isinstance(item, Tensor):
            if item.layout != torch.strided or is_lazy(item) or isinstance(item, FakeTensor):
                continue  # a sparse tensor's memory belongs to its parts, which are listed; others have none (yet)
            storage = item.untyped_storage()
            blocks[storage.data_ptr()] = (storage.nbytes(), storage.nbytes() // item.itemsize)
        else:
            while isinstance(item.base, np.ndarray):
                item = item.base
            blocks[item.__array_interface__["data"][0]] = (item.nbytes, item.size)
    return {address: sizes for address, sizes in blocks.items() if sizes[1]}
