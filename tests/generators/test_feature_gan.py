"""The feature generator: its critic's slope against autograd, what it imitates, and what it remembers."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from engram.generators.conditional import Mixture
from engram.generators.feature_gan import FeatureCritic, FeatureGAN
from engram.generators.wgan_gp import as_its_class
from engram.settings import ReplaySettings

CPU = torch.device("cpu")
SMALL = ReplaySettings(generator_steps=200, generator_width=32, generator_batch=32, generator_rate=4e-3, noise=8)


def gan(settings: ReplaySettings = SMALL, features: int = 6) -> FeatureGAN:
    torch.manual_seed(0)
    return FeatureGAN(settings, features, CPU, False)


def features_of(*columns: int, rows: int = 60) -> tuple[Tensor, Tensor]:
    """Never negative, like real ones: class c is large in its own dimension."""
    y = torch.tensor(columns).repeat_interleave(rows)
    random = torch.Generator().manual_seed(sum(columns))
    x = 0.3 * torch.rand(len(y), 6, generator=random)
    x[torch.arange(len(y)), y] += 5
    return x, y


def quiet(done: int, total: int) -> None: ...


def test_the_written_out_slope_is_autograds_and_its_gradient_too() -> None:
    torch.manual_seed(0)
    critic = FeatureCritic(SMALL, 6).double()
    x = torch.randn(9, 6, dtype=torch.float64, requires_grad=True)
    slope = critic.slope(x.detach())
    (wanted,) = torch.autograd.grad(critic(x)[0].sum(), x, create_graph=True)
    torch.testing.assert_close(slope, wanted)
    weights = [critic.enter.weight, critic.middle.weight, critic.judge.weight]
    penalties = [(s.norm(dim=1) - 1).square().mean() for s in (slope, wanted)]
    found, oracle = (torch.autograd.grad(penalty, weights, retain_graph=True) for penalty in penalties)
    for one, other in zip(found, oracle, strict=True):
        torch.testing.assert_close(one, other)


def test_the_slope_of_a_critic_that_is_told_the_class_counts_the_classs_score() -> None:
    torch.manual_seed(0)
    critic = FeatureCritic(SMALL, 6).double()
    critic.grow(3)
    x, columns = torch.randn(4, 6, dtype=torch.float64, requires_grad=True), torch.tensor([2, 0, 1, 1])
    judged, told = critic.double()(x)
    (wanted,) = torch.autograd.grad(as_its_class(judged, told, columns).sum(), x)
    torch.testing.assert_close(critic.slope(x.detach(), columns), wanted, rtol=1e-4, atol=1e-5)
    assert (critic.slope(x.detach()) - wanted).abs().max() > 1e-3


def test_alignment_is_the_squared_distance_to_the_former_generator_by_hand() -> None:
    subject = gan(replace(SMALL, generator_steps=1, alignment=0.5))
    subject.learn(*features_of(0, 1), 4, quiet)
    former = copy.deepcopy(subject.generator)
    subject.seen = [0, 1, 2]
    assert subject._alignment(former, [0, 1])().item() == 0
    for parameter in subject.generator.parameters():
        parameter.data += 0.1
    torch.manual_seed(3)
    found = subject._alignment(former, [0, 1])()
    torch.manual_seed(3)
    columns = torch.tensor([0, 1])[torch.randint(2, (32,))]
    noise = torch.randn(32, 8)
    moved = subject.generator(noise, columns) - former(noise, columns)
    torch.testing.assert_close(found, 0.5 * 2 / 1 * moved.square().sum())  # two old classes, one new one


@pytest.mark.parametrize(
    "settings", [SMALL, replace(SMALL, critic="conditional"), replace(SMALL, critic="conditional", alignment=1e-3)]
)
def test_it_generates_what_it_is_asked_for_also_of_earlier_tasks(settings: ReplaySettings) -> None:
    subject = gan(settings)
    random = torch.Generator().manual_seed(1)
    subject.learn(*features_of(0, 1), 4, quiet)
    scale = subject.scale
    subject.learn(*features_of(2, 3), 4, quiet)
    assert subject.seen == [0, 1, 2, 3]
    assert subject.scale == scale
    for column in subject.seen:
        made = subject.sample(torch.full((100,), column), random)
        assert (made >= 0).all()
        assert (made.argmax(1) == column).double().mean() > 0.9
        assert 3 < made[:, column].mean() < 7


def test_a_wider_head_leaves_what_is_generated_as_it_was() -> None:
    subject = gan(replace(SMALL, generator_steps=3))
    subject.learn(*features_of(0, 1), 2, quiet)
    before = subject.sample(torch.tensor([0, 1]), torch.Generator().manual_seed(1))
    subject.grow(5)
    assert torch.equal(subject.sample(torch.tensor([0, 1]), torch.Generator().manual_seed(1)), before)
    assert subject.critic.classes.shape == (5, 32)


def test_a_restored_one_goes_on_the_same() -> None:
    few = replace(SMALL, generator_steps=3)
    one, other = gan(few), gan(few)
    one.learn(*features_of(0, 1), 4, quiet)
    other.restore(one.state())
    for each in (one, other):
        torch.manual_seed(5)
        each.learn(*features_of(2, 3), 4, quiet)
    assert all(torch.equal(tensor, other.state().tensors[name]) for name, tensor in one.state().tensors.items())
    assert one.state().meta == other.state().meta


def marked(asked: Tensor) -> Tensor:
    return torch.full((len(asked), 6), -1.0)


@pytest.mark.parametrize(("old", "share"), [((), 0.0), ((0, 1), 0.5), ((0, 1, 2), 0.625)])
def test_every_class_comes_equally_often_old_ones_from_memory(old: tuple[int, ...], share: float) -> None:
    torch.manual_seed(0)
    x, y = features_of(2, 3)
    seen = torch.tensor(sorted({*old, 2, 3}))
    keep = torch.cat([torch.arange(5), torch.arange(60, 120)])  # few of class 2
    mixture = Mixture(x[keep], y[keep], 4, lambda size: seen[torch.randint(len(seen), (size,))], old, marked)
    drawn, columns = mixture(8000)
    counts = columns.bincount(minlength=4)[seen] / 8000
    torch.testing.assert_close(counts, torch.full_like(counts, 1 / len(seen)), rtol=0, atol=0.03)
    remembered = drawn[:, 0] == -1
    assert remembered.double().mean().item() == pytest.approx(share, abs=0.03)
    assert (drawn[~remembered].argmax(1) == columns[~remembered]).all()
    for column in {0, 1} & set(old):
        assert remembered[columns == column].all()


def test_every_feature_of_a_class_is_drawn() -> None:
    torch.manual_seed(0)
    x = torch.arange(10.0)[:, None]
    y = torch.tensor([1, 0] * 5)
    drawn, columns = Mixture(x, y, 2, lambda size: torch.randint(2, (size,)), (), marked)(2000)
    assert set(drawn[columns == 0].flatten().tolist()) == {1.0, 3.0, 5.0, 7.0, 9.0}
    assert set(drawn[columns == 1].flatten().tolist()) == {0.0, 2.0, 4.0, 6.0, 8.0}
