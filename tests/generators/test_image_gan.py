"""The image generator: sizes, its critic's slope against autograd, the range it keeps, and what it remembers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from engram.generators.image_gan import ImageCritic, ImageGAN, ImageGenerator
from engram.settings import ReplaySettings

CPU = torch.device("cpu")
SMALL = ReplaySettings(generator_steps=2, generator_width=3, generator_batch=6, noise=4)
SHAPES = [(1, 8, 8), (3, 32, 32), (2, 7, 10)]


def quiet(done: int, total: int) -> None: ...


@pytest.mark.parametrize("shape", SHAPES)
def test_images_have_the_size_that_was_asked_for_and_their_range(shape: tuple[int, int, int]) -> None:
    generator, critic = ImageGenerator(SMALL, shape), ImageCritic(SMALL, shape)
    for module in (generator, critic):
        module.grow(3)
    made = generator(torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1]))
    assert made.shape == (5, *shape)
    assert made.abs().max() <= 1
    judged, told = critic(made)
    assert judged.shape == (5,)
    assert told.shape == (5, 3)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("conditional", [False, True])
def test_the_written_out_slope_is_autograds_and_its_gradient_too(
    shape: tuple[int, int, int], conditional: bool
) -> None:
    torch.manual_seed(0)
    critic = ImageCritic(SMALL, shape).double()
    critic.grow(3)
    columns = torch.tensor([2, 0, 1, 1]) if conditional else None
    x = torch.randn(4, *shape, dtype=torch.float64, requires_grad=True)
    slope = critic.slope(x.detach(), columns)
    judged, told = critic(x)
    total = judged.sum() if columns is None else judged.sum() + told[torch.arange(4), columns].sum()
    (wanted,) = torch.autograd.grad(total, x, create_graph=True)
    torch.testing.assert_close(slope, wanted)
    weights = [p for name, p in critic.named_parameters() if name.endswith("weight")]
    penalties = [(s.flatten(1).norm(dim=1) - 1).square().mean() for s in (slope, wanted)]
    found, oracle = (torch.autograd.grad(penalty, weights, retain_graph=True) for penalty in penalties)
    for one, other in zip(found, oracle, strict=True):
        torch.testing.assert_close(one, other)


def images_of(*columns: int, rows: int = 40) -> tuple[Tensor, Tensor]:
    """Class c is light in its own quarter."""
    y = torch.tensor(columns).repeat_interleave(rows)
    x = torch.zeros(len(y), 1, 8, 8) + 0.2 * torch.rand(len(y), 1, 8, 8, generator=torch.Generator().manual_seed(1))
    for image, column in zip(x, y.tolist(), strict=True):
        image[0, 4 * (column // 2) : 4 * (column // 2) + 4, 4 * (column % 2) : 4 * (column % 2) + 4] += 3
    return x, y


def test_it_generates_what_it_is_asked_for_also_of_earlier_tasks() -> None:
    torch.manual_seed(0)
    settings = replace(SMALL, generator_steps=120, generator_width=8, generator_batch=32, generator_rate=2e-3)
    subject = ImageGAN(settings, (1, 8, 8), CPU, False)
    subject.learn(*images_of(0, 1), 4, quiet)
    shift, scale = subject.shift, subject.scale
    subject.learn(*images_of(2, 3), 4, quiet)
    assert (subject.shift, subject.scale) == (shift, scale)
    random = torch.Generator().manual_seed(1)
    for column in range(4):
        made = subject.sample(torch.full((50,), column), random)
        assert -0.1 < float(made.amin()) < float(made.amax()) < 3.3
        quarters = made.view(50, 2, 4, 2, 4).mean((2, 4)).flatten(1)
        assert (quarters.argmax(1) == column).double().mean() > 0.8


def test_pictures_are_what_is_sampled_brought_to_0_and_1() -> None:
    torch.manual_seed(0)
    subject = ImageGAN(SMALL, (1, 8, 8), CPU, False)
    x, y = images_of(0, 1)
    subject.learn(x, y, 2, quiet)
    asked = torch.tensor([0, 1])
    picture = subject.picture(asked, torch.Generator().manual_seed(1))
    sample = subject.sample(asked, torch.Generator().manual_seed(1))
    torch.testing.assert_close(picture, (sample - x.amin()) / (x.amax() - x.amin()), rtol=1e-4, atol=1e-5)


def test_images_of_one_colour_do_no_harm() -> None:
    subject = ImageGAN(SMALL, (1, 8, 8), CPU, False)
    subject.learn(torch.full((8, 1, 8, 8), 5.0), torch.arange(8) % 2, 2, quiet)
    assert subject.sample(torch.tensor([0]), torch.Generator()).isfinite().all()
