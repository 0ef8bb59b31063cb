"""The conformance suite: every promise of Engram, tried on a recipe. Yours too: check_recipe(my_recipe).

With pytest: @pytest.mark.parametrize("check", CHECKS.values(), ids=list(CHECKS)), then check(recipe) or, where
`inputs_of(recipe)` has them, check(recipe, "tables") and check(recipe, "texts").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from engram._checks import (
    BrokenError,
    check_growing,
    check_label_names,
    check_memory,
    check_no_old_data,
    check_no_shared_state,
    check_resume,
    check_round_trip,
    check_same_seed,
    check_uneven_tasks,
    check_unseen_classes,
)
from engram._trial import Inputs, Trial, randomness_restored
from engram.errors import InputError
from engram.recipes import Recipe, as_recipe

__all__ = ["CHECKS", "Check", "ConformanceError", "Inputs", "check_recipe", "inputs_of"]


class ConformanceError(AssertionError):
    """A recipe breaks a promise: which recipe, which promise, and what was seen."""

    def __init__(self, recipe: str, promise: str, seen: str) -> None:
        super().__init__(f"Recipe {recipe!r} breaks the promise that {promise}: {seen}.")
        self.recipe, self.promise, self.seen = recipe, promise, seen


class Check(Protocol):
    """Tries one promise on one recipe, with images, with tables or with texts."""

    def __call__(self, recipe: Recipe, inputs: Inputs = "images") -> None: ...


def check_recipe(name_or_recipe: str | Recipe) -> None:
    """Try every promise on a recipe, by name or your own; raise ConformanceError for the first that it breaks.

    The recipe is tried on small data, with a small network and two epochs; its other settings stay as they are.
    """
    recipe = as_recipe(name_or_recipe)
    kinds = inputs_of(recipe)
    if not kinds:
        raise ConformanceError(recipe.name, "it learns images, tables or texts", "it refuses all")
    for inputs in kinds:
        for check in CHECKS.values():
            check(recipe, inputs)


def inputs_of(recipe: Recipe) -> list[Inputs]:
    """The kinds of inputs that a recipe can learn: some are for images only, and say so by an InputError."""
    accepted: list[Inputs] = []
    for inputs in ("images", "tables", "texts"):
        trial = Trial.of(recipe, inputs)
        try:
            trial.learnt([trial.task(0, 1)])
        except InputError:
            continue
        except Exception:  # the checks will say what is wrong
            pass
        accepted.append(inputs)
    return accepted


def _check(promise: str, function: Callable[[Trial], None]) -> Check:
    def check(recipe: Recipe, inputs: Inputs = "images") -> None:
        try:
            with randomness_restored():
                function(Trial.of(recipe, inputs))
        except BrokenError as broken:
            raise ConformanceError(recipe.name, promise, f"with {inputs}, {broken}") from None
        except Exception as error:
            seen = f"with {inputs}, it raised {type(error).__name__}: {error}"
            raise ConformanceError(recipe.name, promise, seen) from error

    return check


_PROMISES: list[tuple[str, str, Callable[[Trial], None]]] = [
    ("resume", "a run that is resumed anywhere ends with the same numbers, bit for bit", check_resume),
    ("no-old-data", "no old data is kept, or its `about` says so", check_no_old_data),
    ("uneven-tasks", "tasks may be uneven and of a single class, and no class is lost", check_uneven_tasks),
    (
        "same-seed",
        "the same seed gives the same numbers, whatever else runs, and no one else's are touched",
        check_same_seed,
    ),
    ("unseen-classes", "classes that have not been learnt yet are never predicted", check_unseen_classes),
    (
        "round-trip",
        "a learner that is saved and loaded predicts and goes on learning exactly the same",
        check_round_trip,
    ),
    ("memory", "memory does not grow with the number of tasks, if it keeps no data", check_memory),
    ("growing", "a class that comes unannounced changes nothing of what was learnt by its coming", check_growing),
    ("no-shared-state", "two learners of one recipe share no state", check_no_shared_state),
    ("label-names", "the values of labels are names and nothing else", check_label_names),
]

CHECKS: dict[str, Check] = {name: _check(promise, function) for name, promise, function in _PROMISES}
"""Every single check by a short name of its promise."""
