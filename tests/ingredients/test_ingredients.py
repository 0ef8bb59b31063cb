import pytest
import torch
from tests.methods.test_gradient import CPU, lesson, method, weights
from torch import Tensor

from engram.ingredients.base import Host, Ingredient, Step
from engram.ingredients.owm import OWMIngredient
from engram.lesson import Lesson, State, Watch
from engram.methods.gradient import GradientMethod
from engram.settings import OWMSettings


def test_an_ingredient_that_overrides_nothing_changes_nothing() -> None:
    plain, with_one = method(), method(Ingredient())
    for subject in (plain, with_one):
        subject.learn(lesson(), Watch())
    assert all(map(torch.equal, weights(plain), weights(with_one)))
    assert torch.equal(plain.scores(lesson().x), with_one.scores(lesson().x))
    assert with_one.ingredients[0].state() == State()
    assert with_one.traces() == {}


def first_layer(subject: GradientMethod) -> Tensor:
    return next(iter(subject.network.parameters())).detach().clone()


def test_what_the_first_task_used_is_protected_in_the_next() -> None:
    """The first layer's change in task 2, applied to task 1's mean input, all but vanishes; without OWM it does not."""
    changes = {}
    for name, ingredients in {"owm": [OWMIngredient(OWMSettings(alpha_first=1e-6))], "free": []}.items():
        subject = method(*ingredients, epochs=8)
        subject.learn(lesson(0), Watch())
        before = first_layer(subject)
        later = lesson(1)
        subject.learn(Lesson(1, later.x + 5, later.y, 3), Watch())
        mean = subject.network.prepare(lesson(0).x)[:8].mean(0)
        changes[name] = float(((first_layer(subject) - before) @ mean).norm())
    assert changes["owm"] < changes["free"] / 5


def test_projectors_take_space_away_and_never_give_it_back() -> None:
    subject = method(OWMIngredient(OWMSettings()))
    assert set(subject.traces().values()) == {1.0}
    subject.learn(lesson(0), Watch())
    first = subject.traces()
    assert all(0 < share < 1 for share in first.values())
    assert len(first) == 3
    subject.learn(lesson(1), Watch())
    assert all(subject.traces()[name] <= share for name, share in first.items())


def test_task_end_trains_the_first_task_freely_and_absorbs_it_afterwards() -> None:
    plain, late = method(), method(OWMIngredient(OWMSettings(refresh="task_end")))
    for subject in (plain, late):
        subject.learn(lesson(0), Watch())
    for found, wanted in zip(weights(late), weights(plain), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    assert all(share < 1 for share in late.traces().values())
    for subject in (plain, late):
        subject.learn(lesson(1), Watch())
    assert not torch.allclose(weights(late)[0], weights(plain)[0], atol=1e-4)


@pytest.mark.parametrize("refresh", ["online", "task_end"])
def test_prediction_is_not_absorbed(refresh: str) -> None:
    """Looking at data between two tasks changes nothing that is learnt."""
    results = []
    for look in (False, True):
        subject = method(OWMIngredient(OWMSettings(refresh=refresh)))  # pyright: ignore[reportArgumentType]
        subject.learn(lesson(0), Watch())
        if look:
            subject.scores(torch.randn(40, 6, generator=torch.Generator(CPU).manual_seed(9)))
        subject.learn(lesson(1), Watch())
        results.append((weights(subject), subject.traces()))
    assert all(map(torch.equal, results[0][0], results[1][0]))
    assert results[0][1] == results[1][1]


def test_a_method_cannot_be_told_from_its_restored_twin() -> None:
    subject = method(OWMIngredient(OWMSettings()))
    subject.learn(lesson(0), Watch())
    twin = method(OWMIngredient(OWMSettings()))
    twin.restore(subject.state())
    assert twin.traces() == subject.traces()
    for each in (subject, twin):
        each.learn(lesson(1), Watch())
    assert all(map(torch.equal, weights(subject), weights(twin)))


class Silencer(Ingredient):
    """Takes every gradient away."""

    def attach(self, host: Host) -> None:
        self.network = host.network

    def edit_gradients(self, step: Step) -> None:
        for parameter in self.network.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()


def test_an_edit_before_the_projection_reaches_every_gradient() -> None:
    """Also those that the projection would rather form itself."""
    subject = method(Silencer(), OWMIngredient(OWMSettings()), epochs=1)
    before = weights(subject)
    subject.learn(lesson(), Watch())
    assert all(map(torch.equal, before, weights(subject)))
