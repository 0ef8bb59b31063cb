"""PGMA: weights that change with the input, an auto-encoder with a normal description, a frozen extractor."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.methods.test_gradient import lesson, method
from torch import Tensor

from engram.errors import EngramError
from engram.generators.autoencoder import AutoEncoder, discrepancy
from engram.ingredients.teacher import any_of
from engram.lesson import Watch
from engram.methods.pgma import PGMAMethod
from engram.networks.adapted import AdaptedSolver
from engram.settings import PGMASettings

SMALL: dict[str, Any] = {"latent": 4, "hidden": 12, "rank": 5, "generator_width": 16, "batch_size": 16}


def pgma(epochs: int = 3, **settings: Any) -> PGMAMethod:
    return PGMAMethod(method(width=2, epochs=epochs), PGMASettings(**SMALL | {"generator_steps": 20} | settings))


def test_generated_weights_change_with_the_input_and_the_rest_is_shared() -> None:
    torch.manual_seed(0)
    solver = AdaptedSolver(6, latent=4, hidden=12, rank=5)
    solver.grow(3)
    x, descriptions = torch.rand(1, 6).expand(2, 6), torch.randn(2, 4)
    made = solver.generated(descriptions)
    assert made.shape == (2, 5, 5)
    assert (made[0] - made[1]).abs().max() > 1e-3
    scores = solver(x, descriptions)
    assert (scores[0] - scores[1]).abs().max() > 1e-4  # the same features, another input's weights
    for row in range(2):
        wanted = (made[row] @ solver.shared(x)[row]).relu() @ solver.head.T
        torch.testing.assert_close(scores[row], wanted)


def test_a_wider_classifier_says_the_same_of_old_classes() -> None:
    solver = AdaptedSolver(6, latent=4, hidden=12, rank=5)
    solver.grow(2)
    x, descriptions = torch.rand(3, 6), torch.randn(3, 4)
    before = solver(x, descriptions)
    solver.grow(4)
    assert solver(x, descriptions).shape == (3, 4)
    torch.testing.assert_close(solver(x, descriptions)[:, :2], before)


def test_the_discrepancy_of_two_samples_by_definition() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(5, 3), torch.randn(5, 3) + 1

    def kernel(a: Tensor, b: Tensor) -> float:
        return float(6 / (6 + (a - b).square().sum()))

    pairs = [(i, j) for i in range(5) for j in range(5)]
    within = sum(kernel(x[i], x[j]) + kernel(y[i], y[j]) for i, j in pairs if i != j) / 20
    wanted = within - 2 * sum(kernel(x[i], y[j]) for i, j in pairs) / 25
    assert discrepancy(x, y).item() == pytest.approx(wanted, abs=1e-5)


def test_the_auto_encoder_makes_features_like_those_of_the_class_asked_for() -> None:
    torch.manual_seed(0)
    model = AutoEncoder(6, 32, 2)
    model.grow(2)
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)

    def features(count: int) -> tuple[Tensor, Tensor]:
        x, y = torch.zeros(count, 6), torch.randint(2, (count,))
        x[torch.arange(count), 3 * y] = 4 + torch.rand(count)
        return x, y

    for _ in range(300):
        optimizer.zero_grad()
        model.loss(features(64)[0], 10.0).backward()
        optimizer.step()
    x, y = features(500)
    for column in (0, 1):
        model.describe(column, x[y == column])
    made = model.sample(torch.tensor([0, 1]).repeat_interleave(200))
    assert (made >= 0).all()
    for column, part in enumerate(made.split(200)):
        assert (part.argmax(1) == 3 * column).double().mean() > 0.95
        assert part[:, 3 * column].mean().item() == pytest.approx(4.5, abs=0.5)


def test_the_extractor_is_trained_on_the_first_task_alone() -> None:
    subject = pgma()
    subject.learn(lesson(0, classes=(0, 1), width=2), Watch())
    before = copy.deepcopy(subject.extractor.network.extractor.state_dict())
    subject.learn(lesson(1, classes=(2,)), Watch())
    after = subject.extractor.network.extractor.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert subject.scores(lesson(0).x).shape == (30, 3)


def test_what_is_remembered_keeps_old_classes_known() -> None:
    shares = {}
    for replay in (0.0, 1.0):
        subject = pgma(epochs=30, replay=replay, generator_steps=400)
        first = lesson(0, samples=60, classes=(0, 1), width=2)
        subject.learn(first, Watch())
        assert (subject.scores(first.x).argmax(1) == first.y).double().mean() > 0.8
        subject.learn(lesson(1, samples=60, classes=(2,)), Watch())
        shares[replay] = float((subject.scores(first.x).argmax(1) == first.y).double().mean())
    assert shares[1.0] > shares[0.0] + 0.2


def test_old_answers_to_remembered_features_are_distilled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two old classes and one new one, a third of the loss is the new one's."""
    subject = pgma()
    subject.learn(lesson(0, classes=(0, 1), width=2), Watch())
    former = copy.deepcopy((subject.memory, subject.solver))
    subject.solver.grow(3)
    losses: list[Tensor] = []
    monkeypatch.setattr(subject, "_train", lambda modules, loss, *rest: losses.append(loss()))
    x, y = torch.rand(16, 8), torch.full((16,), 2)
    torch.manual_seed(5)
    subject._solve(x, y, former, 2.0, Watch())
    torch.manual_seed(5)
    rows = torch.randint(16, (16,))
    remembered = former[0].sample(any_of([0, 1], 16, torch.default_generator))
    described = subject.memory.encoder(remembered)
    targets = torch.zeros(16, 3)
    targets[:, :2] = (former[1](remembered, former[0].encoder(remembered)) / 2).softmax(1)
    kept = -(targets * (subject.solver(remembered, described) / 2).log_softmax(1)).sum(1).mean()
    new = F.cross_entropy(subject.solver(x[rows], subject.memory.encoder(x[rows])), y[rows])
    torch.testing.assert_close(losses[0], (new + 2 * kept) / 3)


def test_a_loss_that_is_no_number_is_named() -> None:
    with pytest.raises(EngramError, match="PGMA's loss is no longer a finite number: lower its rate"):
        pgma(rate=1e30).learn(lesson(0, classes=(0, 1), width=2), Watch())
