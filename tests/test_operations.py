"""What a training step asks of the machine, counted rather than timed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engram import projection
from engram._trial import Trial
from engram.ingredients.base import Step
from engram.ingredients.owm import OWMIngredient
from engram.lesson import Lesson
from engram.methods.gradient import GradientMethod
from engram.networks import build_network
from engram.projection import PENDING_ROWS
from engram.recipes import RECIPES
from engram.settings import NetworkSettings, OWMSettings, TrainingSettings

BATCH = 16
WAITS = {"_local_scalar_dense", "nonzero", "equal", "_unique2", "unique_dim", "masked_select"}
"""operations that a device must be waited for"""
PRODUCTS = {"mm": 0, "bmm": 0, "_linear_pointwise": 0, "addmm": 1, "addmm_": 1}
"""products of matrices, and the place of the left factor among what they are given"""
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")),
]


class Counter(TorchDispatchMode):
    """Counts operations, those that read or write a matrix of `wide` x `wide`, and the largest product."""

    def __init__(self, wide: int) -> None:
        super().__init__()
        self.wide = wide
        self.operations = self.passes = self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.is_view:
            return result
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        self.operations += 1
        self.passes += any(tuple(tensor.shape) == (self.wide, self.wide) for tensor in tensors)
        left = PRODUCTS.get(func.overloadpacket.__name__)
        if left is not None:
            self.largest = max(self.largest, result.numel() * tensors[left].shape[-1])
        return result


class Waiting(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        assert name not in WAITS, f"{name} waits for the device"
        return func(*args, **(kwargs or {}))


@contextmanager
def no_waiting(device: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An error for whatever waits for the device; a CPU is taken for a device too."""
    monkeypatch.setattr(projection, "LOOKED_AT", set())
    if device == "cpu":
        with Waiting():
            yield
        return
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def protected(shape: tuple[int, ...], settings: NetworkSettings) -> tuple[GradientMethod, Lesson]:
    torch.manual_seed(0)
    x, y = torch.randn(BATCH, *shape), torch.arange(BATCH) % 5
    ingredients = [OWMIngredient(OWMSettings())]
    where = torch.device("cpu")
    method = GradientMethod(build_network(shape, 5, settings), ingredients, TrainingSettings(), 0, where, False)
    return method, Lesson(0, x, y, 5)


def counted(method: GradientMethod, lesson: Lesson, wide: int, steps: int) -> list[Counter]:
    optimizer = method.begin(lesson).optimizer
    method.network.train()
    x, counters = method.network.prepare(lesson.x), []
    for index in range(steps):
        with Counter(wide) as counter:
            method.train_step(optimizer, x, lesson.y, Step(0, 0, index, index / steps))
        counters.append(counter)
    return counters


def test_a_step_passes_over_the_projector_once_and_multiplies_it_with_a_batch() -> None:
    wide = 1024
    counters = counted(*protected((wide,), NetworkSettings(hidden=40)), wide=wide, steps=PENDING_ROWS + 1)
    assert [counter.passes for counter in counters] == [1] * PENDING_ROWS + [2]  # the last folds the waiting rows in
    assert max(counter.largest for counter in counters[:-1]) == BATCH * wide**2
    assert counters[-1].largest == PENDING_ROWS * wide**2


def test_patches_are_absorbed_together_and_not_one_by_one() -> None:
    settings = NetworkSettings(filters=(4, 6, 8), hidden=20, dropout=0.0)
    found = [counted(*protected((3, side, side), settings), wide=10**6, steps=2)[1].operations for side in (16, 24)]
    assert found[0] == found[1]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [name for name, entry in RECIPES.items() if entry.method == "gradient"])
def test_no_step_waits_for_the_device(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial.of(RECIPES[name].changed({"network": {"dropout": 0.0}}), "images")
    learner = trial.learner()
    learner.device = device
    for index in (0, 1):
        learner.partial_fit(*trial.task(2 * index, 2 * index + 1), classes=None if index else range(6))
    method = learner.method_
    assert isinstance(method, GradientMethod)
    x, y = trial.task(4, 5)
    inputs = torch.from_numpy(x[:, None]).to(device)
    lesson = Lesson(2, inputs, torch.from_numpy(y).to(device), 6)
    optimizer = method.begin(lesson).optimizer
    method.network.train()
    batches = list(method.batches(lesson, 0))[:2]
    for index, batch in enumerate(batches):
        with no_waiting(device, monkeypatch):
            method.train_step(optimizer, *batch, Step(2, 0, index, index / 3))
