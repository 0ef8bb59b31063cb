"""The memory's exact size, herding against brute force, iCaRL's loss and its nearest mean by hand."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.test_gradient import lesson, method, weights
from torch import Tensor

from engram.ingredients.base import Batch, Step
from engram.ingredients.exemplars import (
    UNKNOWN,
    ExemplarMemory,
    ExperienceReplay,
    ICaRL,
    herded,
    icarl_loss,
    shared_out,
)
from engram.lesson import Watch
from engram.settings import ExperienceReplaySettings, ICaRLSettings


def first_rows(x: Tensor, count: int) -> Tensor:
    return torch.arange(count)


@given(st.integers(1, 60), st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_the_memory_is_full_or_holds_everything_and_is_shared_as_evenly_as_can_be(size: int, counts: list[int]) -> None:
    shares = shared_out(size, counts)
    assert sum(shares) == min(size, sum(counts))
    assert all(0 <= share <= count for share, count in zip(shares, counts, strict=True))
    wanting = [share for share, count in zip(shares, counts, strict=True) if share < count]
    assert not wanting or max(shares) - min(wanting) <= 1


def test_exactly_as_many_samples_are_stored_after_every_task() -> None:
    memory = ExemplarMemory(10)
    for task in range(3):
        y = torch.tensor([2 * task, 2 * task + 1]).repeat(20)
        memory.add(torch.arange(40.0)[:, None] + 100 * task, y, first_rows)
        assert len(memory.x) == len(memory.y) == 10
        assert memory.y.unique().tolist() == list(range(2 * task + 2))
    # of ten for six classes, the first four have two; those that were chosen first are still there
    assert memory.y.bincount().tolist() == [2, 2, 2, 2, 1, 1]
    assert memory.x[memory.y == 0].flatten().tolist() == [0.0, 2.0]


def test_more_of_a_known_class_is_chosen_from_old_and_new_together() -> None:
    memory = ExemplarMemory(4)
    memory.add(torch.zeros(5, 1), torch.zeros(5, dtype=torch.long), first_rows)
    memory.add(torch.ones(5, 1), torch.zeros(5, dtype=torch.long), lambda x, count: torch.tensor([0, 1, 5, 6]))
    assert memory.x.flatten().tolist() == [1.0, 1.0, 0.0, 0.0]


def test_herding_is_the_greedy_choice_by_brute_force() -> None:
    features = F.normalize(torch.randn(7, 3, generator=torch.Generator().manual_seed(1)), dim=1)
    mean, chosen = features.mean(0), []
    for _ in range(5):
        rest = [row for row in range(7) if row not in chosen]
        chosen.append(min(rest, key=lambda row: float((features[[*chosen, row]].mean(0) - mean).norm())))
    assert herded(features, 5).tolist() == chosen
    best = min(permutations(range(7), 1), key=lambda rows: float((features[list(rows)].mean(0) - mean).norm()))
    assert herded(features, 1).tolist() == list(best)
    assert sorted(herded(features, 7).tolist()) == list(range(7))


def test_the_loss_is_one_logistic_regression_per_class_by_hand() -> None:
    scores, targets = torch.tensor([[0.3, -1.0], [2.0, 0.1]]), torch.tensor([[1.0, 0.25], [0.0, 1.0]])
    wanted = 0.0
    for row in range(2):
        for column, weight in ((0, 1.0), (1, 3.0)):
            p = 1 / (1 + (-scores[row, column]).exp())
            wanted -= weight * (targets[row, column] * p.log() + (1 - targets[row, column]) * (1 - p).log())
    torch.testing.assert_close(icarl_loss(scores, targets, torch.tensor([1.0, 3.0]).expand(2, 2)), wanted / 2)


def learnt(**settings: float) -> tuple[ICaRL, Batch]:
    """After a first task of classes 0 and 1, at the first batch of one with class 2."""
    part = ICaRL(ICaRLSettings(**{"memory": 9, **settings}))  # pyright: ignore[reportArgumentType]
    subject = method(part, width=2)
    subject.learn(lesson(0, classes=(0, 1), width=2), Watch())
    subject.begin(lesson(1, classes=(2,)))
    x, y = part.batch(*next(subject.batches(lesson(1, classes=(2,)), 0)), Step(1, 0, 0, 0.0))
    return part, Batch(x, y, *subject.forward(x))


def test_old_outputs_are_distilled_and_new_ones_learn_their_labels() -> None:
    part, batch = learnt(distillation=0.5)
    taught = part.teacher(batch.x)[1].sigmoid()
    targets = torch.cat([taught, (batch.y == 2).float()[:, None]], 1)
    losses = F.binary_cross_entropy_with_logits(batch.scores, targets, reduction="none")
    wanted = (0.5 * losses[:, :2].sum() + losses[:, 2].sum()) / len(batch.y)
    torch.testing.assert_close(part.loss(torch.tensor(77.0), batch, Step(1, 0, 0, 0.0)), wanted)


def test_each_exemplar_comes_once_an_epoch() -> None:
    part, _ = learnt()
    x, y = torch.zeros(8, 6), torch.full((8,), 2)
    for epoch in (0, 1):
        rows: list[list[float]] = []
        for index in range(part.steps):
            mixed, columns = part.batch(x, y, Step(1, epoch, index, 0.0))
            assert (columns[:8] == 2).all()
            rows += mixed[8:].tolist()
        wanted = part.host.network.prepare(part.memory.x).tolist()
        assert sorted(rows) == sorted(wanted)
        assert len(rows) == 9


def test_prediction_is_the_nearest_mean_of_exemplars() -> None:
    part, _ = learnt()
    host = part.host
    probes = host.extract(lesson(2, samples=20).x)
    means = []
    for column in (0, 1):
        own = F.normalize(host.extract(part.memory.x[part.memory.y == column]), dim=1)
        means.append(own.mean(0) / own.mean(0).norm())
    scores = part.scores(host.network.head, probes)
    wanted = torch.stack([(F.normalize(probes, dim=1) - mean).norm(dim=1) for mean in means], 1)
    torch.testing.assert_close(-scores[:, :2], wanted, rtol=1e-4, atol=1e-5)
    assert (scores[:, 2] == UNKNOWN).all()  # the class under way has no exemplars yet
    assert (scores[:, :2] > UNKNOWN).all()


def test_the_memory_holds_raw_samples_of_the_tasks_as_many_as_asked() -> None:
    part, _ = learnt()
    given = lesson(0, classes=(0, 1), width=2)
    assert len(part.memory.x) == 9
    for x, y in zip(part.memory.x, part.memory.y, strict=True):
        assert any(torch.equal(x, row) and y == column for row, column in zip(given.x, given.y, strict=True))
    assert part.measures() == {"stored_samples": 9}


def test_experience_replay_adds_so_many_stored_samples_to_each_batch() -> None:
    part = ExperienceReplay(ExperienceReplaySettings(memory=7, batch_size=5))
    subject = method(part)
    x, y = next(subject.batches(lesson(0), 0))
    assert part.batch(x, y, Step(0, 0, 0, 0.0))[0] is x
    subject.learn(lesson(0), Watch())
    mixed, columns = part.batch(x, y, Step(1, 0, 0, 0.0))
    assert torch.equal(mixed[:8], x)
    assert torch.equal(columns[:8], y)
    stored = subject.network.prepare(part.memory.x).tolist()
    assert len(mixed) == 13
    assert all(row in stored for row in mixed[8:].tolist())
    assert part.batch(x, y, Step(1, 0, 1, 0.0))[0].tolist() != mixed.tolist()


@pytest.mark.parametrize("size", [3, 30])
def test_a_restored_twin_goes_on_the_same(size: int) -> None:
    subject, twin = (method(ICaRL(ICaRLSettings(memory=size)), width=2) for _ in range(2))
    subject.learn(lesson(0, classes=(0, 1), width=2), Watch())
    twin.restore(subject.state())
    for each in (subject, twin):
        each.learn(lesson(1), Watch())
    assert all(map(torch.equal, weights(subject), weights(twin)))
    assert torch.equal(subject.scores(lesson(0).x), twin.scores(lesson(0).x))
