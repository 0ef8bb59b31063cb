"""On a machine with a GPU: learners choose it, keep their promises there, and learn what they learn on the CPU."""

from __future__ import annotations

import pytest
import torch

from engram._trial import Trial
from engram.recipes import RECIPES
from engram.testing import CHECKS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


@pytest.mark.parametrize("check", ["round-trip", "uneven-tasks", "unseen-classes", "memory"])
@pytest.mark.parametrize("name", list(RECIPES))
def test_promises_are_kept_on_the_gpu(name: str, check: str) -> None:
    CHECKS[check](RECIPES[name], "images")


@pytest.mark.parametrize("name", ["analytic", "finetune", "owm", "gpm", "ewc"])
def test_a_gpu_learns_what_a_cpu_learns(name: str) -> None:
    trial = Trial.of(RECIPES[name], "images")
    if trial.trains:
        trial = Trial(trial.recipe.changed({"network": {"dropout": 0.0}}), "images")
    found = []
    for device in ("cpu", "cuda"):
        learner = trial.learner()
        learner.device = device
        for index in (0, 1):
            learner.partial_fit(*trial.task(2 * index, 2 * index + 1), classes=None if index else range(4))
        found.append(learner.predict_proba(trial.task(0, 1, 2, 3)[0]))
        assert learner.device_.type == device
    assert abs(found[0] - found[1]).max() < 1e-2
