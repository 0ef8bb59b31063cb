"""The conformance suite is worth something only if it fails on recipes that are broken: here are many, on purpose."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor

from engram._trial import memory_blocks, random_states
from engram.classes import ClassTable
from engram.closed_form.sums import Sums
from engram.errors import InputError
from engram.ingredients.base import Host, Ingredient, Step
from engram.learner import Learner
from engram.lesson import Lesson, State
from engram.recipes import Recipe, recipe
from engram.testing import CHECKS, ConformanceError, check_recipe, inputs_of

INGREDIENTS: dict[str, Callable[[], Ingredient]] = {}


@dataclass(frozen=True)
class Own:
    """Settings of the ingredient of this name."""

    ingredient: str

    def start(self) -> Ingredient:
        return INGREDIENTS[self.ingredient]()


Kind = TypeVar("Kind", bound=type[Ingredient])


def listed(kind: Kind) -> Kind:
    INGREDIENTS[kind.__name__] = kind
    return kind


def recipe_with(ingredient: str) -> Recipe:
    return Recipe(f"with {ingredient}", "made for a test", {"own": Own(ingredient)})


def breaks(check: str, tried: Recipe) -> str:
    """What was seen when the recipe broke this very promise."""
    with pytest.raises(ConformanceError) as caught:
        CHECKS[check](tried)
    assert caught.value.recipe == tried.name
    assert caught.value.promise in str(caught.value)
    return caught.value.seen


class Mine(Ingredient):
    """Scales gradients down from step to step: enough of a memory to go wrong."""

    def __init__(self) -> None:
        self.count = 0
        self.kept: list[Any] = []

    def attach(self, host: Host) -> None:
        self.host = host

    def edit_gradients(self, step: Step) -> None:
        self.count += 1
        for weights in self.weights():
            weights.grad.mul_(self.factor())

    def weights(self) -> list[Any]:
        return [weights for weights in self.host.network.parameters() if weights.grad is not None]

    def factor(self) -> float:
        return 1 / (1 + self.count / 10)

    def state(self) -> State:
        return State(meta={"count": self.count})

    def restore(self, state: State) -> None:
        self.count = state.meta["count"]


# --- sound recipes ---

INGREDIENTS["Sound"] = Mine


@listed
class PromotesTheLast(Mine):
    """Not broken: the learner gives no probability to classes that have not been learnt."""

    def scores(self, head: Callable[[Tensor], Tensor], features: Tensor) -> Tensor:
        scores = head(features).clone()
        scores[:, -1] += 1000
        return scores


def test_a_sound_recipe_of_ones_own_keeps_every_promise() -> None:
    before = random_states()
    check_recipe(recipe_with("Sound"))
    assert random_states() == before


def test_promoting_unseen_columns_is_no_harm_while_the_learner_masks_them() -> None:
    CHECKS["unseen-classes"](recipe_with("PromotesTheLast"))


# --- data that is kept ---


@listed
class KeepsTheLesson(Mine):
    def end_task(self, lesson: Lesson) -> None:
        self.kept.append(lesson)


@listed
class KeepsAView(Mine):
    def end_task(self, lesson: Lesson) -> None:
        self.kept.append(lesson.x.flatten()[:5])


@listed
class KeepsBatches(Mine):
    def batch(self, x: Tensor, y: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        self.kept.append(x.clone())
        return x, y


@listed
class KeepsTheLastBatch(Mine):
    def batch(self, x: Tensor, y: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        self.kept = [x.numpy()]
        return x, y


@listed
class KeepsInTuples(Mine):
    """Which the garbage collector does not follow."""

    def end_task(self, lesson: Lesson) -> None:
        self.kept.append(({"x": lesson.x.numpy() / 255}, "task"))


@listed
class KeepsElsewhere(Mine):
    elsewhere: list[Any] = []  # noqa: RUF012 (shared by all: that is the point)

    def begin_task(self, lesson: Lesson) -> None:
        self.elsewhere.append(lesson.x.float() / 255)


@listed
class KeepsDuringTheTask(Mine):
    """Its checkpoints hold the data."""

    def begin_task(self, lesson: Lesson) -> None:
        self.kept = [lesson.x]

    def end_task(self, lesson: Lesson) -> None:
        self.kept = []

    def state(self) -> State:
        return State({f"kept{index}": tensor for index, tensor in enumerate(self.kept)}, {"count": self.count})


@listed
class KeepsNumbers(Mine):
    numbers = ""

    def end_task(self, lesson: Lesson) -> None:
        self.numbers += ", ".join(map(str, lesson.y.tolist()))

    def state(self) -> State:
        return State(meta={"count": self.count, "numbers": self.numbers})


@pytest.mark.parametrize(
    ("ingredient", "seen"),
    [
        ("KeepsTheLesson", "the lesson, the lesson's x, the lesson's y lived on"),
        ("KeepsAView", "lived on"),
        ("KeepsBatches", "arrays in memory"),
        ("KeepsTheLastBatch", "arrays in memory"),
        ("KeepsInTuples", "numbers lived on"),
        ("KeepsElsewhere", "numbers lived on"),
        ("KeepsDuringTheTask", "a row for each of 101 samples in ingredient0.kept0"),
        ("KeepsNumbers", "its files"),
    ],
)
def test_data_that_is_kept_is_found(ingredient: str, seen: str) -> None:
    try:
        assert seen in breaks("no-old-data", recipe_with(ingredient))
    finally:
        KeepsElsewhere.elsewhere.clear()


def test_who_keeps_data_must_say_so() -> None:
    CHECKS["no-old-data"](recipe("joint"))
    assert "does not tell" in breaks("no-old-data", Recipe("mine", "all at once", method="joint"))


def test_data_of_the_caller_must_not_live_on_either(monkeypatch: pytest.MonkeyPatch) -> None:
    inner, given = Learner.learn, []

    def learn(self: Learner, X: Any, *others: Any) -> Learner:
        given.append(X)
        return inner(self, X, *others)

    monkeypatch.setattr(Learner, "learn", learn)
    assert "X lived on" in breaks("no-old-data", recipe("finetune"))


# --- state that is forgotten ---


@listed
class ForgetsItsCount(Mine):
    def state(self) -> State:
        return State()

    def restore(self, state: State) -> None: ...


@listed
class ForgetsItsNoise(Mine):
    """Its own generator is right, but where it is in its stream is not stored."""

    def attach(self, host: Host) -> None:
        super().attach(host)
        self.stream = torch.Generator().manual_seed(host.seed)

    def factor(self) -> float:
        return float(torch.rand((), generator=self.stream))


@listed
class ForgetsWithinATask(Mine):
    """Stores a count that is right between tasks only."""

    before = 0

    def begin_task(self, lesson: Lesson) -> None:
        self.before = self.count

    def state(self) -> State:
        return State(meta={"count": self.before})

    def end_task(self, lesson: Lesson) -> None:
        self.before = self.count


@pytest.mark.parametrize("ingredient", ["ForgetsItsCount", "ForgetsItsNoise", "ForgetsWithinATask"])
def test_forgotten_state_is_found(ingredient: str) -> None:
    assert "task 1, epoch 1, step 1" in breaks("resume", recipe_with(ingredient))


@pytest.mark.parametrize("ingredient", ["ForgetsItsCount", "ForgetsItsNoise"])
def test_a_loaded_model_that_goes_on_in_another_way_is_found(ingredient: str) -> None:
    assert "after both learnt one more task" in breaks("round-trip", recipe_with(ingredient))


def test_a_lost_best_epoch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Learner.restore

    def restore(self: Learner, state: State) -> None:
        inner(self, State({k: v for k, v in state.tensors.items() if not k.startswith("best.")}, state.meta))

    monkeypatch.setattr(Learner, "restore", restore)
    assert "with scored epochs" in breaks("resume", recipe("finetune"))


# --- random numbers ---


@listed
class DrawsFromNumPy(Mine):
    def factor(self) -> float:
        return float(np.random.random())


@listed
class DrawsFromPython(Mine):
    def factor(self) -> float:
        return random.random()


@listed
class SeedsNumPy(Mine):
    """Gives the same numbers every time, at everybody else's expense."""

    def factor(self) -> float:
        np.random.seed(self.count)
        return float(np.random.random())


@listed
class DrawsAtTheEnd(Mine):
    """torch's shared generator, where nobody has seeded it for this purpose."""

    def end_task(self, lesson: Lesson) -> None:
        with torch.no_grad():
            self.host.network.head.weight.mul_(np.random.default_rng().random())


@pytest.mark.parametrize("ingredient", ["DrawsFromNumPy", "DrawsFromPython", "SeedsNumPy", "DrawsAtTheEnd"])
def test_random_numbers_shared_with_others_are_found(ingredient: str) -> None:
    assert breaks("same-seed", recipe_with(ingredient))


def test_a_seed_without_effect_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engram.methods.registry.seed_for", lambda seed, *purpose: 0)
    monkeypatch.setattr("engram.methods.gradient.seed_for", lambda seed, *purpose: 0)
    monkeypatch.setattr("engram.methods.gradient.generator", lambda *purpose: torch.Generator().manual_seed(0))
    assert "seeds 0 and 1" in breaks("same-seed", recipe("finetune"))


# --- classes ---


def test_predicting_unseen_classes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unmasked(self: Learner, x: torch.Tensor) -> np.ndarray:
        return self.method_.scores(x).double().numpy()[:, self.table_.sorted_columns()]

    monkeypatch.setattr(Learner, "_scores_of", unmasked)
    assert "unseen classes have a probability" in breaks("unseen-classes", recipe("joint"))
    with pytest.raises(ConformanceError, match=r"'with PromotesTheLast' .* never predicted: .* it predicts \[0\]"):
        check_recipe(recipe_with("PromotesTheLast"))


@listed
class LosesTheFirst(Mine):
    def scores(self, head: Callable[[Tensor], Tensor], features: Tensor) -> Tensor:
        scores = head(features).clone()
        scores[:, 0] = -torch.inf
        return scores


@listed
class WantsTwoClasses(Mine):
    def begin_task(self, lesson: Lesson) -> None:
        if len(lesson.y.unique()) < 2:
            raise RuntimeError("a pair of classes is needed")


def test_lost_classes_and_tasks_that_fail_are_found() -> None:
    assert "classes [0] can never be predicted" in breaks("uneven-tasks", recipe_with("LosesTheFirst"))
    assert "RuntimeError: a pair" in breaks("uneven-tasks", recipe_with("WantsTwoClasses"))


@listed
class ShrinksTheHead(Mine):
    def begin_task(self, lesson: Lesson) -> None:
        with torch.no_grad():
            self.host.network.head.weight.mul_(0.99)


def test_growth_that_changes_old_scores_is_found() -> None:
    assert "scores of old classes moved by 0.01" in breaks("growing", recipe_with("ShrinksTheHead"))


def test_an_order_that_matters_in_one_pass_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Sums.add

    def fading(self: Sums, *others: Any) -> None:
        self.by_class *= 0.99
        inner(self, *others)

    monkeypatch.setattr(Sums, "add", fading)
    assert "in another grouping, scores of classes moved" in breaks("growing", recipe("analytic"))


def test_columns_in_the_wrong_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClassTable, "sorted_columns", lambda self: list(range(len(self.columns))))
    assert "gave other scores" in breaks("label-names", recipe("finetune"))


# --- memory, sharing ---


@listed
class KeepsOldHeads(Mine):
    def end_task(self, lesson: Lesson) -> None:
        self.kept.append(self.host.network.head.weight.detach().clone())

    def state(self) -> State:
        return State({f"head{index}": head for index, head in enumerate(self.kept)}, {"count": self.count})

    def restore(self, state: State) -> None:
        super().restore(state)
        self.kept = list(state.tensors.values())


@listed
class KeepsOldHeadsUnsaid(KeepsOldHeads):
    def state(self) -> State:
        return State(meta={"count": self.count})


@listed
class CountsTasks(Mine):
    tasks: tuple[int, ...] = ()

    def end_task(self, lesson: Lesson) -> None:
        self.tasks += (lesson.index,) * 10

    def state(self) -> State:
        return State(meta={"count": self.count, "tasks": self.tasks})


@pytest.mark.parametrize(
    ("ingredient", "seen"),
    [
        ("KeepsOldHeads", "state's tensors"),
        ("KeepsOldHeadsUnsaid", "arrays were added in memory"),
        ("CountsTasks", "other values"),
    ],
)
def test_memory_that_grows_with_the_tasks_is_found(ingredient: str, seen: str) -> None:
    assert seen in breaks("memory", recipe_with(ingredient))


ONE_FOR_ALL = Mine()
INGREDIENTS["Shared"] = lambda: ONE_FOR_ALL


def test_an_ingredient_that_learners_share_is_found() -> None:
    assert "when they take turns" in breaks("no-shared-state", recipe_with("Shared"))


# --- the suite as a whole ---


@listed
class RefusesTables(Mine):
    def begin_task(self, lesson: Lesson) -> None:
        if lesson.x.ndim == 2:
            raise InputError("tables cannot be rotated")


@listed
class RefusesAll(Mine):
    def begin_task(self, lesson: Lesson) -> None:
        raise InputError("no")


def test_recipes_may_be_for_some_inputs_only() -> None:
    assert inputs_of(recipe_with("RefusesTables")) == ["images"]
    with pytest.raises(ConformanceError, match="it refuses all"):
        check_recipe(recipe_with("RefusesAll"))


@pytest.mark.parametrize(
    ("ingredient", "promise"), [("KeepsTheLesson", "no old data is kept"), ("ForgetsItsCount", "bit for bit")]
)
def test_the_error_names_the_recipe_and_the_promise(ingredient: str, promise: str) -> None:
    with pytest.raises(ConformanceError, match=f"Recipe 'with {ingredient}' breaks the promise that .*{promise}"):
        check_recipe(recipe_with(ingredient))


def test_recipes_are_known_by_name() -> None:
    with pytest.raises(InputError, match="did you mean 'owm'"):
        check_recipe("omw")


def test_somebody_elses_lazy_layers_do_not_disturb_the_checks() -> None:
    lazy = torch.nn.LazyLinear(3)
    assert memory_blocks({id(lazy.weight): lazy.weight}) == {}
