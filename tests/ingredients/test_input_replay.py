"""Input replay by hand: what the loss gains, whom it teaches, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.methods.test_gradient import lesson as table_lesson
from tests.methods.test_gradient import method as table_method

from engram.errors import InputError
from engram.ingredients.base import Batch, Step
from engram.ingredients.input_replay import InputReplay
from engram.ingredients.owm import OWMIngredient
from engram.lesson import Lesson, Watch
from engram.methods.gradient import GradientMethod
from engram.networks import build_network
from engram.settings import InputReplaySettings, NetworkSettings, OWMSettings, TrainingSettings

TINY: dict[str, Any] = {"generator_steps": 2, "generator_width": 3, "generator_batch": 6, "noise": 4, "batch_size": 5}
STEP = Step(1, 0, 0, 0.0)


def lesson(index: int, classes: tuple[int, ...], width: int) -> Lesson:
    y = torch.tensor(classes)[torch.arange(24) % len(classes)]
    x = torch.randn(24, 1, 8, 8, generator=torch.Generator().manual_seed(index)) + y[:, None, None, None]
    return Lesson(index, x, y, width)


def method(*ingredients: Any) -> GradientMethod:
    torch.manual_seed(0)
    network = build_network((1, 8, 8), 2, NetworkSettings(filters=(2, 3, 4), hidden=8, dropout=0.0))
    return GradientMethod(network, ingredients, TrainingSettings(epochs=1, batch_size=8), 4, torch.device("cpu"), False)


def at_the_second_task(part: InputReplay, *before: Any) -> tuple[GradientMethod, Batch]:
    subject = method(*before, part)
    subject.learn(lesson(0, (0, 1), 2), Watch())
    subject.begin(lesson(1, (2,), 3))
    for parameter in subject.network.parameters():
        parameter.data += 0.05
    x, y = next(subject.batches(lesson(1, (2,), 3), 0))
    return subject, Batch(x, y, *subject.forward(x))


@pytest.mark.parametrize("settings", [{}, {"weight": 3.0, "temperature": 1.0}, {"squared": True}])
def test_the_old_networks_soft_labels_of_generated_images_are_added_to_the_loss(settings: dict[str, Any]) -> None:
    part = InputReplay(InputReplaySettings(**TINY | settings))
    subject, batch = at_the_second_task(part)
    found = part.loss(torch.tensor(1.5), batch, STEP)
    x, t = part._replayed(STEP), part.settings.temperature
    assert x.shape == (5, 1, 8, 8)
    assert part.teacher.network is not None
    targets = torch.zeros(5, 3)
    targets[:, :2] = (part.teacher.network(x) / t).softmax(1)
    replayed = -(targets * (subject.network(x) / t).log_softmax(1)).sum(1).mean()
    if part.settings.squared:
        replayed = replayed * t**2
    torch.testing.assert_close(found, 1.5 + part.settings.weight * replayed)


def test_the_whole_network_learns_from_replay_and_nothing_else_does() -> None:
    part = InputReplay(InputReplaySettings(**TINY))
    subject, batch = at_the_second_task(part)
    assert part.gan is not None
    part.gan.generator.zero_grad()
    part.loss(torch.zeros((), requires_grad=True), batch, STEP).backward()
    assert all(p.grad is not None and p.grad.any() for p in subject.network.parameters())
    assert part.teacher.network is not None
    assert all(p.grad is None for p in part.teacher.network.parameters())
    assert all(p.grad is None for p in part.gan.generator.parameters())


def test_with_owm_the_replayed_gradient_is_projected_with_the_rest() -> None:
    part = InputReplay(InputReplaySettings(**TINY))
    owm = OWMIngredient(OWMSettings())
    subject, batch = at_the_second_task(part, owm)
    owm.owm.discard()
    plain, _ = at_the_second_task(InputReplay(InputReplaySettings(**TINY)))
    plain.network.load_state_dict(subject.network.state_dict())
    replay = plain.ingredients[0]
    assert isinstance(replay, InputReplay)
    replay.restore(part.state())
    optimizers = [torch.optim.SGD(each.network.parameters(), 1e-9) for each in (subject, plain)]
    for each, optimizer in zip((plain, subject), reversed(optimizers), strict=True):
        each.settings = TrainingSettings(epochs=1, batch_size=8, clip_norm=0)
        each.network.train()
        each.train_step(optimizer, batch.x, batch.y, STEP)
    projectors = {name: layer.projectors[0].matrix() for name, layer in owm.owm.layers.items()}
    for name, projector in projectors.items():
        found, free = (each.network.get_submodule(name).weight.grad.flatten(1) for each in (subject, plain))  # pyright: ignore
        torch.testing.assert_close(found, free @ projector, rtol=1e-3, atol=1e-5)


def test_tables_are_refused_in_one_sentence() -> None:
    with pytest.raises(
        InputError, match=r"generates images or texts, and these are none: choose a recipe without 'gir'\.$"
    ):
        table_method(InputReplay(InputReplaySettings(**TINY))).learn(table_lesson(), Watch())


def test_there_are_pictures_after_a_task_and_none_before() -> None:
    part = InputReplay(InputReplaySettings(**TINY))
    subject = method(part)
    random = torch.Generator().manual_seed(0)
    assert subject.images(torch.tensor([0]), random) is None
    subject.learn(lesson(0, (0, 1), 2), Watch())
    images = subject.images(torch.tensor([0, 1, 1]), random)
    assert images is not None
    assert images.shape == (3, 1, 8, 8)
    assert 0 <= float(images.min()) < float(images.max()) <= 1
