"""e: the twentieth task relative to the second, in time and in what is stored."""

from __future__ import annotations

import copy
from collections.abc import Callable

from engram._trial import Trial, state_bytes
from engram.bench.figures import Effort, Figure, different_recipes, interleaved, ratio
from engram.learner import Learner
from engram.recipes import RECIPES

TASKS = 20
ROWS = 256
MOST = 1.05


def growth(effort: Effort) -> list[Figure]:
    """Of every recipe that promises not to grow, in its small form on small data."""
    tasks = 4 if effort.quick else TASKS
    names = [name for name in different_recipes() if not RECIPES[name].keeps_data and not RECIPES[name].grows]
    return [figure for name in names[: 4 if effort.quick else None] for figure in _growth(name, tasks, effort)]


def _growth(name: str, tasks: int, effort: Effort) -> list[Figure]:
    trial = Trial.of(RECIPES[name], "images")

    def task(index: int) -> tuple:
        return trial.task(2 * index, 2 * index + 1, rows=ROWS)

    early = trial.learnt([task(0)], range(2 * tasks))
    late = copy.deepcopy(early)
    for index in range(1, tasks - 1):
        late.partial_fit(*task(index))
    acts = {"early": _learning(early, task(1)), "late": _learning(late, task(tasks - 1))}
    found = interleaved(acts, effort.rounds(7))
    early.partial_fit(*task(1))
    late.partial_fit(*task(tasks - 1))
    stored = state_bytes(late.state()) / state_bytes(early.state())
    return [
        Figure(f"{name}: time of task {tasks} / task 2", ratio(found["late"], found["early"]), most=MOST),
        Figure(f"{name}: bytes stored after task {tasks} / task 2", stored, most=MOST),
    ]


def _learning(learner: Learner, task: tuple) -> Callable[[], object]:
    return lambda: copy.deepcopy(learner).partial_fit(*task)
