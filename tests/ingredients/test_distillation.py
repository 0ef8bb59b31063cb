"""LwF and feature distillation by hand; the teacher is the network after the last task and nothing later."""

from __future__ import annotations

import pytest
import torch
from tests.ingredients.test_feature_replay import TINY, Eye
from tests.methods.test_gradient import lesson, method, weights
from torch import Tensor

from engram.ingredients.base import Batch, Ingredient, Step
from engram.ingredients.distillation import FeatureDistillation, LwF, Taught
from engram.ingredients.feature_replay import FeatureReplay
from engram.ingredients.teacher import any_of
from engram.lesson import Watch
from engram.methods.gradient import GradientMethod
from engram.randomness import generator
from engram.settings import FeatureDistillationSettings, FeatureReplaySettings, LwFSettings

STEP = Step(1, 0, 0, 0.0)


def after_a_task(*parts: Ingredient) -> tuple[GradientMethod, Batch, Tensor]:
    """At the first step of a second task, with weights that have moved; and the features of before."""
    subject = method(*parts, width=2)
    subject.learn(lesson(0, classes=(0, 1), width=2), Watch())
    subject.begin(lesson(1, classes=(2,)))
    x, y = next(subject.batches(lesson(1, classes=(2,)), 0))
    before = subject.network.extractor(x).detach()
    for parameter in subject.network.parameters():
        parameter.data += 0.1
    return subject, Batch(x, y, *subject.forward(x)), before


def test_the_first_task_is_learnt_as_without() -> None:
    for part in (LwF(LwFSettings()), FeatureDistillation(FeatureDistillationSettings())):
        plain, taught = method(), method(part)
        for subject in (plain, taught):
            subject.learn(lesson(), Watch())
        assert all(map(torch.equal, weights(plain), weights(taught)))


def test_lwf_compares_old_columns_at_its_temperature_by_hand() -> None:
    part = LwF(LwFSettings(weight=3.0, temperature=2.0))
    _, batch, before = after_a_task(part)
    assert part.teacher.network is not None
    targets = (before @ part.teacher.network.get_submodule("head").weight.T / 2).softmax(1)[:, :2]  # pyright: ignore
    targets = targets / targets.sum(1, keepdim=True)
    logs = batch.scores[:, :2] / 2
    logs = logs - logs.exp().sum(1, keepdim=True).log()
    wanted = 1.5 - 3 * (targets * logs).sum(1).mean()
    torch.testing.assert_close(part.loss(torch.tensor(1.5), batch, STEP), wanted)


def test_feature_distillation_is_the_mean_distance_times_old_for_new_by_hand() -> None:
    part = FeatureDistillation(FeatureDistillationSettings(weight=3.0))
    _, batch, before = after_a_task(part)
    distances = [float((now - then).norm()) for now, then in zip(batch.features.detach(), before, strict=True)]
    wanted = 1.5 + 3 * 2 / 1 * sum(distances) / len(distances)  # two old classes, one new one
    assert part.loss(torch.tensor(1.5), batch, STEP).item() == pytest.approx(wanted, rel=1e-5)


def test_fd_gfr_averages_real_and_replayed_by_classes_and_adds_the_distillation() -> None:
    """The gradient on the head and on the rest is that of [CE(real) + f CE(replay)]/(f + 1) + f · drift, f = 2."""
    settings = FeatureReplaySettings(**TINY, labels="hard", share="by_classes", critic="conditional", alignment=1e-3)
    replay, distillation, eye = FeatureReplay(settings), FeatureDistillation(FeatureDistillationSettings()), Eye()
    subject, batch, before = after_a_task(replay, distillation, eye)
    eye.seen.clear()
    oracle = {name: p.detach().clone().requires_grad_() for name, p in subject.network.named_parameters()}
    first, second, head = (oracle[name] for name in ("extractor.0.weight", "extractor.2.weight", "head.weight"))
    features = ((batch.x @ first.T).relu() @ second.T).relu()
    random = generator(subject.seed, 1, "replay", 0, 0)
    columns = any_of([0, 1], settings.batch_size, random)
    replayed = replay.gan.sample(columns, random)
    log = lambda scores, y: -scores.log_softmax(1)[torch.arange(len(y)), y].mean()  # noqa: E731
    drift = (features - before).norm(dim=1).mean()
    total = (log(features @ head.T, batch.y) + 2 * log(replayed @ head.T, columns)) / 3 + 2 * drift
    total.backward()
    optimizer = torch.optim.SGD(subject.network.parameters(), 0.1)
    inputs = batch.x
    subject.train_step(optimizer, inputs, batch.y, STEP)
    for name, gradient in eye.seen[-1].items():
        torch.testing.assert_close(gradient, oracle[name].grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("part", [LwF(LwFSettings()), FeatureDistillation(FeatureDistillationSettings())])
def test_the_teacher_stays_as_it_was_and_comes_back(part: Taught) -> None:
    subject, batch, before = after_a_task(part)
    torch.testing.assert_close(part.teacher(batch.x)[0], before)
    assert part.teacher(batch.x)[1].shape == (8, 2)
    part.loss(torch.zeros(()), batch, STEP).backward()
    assert part.teacher.network is not None
    assert all(p.grad is None for p in part.teacher.network.parameters())
    twin_part = type(part)(part.settings)  # pyright: ignore
    twin = method(twin_part, width=2)
    twin.restore(subject.state())
    assert torch.equal(twin_part.teacher(batch.x)[0], part.teacher(batch.x)[0])
