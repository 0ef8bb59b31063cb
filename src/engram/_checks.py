"""The conformance suite's checks, one a promise; `engram.testing` names them and says how to use them."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from engram._trial import (
    END,
    LENGTH,
    Meddler,
    Moment,
    Recorder,
    Spy,
    Task,
    Trial,
    copy,
    difference,
    live_arrays,
    meddle,
    memory_blocks,
    random_states,
    saved_size,
    scores_by_class,
    state_bytes,
    through_file,
)
from engram.learner import Learner
from engram.lesson import Position, State, Watch
from engram.recipes import RECIPES, Recipe

FEW, MANY = 101, 1009
"""numbers of samples: primes that are no dimension of anything else"""


class BrokenError(Exception):
    """What was seen when a promise was broken."""


def require(kept: bool, seen: str) -> None:
    if not kept:
        raise BrokenError(seen)


def check_resume(trial: Trial) -> None:
    tasks = [trial.task(0, 1), trial.task(2, 3)]
    for scored in (False, True):
        whole = Recorder(trial.learner(), scored).learn(tasks)
        for moment in _moments(list(whole.states), scored):
            _resume(trial, tasks, whole, moment)


def _moments(all_moments: list[Moment], scored: bool) -> list[Moment]:
    """First step, middle of an epoch, last step, and between the tasks; with scores, past the best epoch."""
    chosen: list[Moment] = []
    for task in (0, 1):
        steps = [moment for moment in all_moments if moment[0] == task and moment[1] != END]
        places = (len(steps) // 2, -1) if scored else (0, 1, -1)
        chosen += [steps[place] for place in places if steps]
    return chosen if scored else [*chosen, (0, END, 0)]


def _resume(trial: Trial, tasks: list[Task], whole: Recorder, moment: Moment) -> None:
    task, epoch, step = moment
    where = f"task {task + 1}, " + ("its end" if epoch == END else f"epoch {epoch + 1}, step {step}")
    where += " (with scored epochs)" if whole.scored else ""
    learner = trial.learner()
    learner.restore(through_file(whole.states[moment]))
    require(not (seen := difference(whole.states[moment], learner.state())), f"restored at {where}, {seen} differs")
    resumed = Recorder(learner, whole.scored, moment).learn(tasks)
    rest = [later for later in whole.states if later > moment]
    require(list(resumed.states) == rest, f"resumed at {where}, it did other steps than were left")
    for later in rest:
        seen = difference(whole.states[later], resumed.states[later])
        require(not seen, f"resumed at {where}, {seen} differs later on")
    for index, outputs in resumed.outputs.items():
        same = all(np.array_equal(a, b) for a, b in zip(outputs, whole.outputs[index], strict=True))
        require(same, f"resumed at {where}, predictions after task {index + 1} differ")


def check_no_old_data(trial: Trial) -> None:
    if trial.recipe.keeps_data or trial.recipe.exemplars:
        told = re.search(r"\b(stor|keep|kept|exemplar)", trial.recipe.about)
        require(bool(told), f"it stores samples, and {trial.recipe.about!r} does not tell")
    if trial.recipe.keeps_data:
        return
    if trial.trains:
        trial = trial.training(epochs=1, batch_size=64)
    trial.learnt([trial.task(0, 1)])  # whatever is set up at the first use is set up now
    gc.collect()
    before = live_arrays()
    (held, size), (held_later, size_later) = (_leftovers(trial, rows, before) for rows in (FEW, MANY))
    seen = f"after tasks of {FEW} and of {MANY} samples, {{}} are {{}} and {{}} bytes"
    if trial.recipe.grows:  # by what training makes of it; `check_memory` asks for a bound
        return
    require(held == held_later, seen.format("its arrays in memory", held, held_later))
    require(abs(size - size_later) < (MANY - FEW) // 2, seen.format("its files", size, size_later))


def _leftovers(trial: Trial, rows: int, before: dict[int, Any]) -> tuple[int, int]:
    """Bytes in memory and in the file after two tasks, of which nothing must be left."""
    learner = trial.learner()
    spy = Spy(learner, rows)
    spy.learn(*trial.task(0, 1, rows=rows))
    x, y = trial.task(2, 3, rows=rows)
    spy.learn(x if trial.inputs == "texts" else torch.from_numpy(x), torch.from_numpy(y))
    del x, y
    require(not (alive := spy.alive()), f"{', '.join(alive)} lived on after the task")
    stored, allowed = _samples_in(learner.state(), trial), trial.recipe.exemplars
    require(stored == allowed, f"its state holds {stored} of {2 * rows} samples, and its settings say {allowed}")
    names = ", ".join(sorted(spy.rows_in_state))
    require(not names, f"its state has a row for each of {rows} samples in {names}")
    blocks = memory_blocks(live_arrays(), besides=before)
    of_samples = [numbers for _, numbers in blocks.values() if numbers % rows == 0]
    require(not of_samples, f"after tasks of {rows} samples, arrays of {of_samples} numbers lived on")
    return sum(size for size, _ in blocks.values()), saved_size(learner)


def _samples_in(state: State, trial: Trial) -> int:
    """How many rows of tensors look like the trial's inputs."""
    if trial.inputs == "texts":
        return sum(len(t) for t in state.tensors.values() if t.dtype == torch.int32 and t.shape[1:] == (LENGTH,))
    x, _ = trial.task(0)
    shape = (1, *x.shape[1:]) if trial.inputs == "images" else x.shape[1:]
    kind = torch.from_numpy(x).dtype
    found = [t for t in state.tensors.values() if t.shape[1:] == shape and t.dtype == kind]
    return sum(len(t) for t in found if trial.inputs == "images" or _are_rows(t, trial))


def _are_rows(tensor: torch.Tensor, trial: Trial) -> bool:
    """Whether numbers are as large as a table's inputs are: weights for them have its shape too."""
    return bool(len(tensor) and tensor.mean() > 10)


def check_uneven_tasks(trial: Trial) -> None:
    x, _ = trial.task(*range(6))
    for groups, classes in (([[0, 1, 2], [3], [4, 5]], None), ([[3], [0, 5, 2], [4, 1]], range(6))):
        learner = trial.learnt([trial.task(*group) for group in groups], classes)
        probabilities = learner.predict_proba(x)
        require(learner.classes_.tolist() == list(range(6)), f"after {groups}, classes_ is {learner.classes_}")
        require(probabilities.shape[1] == 6, f"after {groups}, it gives {probabilities.shape[1]} probabilities")
        lost = [label for label, scores in scores_by_class(learner, x).items() if not np.isfinite(scores).all()]
        require(not lost, f"after {groups}, classes {lost} can never be predicted")


def check_same_seed(trial: Trial) -> None:
    tasks = [trial.task(0, 1), trial.task(2, 3)]
    x = tasks[0][0]
    alone = trial.learnt(tasks)
    disturbed = trial.learner()
    for task in tasks:
        meddle()
        _untouched("learning", lambda task=task: disturbed.partial_fit(*task))
    _same(alone, disturbed, "when others drew random numbers between the tasks")
    _untouched("predicting", lambda: (alone.predict(x), alone.predict_proba(x), alone.features(x)))
    _untouched("restoring a state", lambda: trial.learner().restore(copy(alone.state())))
    watched = trial.learner()
    for task in tasks:
        watched.learn(*task, None, Meddler(watched, x))
    _same(alone, watched, "when a Watch predicted and drew random numbers")
    _same(trial.learnt(tasks[:1]), watched.fit(*tasks[0]), "when `fit` started anew")
    other = trial.learnt(tasks, seed=1)
    scores, others = scores_by_class(alone, x), scores_by_class(other, x)
    differ = any(not np.array_equal(scores[label], others[label]) for label in scores)
    require(differ, "seeds 0 and 1 gave the same numbers")


def _untouched(doing: str, act: Callable[[], object]) -> None:
    before = random_states()
    act()
    after = random_states()
    touched = [name for name in before if before[name] != after[name]]
    require(not touched, f"{doing} changed the global random state of {', '.join(touched)}")


def _same(one: Learner, other: Learner, when: str) -> None:
    require(not (seen := difference(one.state(), other.state())), f"{seen} differs {when}")


def check_unseen_classes(trial: Trial) -> None:
    learner = trial.learner()
    x, _ = trial.task(*range(6))
    for done, group in enumerate(([1, 4], [0], [2, 3])):
        learner.partial_fit(*trial.task(*group), classes=None if done else [5, 4, 3, 2, 1, 0])
        seen = np.isin(learner.classes_, [[1, 4], [1, 4, 0], [1, 4, 0, 2, 3]][done])
        wrong = sorted(set(learner.predict(x).tolist()) - set(learner.classes_[seen].tolist()))
        require(not wrong, f"after task {done + 1}, it predicts {wrong}, which it has not learnt")
        probabilities = learner.predict_proba(x)
        require(not probabilities[:, ~seen].any(), f"after task {done + 1}, unseen classes have a probability")
        require(np.allclose(probabilities.sum(1), 1, rtol=0, atol=1e-9), "probabilities do not sum to 1")


def check_round_trip(trial: Trial) -> None:
    names = np.array(["pear", "apple", "fig", "kiwi"])
    tasks = [trial.task(0, 1), trial.task(2, 3)]
    named = [(x, names[y]) for x, y in tasks]
    for first, second, classes in ((*tasks, [3, 2, 1, 0]), (*named, None)):
        learner = trial.learnt([first], classes)
        loaded = _saved_and_loaded(learner, trial.recipe)
        same = np.array_equal(learner.predict_proba(second[0]), loaded.predict_proba(second[0]))
        require(same, "the loaded learner gives other probabilities")
        same = np.array_equal(learner.predict(first[0]), loaded.predict(first[0]))
        require(same and learner.classes_.dtype == loaded.classes_.dtype, "the loaded learner predicts others")
        _same(learner, loaded, "in the loaded learner")
        _same(learner.partial_fit(*second), loaded.partial_fit(*second), "after both learnt one more task")


def _saved_and_loaded(learner: Learner, recipe: Recipe) -> Learner:
    kinds = [
        None if entry is None else {name: type(group) for name, group in entry.groups().items()}
        for entry in (recipe, RECIPES.get(recipe.name))
    ]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        learner.save(path)
        return Learner.load(path) if kinds[0] == kinds[1] else Learner.load(path, recipe)


def check_memory(trial: Trial) -> None:
    if trial.recipe.keeps_data:
        return
    learner, sizes, lives = trial.learner(), [], []
    for done in range(6):
        learner.partial_fit(*trial.task(2 * done, 2 * done + 1), classes=None if done else range(12))
        state = learner.state()
        sizes.append((state_bytes(state), len(json.dumps(state.meta))))
        if done in (1, 5):
            gc.collect()
            lives.append(sum(size for size, _ in memory_blocks(live_arrays()).values()))
        if trial.recipe.grows:
            grown = learner.measures()["growth"]
            require(grown["weights"] <= grown["most"], f"after {done + 1} tasks, {grown} shows no bound")
    if trial.recipe.grows:
        require("grows" in trial.recipe.about, f"its `grows` is true, and {trial.recipe.about!r} does not tell")
        return
    states, metas = zip(*sizes[1:], strict=True)  # an old network, say, comes with the second task
    require(len(set(states)) == 1, f"after 2 to 6 tasks, its state's tensors are {states} bytes")
    require(metas[-1] - metas[0] < 100, f"after 2 to 6 tasks, its state's other values are {metas} bytes")
    require(lives[0] == lives[1], f"from 2 to 6 tasks, {lives[1] - lives[0]} bytes of arrays were added in memory")


def check_growing(trial: Trial) -> None:
    names = np.array(["pear", "apple", "fig", "Kiwi"])
    (x, y), (more, y_more) = trial.task(0, 1), trial.task(2, 3)
    learner = trial.learnt([(x, names[y])])
    require(learner.classes_.tolist() == ["apple", "pear"], f"classes_ is {learner.classes_}, not sorted")
    before = scores_by_class(learner, x)
    still = (trial.training(learning_rate=1e-30) if trial.trains else trial).learner()  # only growth changes anything
    still.restore(copy(learner.state()))
    compare = _Compare(still, x, before)
    still.learn(more, names[y_more], None, compare)
    require(still.classes_.tolist() == sorted(names.tolist()), f"classes_ is {still.classes_}, not sorted")
    if trial.recipe.method == "analytic":  # there is no learning so slow that it could be told apart from growing
        _same_in_any_grouping(trial, still, names)
    elif not trial.recipe.keeps_data:  # then everything is learnt afresh
        require(compare.change < 1e-5, f"scores of old classes moved by {compare.change:.3g} of their size")


def _same_in_any_grouping(trial: Trial, learner: Learner, names: np.ndarray) -> None:
    """What comes at once, one by one or in another order is the same, and so is a head that was wide from the start."""
    (x, y), (more, y_more) = trial.task(0, 1), trial.task(2, 3)
    wanted = scores_by_class(learner, x)
    single = [(more[y_more == label], names[y_more[y_more == label]]) for label in (3, 2)]
    for tasks, classes in (([(more, names[y_more])], names), (single, None)):
        other = scores_by_class(trial.learnt([(x, names[y]), *tasks], classes), x)
        size = max(np.abs(scores).max() for scores in wanted.values())
        moved = max(np.abs(other[name] - scores).max() for name, scores in wanted.items()) / size
        require(moved < 1e-4, f"in another grouping, scores of classes moved by {moved:.3g} of their size")


class _Compare(Watch):
    """After the first step: how far scores have moved, relative to the largest."""

    def __init__(self, learner: Learner, x: np.ndarray, before: dict[str, np.ndarray]) -> None:
        self.learner, self.x, self.before = learner, x, before
        self.change = 0.0

    def stepped(self, position: Position) -> None:
        if position.epoch == 0 and position.step == 1:
            now = scores_by_class(self.learner, self.x)
            moved = max(np.abs(now[name] - old).max() for name, old in self.before.items())
            self.change = float(moved / max(np.abs(old).max() for old in self.before.values()))


def check_no_shared_state(trial: Trial) -> None:
    ours, theirs = [trial.task(0, 1), trial.task(2, 3)], [trial.task(4, 5, 6), trial.task(7)]
    apart = [copy(trial.learnt(tasks, seed=seed).state()) for seed, tasks in enumerate((ours, theirs))]
    learners = trial.learner(0), trial.learner(1)
    for turn in (0, 1):
        for learner, tasks in zip(learners, (ours, theirs), strict=True):
            learner.partial_fit(*tasks[turn])
    for state, learner in zip(apart, learners, strict=True):
        require(not (seen := difference(state, learner.state())), f"{seen} differs when they take turns")
    learner = trial.learnt(ours)
    twin = trial.learner()
    twin.restore(State(**vars(learner.state())))
    twin.partial_fit(*theirs[0])
    seen = difference(apart[0], learner.state())
    require(not seen, f"{seen} of a learner changed when another, restored from its state, went on learning")


def check_label_names(trial: Trial) -> None:
    tasks = [trial.task(0, 1, 2), trial.task(3, 4)]
    x, _ = trial.task(*range(5))
    announced = np.array([2, 0, 4, 1, 3])
    # unannounced, classes that come together are taken in the order of their values
    for classes, names in ((announced, np.array([*"edcba"])), (None, np.array([*"cdeab"]))):
        plain = trial.learnt(tasks, classes)
        named = trial.learnt([(x, names[y]) for x, y in tasks], None if classes is None else names[classes])
        scores, scores_named = scores_by_class(plain, x), scores_by_class(named, x)
        same = all(np.array_equal(scores[label], scores_named[names[label]]) for label in scores)
        require(same, f"calling the classes 0, 1, 2, 3, 4 {', '.join(names)} gave other scores")
        same = (names[plain.predict(x)] == named.predict(x)).all()
        require(bool(same), f"calling the classes 0, 1, 2, 3, 4 {', '.join(names)} gave other predictions")
