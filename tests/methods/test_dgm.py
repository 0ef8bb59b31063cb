"""DGM: masks' gradients, weights that stand still, images that stay bit for bit, and growth within its bound."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor

from engram.generators.masked_gan import MaskedGenerator
from engram.lesson import Lesson, Watch
from engram.methods.dgm import DGMMethod
from engram.settings import DGMSettings, GeneratorSettings, ReplaySettings

SMALL: dict[str, Any] = {"generator_steps": 6, "generator_width": 3, "generator_batch": 8, "noise": 5}
SHAPE = (1, 8, 8)


def generator(**settings: Any) -> MaskedGenerator:
    torch.manual_seed(0)
    return MaskedGenerator(DGMSettings(**SMALL | settings), SHAPE)


def claim(subject: MaskedGenerator, share: float) -> None:
    """As if training had let so many weights through."""
    for scores in subject.claims:
        scores.data = share - torch.rand_like(scores)


def test_its_only_settings_are_those_that_it_reads() -> None:
    others = {field.name for field in fields(ReplaySettings)} - {field.name for field in fields(GeneratorSettings)}
    assert {"critic", "alignment"} <= others
    assert not others & {field.name for field in fields(DGMSettings)}


def test_the_share_of_free_weights_is_counted_once_a_task_and_not_each_step() -> None:
    subject = generator()
    subject.begin_task([0])
    subject.to("meta")  # where no number can be looked at, as a look waits for the device
    subject.reserved = [reserved.to("meta") for reserved in subject.reserved]
    assert subject.claimed().is_meta


def test_masks_gradients_are_those_of_the_masked_weights_by_hand() -> None:
    subject = generator()
    subject.begin_task([0])
    claim(subject, 0.5)
    subject.sharpness = 2.0
    noise, columns = torch.randn(4, 5), torch.zeros(4, dtype=torch.long)
    subject(noise, columns).square().sum().backward()
    masks = [(2.0 * scores.detach()).sigmoid() for scores in subject.claims]
    leaves = [(w.detach() * m).requires_grad_() for w, m in zip(subject.weights, masks, strict=True)]
    ones = [torch.ones_like(m) for m in masks]
    live = list(subject.weights)
    del subject._modules["weights"]
    subject.weights = leaves  # pyright: ignore[reportAttributeAccessIssue]
    subject._make(noise, subject.rows[columns], ones, subject.last).square().sum().backward()
    for weight, scores, mask, leaf in zip(live, subject.claims, masks, leaves, strict=True):
        assert leaf.grad is not None
        torch.testing.assert_close(weight.grad, leaf.grad * mask)
        slope = 2.0 * mask * (1 - mask)
        torch.testing.assert_close(scores.grad, leaf.grad * weight.detach() * slope, rtol=1e-4, atol=1e-6)


def test_claims_learn_at_the_pace_of_masks_that_are_not_sharp() -> None:
    """HAT's compensation, s_max / s · (cosh(s e) + 1) / (cosh(e) + 1): the slope of the mask is divided out."""
    subject = generator(mask_scale=100.0)
    subject.begin_task([0])
    claim(subject, 0.5)
    subject.sharpness = 3.0
    for scores in subject.claims:
        scores.grad = (3.0 * scores.detach()).sigmoid() * (1 - (3.0 * scores.detach()).sigmoid()) * 3.0
    subject.edit_gradients()
    for scores in subject.claims:
        plain = scores.detach().sigmoid() * (1 - scores.detach().sigmoid())
        torch.testing.assert_close(scores.grad, 100.0 * plain, rtol=1e-3, atol=1e-4)


def test_weights_of_earlier_tasks_get_no_gradient_and_others_do() -> None:
    subject = generator()
    subject.begin_task([0])
    claim(subject, 0.4)
    subject.end_task()
    subject.begin_task([1])
    for weight in subject.weights:
        weight.grad = torch.ones_like(weight)
    subject.edit_gradients()
    for weight, reserved in zip(subject.weights, subject.reserved, strict=True):
        assert 0 < int(reserved.sum()) < reserved.numel()
        assert torch.equal(weight.grad, (~reserved).float())


def test_the_masks_cost_is_the_share_of_free_weights_that_they_let_through() -> None:
    subject = generator()
    subject.begin_task([0])
    claim(subject, 0.3)
    subject.end_task()
    subject.begin_task([1])
    claim(subject, 0.6)
    subject.sharpness = 1e4
    free = sum(int((~reserved).sum()) for reserved in subject.reserved)
    claimed = sum(int(((c > 0) & ~r).sum()) for c, r in zip(subject.claims, subject.reserved, strict=True))
    assert subject.claimed().item() == pytest.approx(claimed / free, abs=1e-3)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_growth_makes_up_for_what_was_claimed_and_keeps_its_bound(share: float) -> None:
    subject = generator()
    assert subject.count() == subject.initial == subject.most()
    for task in range(4):
        subject.begin_task([task])
        before = [int((~reserved).sum()) for reserved in subject.reserved]
        claim(subject, share)
        subject.end_task()
        after = [int((~reserved).sum()) for reserved in subject.reserved]
        if share < 1:
            assert all(new >= old for new, old in zip(after, before, strict=True))
        assert subject.initial < subject.count() <= subject.most()
        assert len(subject.weights[0]) <= 12 * (task + 2)


def lesson(index: int, *classes: int) -> Lesson:
    y = torch.tensor(classes)[torch.arange(40) % len(classes)]
    x = 60 * torch.rand(40, *SHAPE, generator=torch.Generator().manual_seed(index))
    x[torch.arange(40), 0, y * 2, :] += 150
    return Lesson(index, x.to(torch.uint8), y, 4)


def dgm(**settings: Any) -> DGMMethod:
    return DGMMethod(DGMSettings(**SMALL | settings), SHAPE, 3, torch.device("cpu"), False)


def pictures(subject: DGMMethod, *columns: int) -> Tensor:
    made = subject.images(torch.tensor(columns), torch.Generator().manual_seed(7))
    assert made is not None
    return made


def test_images_of_old_classes_stay_bit_for_bit_the_same_whatever_is_learnt_later() -> None:
    subject = dgm()
    subject.learn(lesson(0, 0, 1), Watch())
    before = pictures(subject, 0, 1, 1)
    subject.learn(lesson(1, 2), Watch())
    assert subject.generator.count() > subject.generator.initial
    subject.learn(lesson(2, 3), Watch())
    assert torch.equal(pictures(subject, 0, 1, 1), before)
    assert (before - pictures(subject, 2, 3, 3)).abs().max() > 1e-3
    assert 0 <= float(before.min()) <= float(before.max()) <= 1


def test_its_growth_is_measured() -> None:
    subject = dgm()
    subject.learn(lesson(0, 0, 1), Watch())
    growth = subject.measures()["growth"]
    assert growth["at_first"] < growth["weights"] <= growth["most"] == pytest.approx(4 * growth["at_first"], rel=0.5)


def test_the_class_head_classifies_and_replay_keeps_old_classes() -> None:
    subject = dgm(generator_steps=60, generator_width=8, generator_rate=2e-3)
    first = lesson(0, 0, 1)
    subject.learn(first, Watch())
    assert (subject.scores(first.x).argmax(1) == first.y).double().mean() > 0.9
    subject.learn(lesson(1, 2, 3), Watch())
    old_ones = subject.scores(first.x).argmax(1)
    assert (old_ones == first.y).double().mean() > 0.6
