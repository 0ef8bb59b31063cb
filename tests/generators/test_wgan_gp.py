"""The GAN's losses against numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from engram.errors import EngramError
from engram.generators.wgan_gp import critic_loss, gradient_penalty, train
from engram.settings import GeneratorSettings

CPU = torch.device("cpu")


class LinearCritic(nn.Module):
    """Judges x by w·x + b and scores two classes by V x."""

    def __init__(self, w: Tensor) -> None:
        super().__init__()
        self.w = nn.Parameter(w)
        self.b = nn.Parameter(torch.zeros(()))
        self.classes = nn.Parameter(torch.zeros(2, len(w)))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x @ self.w + self.b, x @ self.classes.T

    def slope(self, x: Tensor, columns: Tensor | None = None) -> Tensor:
        return self.w.expand_as(x)


class Shift(nn.Module):
    """Moves noise by a learnt amount for each class."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.zeros(2, size))

    def forward(self, noise: Tensor, columns: Tensor) -> Tensor:
        return 0.1 * noise + self.by[columns]


def test_the_gradient_penalty_of_a_linear_critic_is_its_slope_less_one_squared() -> None:
    critic = LinearCritic(torch.tensor([3.0, 4.0]))  # slope 5 everywhere
    penalty = gradient_penalty(critic, torch.randn(7, 2), torch.randn(7, 2))
    assert penalty.item() == pytest.approx(16.0)
    penalty.backward()
    # d(|w| - 1)²/dw = 2 (|w| - 1) w / |w|
    torch.testing.assert_close(critic.w.grad, torch.tensor([8 * 3 / 5, 8 * 4 / 5]))


def test_the_critics_loss_by_hand() -> None:
    critic = LinearCritic(torch.tensor([0.6, 0.8]))  # slope 1: no penalty
    real, fake = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[2.0, 1.0]])
    y, asked = torch.tensor([0, 1]), torch.tensor([1])
    loss, parts = critic_loss(critic, real, y, fake.expand(2, 2), asked.expand(2), 10.0)
    assert parts["wasserstein"].item() == pytest.approx((0.6 + 0.8) / 2 - 2.0)
    # all class scores are 0: log 2 for the real and log 2 for the generated samples
    assert parts["class_loss"].item() == pytest.approx(2 * torch.log(torch.tensor(2.0)).item())
    assert parts["gradient_penalty"].item() == pytest.approx(0.0, abs=1e-12)
    assert loss.item() == pytest.approx(2 * 0.693147 + 1.3, abs=1e-5)


def printed_loss(critic: LinearCritic, real: Tensor, remembered: Tensor, fake: Tensor) -> Tensor:
    """The paper's L_GAN as it is printed: two means count as real against one as generated."""
    return critic(fake)[0].mean() - critic(real)[0].mean() - critic(remembered)[0].mean()


def balanced_loss(critic: LinearCritic, real: Tensor, remembered: Tensor, fake: Tensor) -> Tensor:
    """What we train on: one real batch that mixes the two, against one generated batch."""
    mixed, labels = torch.cat([real[:32], remembered[:32]]), torch.zeros(64, dtype=torch.long)
    return -critic_loss(critic, mixed, labels, fake, labels, 0.0)[1]["wasserstein"]


def test_the_balanced_loss_is_bounded_where_the_printed_one_runs_away() -> None:
    torch.manual_seed(0)
    samples = torch.randn(3, 64, 2)  # new, remembered and generated samples of one distribution
    values = []
    for adversarial in (printed_loss, balanced_loss):
        critic = LinearCritic(torch.tensor([0.6, 0.8]))
        optimizer = torch.optim.Adam(critic.parameters(), 0.05)
        for _ in range(200):
            optimizer.zero_grad()
            (adversarial(critic, *samples) + 10 * gradient_penalty(critic, samples[0], samples[2])).backward()
            optimizer.step()
        values.append(float(adversarial(critic, *samples).detach()))
    printed, balanced = values
    assert printed < -4
    assert abs(balanced) < 1


@pytest.mark.parametrize("low_precision", [False, True])
def test_training_moves_each_class_to_where_it_belongs(low_precision: bool) -> None:
    torch.manual_seed(0)
    centres = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    settings = GeneratorSettings(generator_steps=160, generator_batch=32, generator_rate=0.02, noise=2)
    generator, critic = Shift(2), LinearCritic(torch.tensor([0.5, 0.5]))

    def columns(size: int) -> Tensor:
        return torch.randint(2, (size,))

    def real(size: int) -> tuple[Tensor, Tensor]:
        y = columns(size)
        return centres[y] + 0.1 * torch.randn(size, 2), y

    steps: list[tuple[int, int]] = []
    curves = train(
        generator, critic, real, columns, settings, CPU, low_precision, lambda done, total: steps.append((done, total))
    )
    found = generator.by.detach()
    assert (found[0] - found[1])[0] > 0.5  # the class loss tells them apart, in the right direction
    assert (found[1] - found[0])[1] > 0.5
    torch.testing.assert_close(found.mean(0), centres.mean(0), rtol=0, atol=0.7)
    assert steps == [(done, 160) for done in range(1, 161)]
    assert set(curves) == {"wasserstein", "class_loss", "gradient_penalty", "critic_loss", "generator_loss"}
    assert all(len(curve) == 20 for curve in curves.values())


def test_the_generators_step_leaves_the_critic_alone_and_the_other_way_round() -> None:
    torch.manual_seed(0)
    settings = GeneratorSettings(generator_steps=1, critic_steps=1, generator_batch=4, generator_rate=0.1, noise=2)
    generator, critic = Shift(2), LinearCritic(torch.tensor([0.5, 0.5]))

    def columns(size: int) -> Tensor:
        return torch.arange(size) % 2

    train(generator, critic, lambda size: (torch.ones(size, 2), columns(size)), columns, settings, CPU, False, _quiet)
    # one step of Adam moves each weight by the learning rate, and no more
    for weight, before in ((critic.w, 0.5), (generator.by, 0.0)):
        assert (weight.detach() - before).abs().max().item() == pytest.approx(0.1, rel=1e-3)


def test_a_loss_that_is_no_number_is_named() -> None:
    settings = GeneratorSettings(generator_steps=2, critic_steps=1, generator_batch=4, noise=2)
    generator, critic = Shift(2), LinearCritic(torch.tensor([0.5, 0.5]))

    def real(size: int) -> tuple[Tensor, Tensor]:
        return torch.full((size, 2), torch.nan), torch.zeros(size).long()

    def columns(size: int) -> Tensor:
        return torch.zeros(size).long()

    with pytest.raises(EngramError, match="no longer a finite number"):
        train(generator, critic, real, columns, settings, CPU, False, _quiet)


def _quiet(done: int, total: int) -> None: ...
