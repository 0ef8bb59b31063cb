"""The rotation task to the letter: one turn a batch, for the class loss too, and the mean of four at prediction."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.methods.test_gradient import CPU
from torch import Tensor

from engram.errors import InputError
from engram.ingredients.base import Batch, Ingredient, Step
from engram.ingredients.rotation import Rotation, turned
from engram.lesson import Lesson, Watch
from engram.methods.gradient import GradientMethod
from engram.networks import build_network
from engram.settings import NetworkSettings, RotationSettings, TrainingSettings

SMALL = NetworkSettings(filters=(4, 6, 8), hidden=8, dropout=0.0)


def pictures(index: int = 0, samples: int = 24) -> Lesson:
    random = torch.Generator().manual_seed(index)
    x = torch.randint(0, 256, (samples, 1, 8, 8), generator=random, dtype=torch.uint8)
    return Lesson(index, x, torch.arange(samples) % 3, 3)


def method(*ingredients: Ingredient, epochs: int = 2) -> GradientMethod:
    torch.manual_seed(0)
    network = build_network((1, 8, 8), 3, SMALL)
    return GradientMethod(network, ingredients, TrainingSettings(epochs=epochs, batch_size=8), 4, CPU, False)


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_turns_are_quarters_and_four_of_them_change_nothing(layout: torch.memory_format) -> None:
    x = torch.randn(5, 3, 6, 6).contiguous(memory_format=layout)
    for quarters in range(5):
        found = turned(x, quarters)
        np.testing.assert_array_equal(found.numpy(), np.rot90(x.numpy(), quarters, (2, 3)))
        assert found.is_contiguous(memory_format=layout)
    again = x
    for _ in range(4):
        again = turned(again, 1)
    assert torch.equal(again, x)


class Between(Ingredient):
    """Notes the batches that reach it."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def batch(self, x: Tensor, y: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        self.seen.append(x)
        return x, y


def test_each_batch_is_turned_as_a_whole_by_one_of_four_turns() -> None:
    before, rotation, after = Between(), Rotation(RotationSettings()), Between()
    quarters: list[int] = []
    note = rotation.batch
    rotation.batch = lambda *given: [note(*given), quarters.append(rotation.quarters)][0]  # pyright: ignore[reportAttributeAccessIssue]
    method(before, rotation, after, epochs=20).learn(pictures(), Watch())
    assert len(quarters) == 60
    for straight, bent, number in zip(before.seen, after.seen, quarters, strict=True):
        assert torch.equal(bent, turned(straight, number))
    assert all(5 < quarters.count(number) < 30 for number in range(4))


def test_both_losses_see_the_turned_batch() -> None:
    rotation = Rotation(RotationSettings(weight=2.0))
    subject = method(rotation)
    subject.begin(pictures())
    x, y = next(subject.batches(pictures(), 0))
    step = Step(0, 0, 0, 0.0)
    loss = subject.train_step(subject._new_optimizer(), x, y, step)
    fresh = method(Rotation(RotationSettings()))
    fresh.network.standardise(pictures().x)
    with torch.no_grad():
        features = fresh.network.extractor(turned(x, rotation.quarters))
        classes = F.cross_entropy(fresh.network.head(features), y)
        told = fresh.ingredients[0].modules()["head"](features)
        turns = F.cross_entropy(told, torch.full((8,), rotation.quarters))
    assert loss.item() == pytest.approx((classes + 2 * turns).item(), rel=1e-5)


def test_the_rotation_loss_trains_its_head_and_the_extractor() -> None:
    found = {}
    for weight in (0.0, 1.0):
        rotation = Rotation(RotationSettings(weight=weight))
        subject = method(rotation)
        head = rotation.head.weight.detach().clone()
        subject.learn(pictures(), Watch())
        assert torch.equal(rotation.head.weight, head) == (weight == 0)
        found[weight] = next(subject.network.extractor.parameters()).detach()
    assert not torch.allclose(found[0.0], found[1.0], atol=1e-4)


def test_prediction_uses_the_mean_of_the_features_of_four_turns() -> None:
    subject = method(Rotation(RotationSettings()))
    subject.learn(pictures(), Watch())
    x = pictures(9).x
    wanted = sum(subject.extract(turned(x, quarters)) for quarters in range(4)) / 4
    torch.testing.assert_close(subject.features(x), wanted, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(subject.scores(x), F.linear(wanted, subject.network.head.weight), rtol=1e-4, atol=1e-5)  # pyright: ignore[reportArgumentType]
    assert not torch.allclose(subject.features(x), subject.extract(x), atol=1e-3)


@pytest.mark.parametrize(
    ("x", "wanted"),
    [(torch.zeros(6, 1, 8, 9), "needs square images, not 8 x 9 pixels"), (torch.zeros(6, 5), "these are none")],
)
def test_what_cannot_be_turned_is_refused_in_one_sentence(x: Tensor, wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        Rotation(RotationSettings()).begin_task(Lesson(0, x, torch.zeros(6).long(), 1))


def test_its_head_goes_back_with_the_weights_of_the_best_epoch() -> None:
    """What `current` and `seen` restore."""

    class FirstIsBest(Watch):
        def __init__(self) -> None:
            self.scores = iter([0.9, 0.1])

        def score_epoch(self) -> float:
            return next(self.scores)

    rotation, once = Rotation(RotationSettings()), Rotation(RotationSettings())
    method(rotation).learn(pictures(), FirstIsBest())
    method(once, epochs=1).learn(pictures(), Watch())
    assert torch.equal(rotation.head.weight, once.head.weight)


def test_the_loss_is_handed_on() -> None:
    rotation = Rotation(RotationSettings(weight=0.0))
    method(rotation)
    x, y = torch.zeros(2, 1, 8, 8), torch.zeros(2).long()
    batch = Batch(x, y, torch.ones(2, 8), torch.zeros(2, 3))
    assert rotation.loss(torch.tensor(3.5), batch, Step(0, 0, 0, 0.0)).item() == 3.5
