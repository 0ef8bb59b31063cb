"""The one training loop that all generators share: a conditional Wasserstein GAN with gradient penalty (AC-GAN)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.errors import EngramError
from engram.settings import GeneratorSettings

BETAS = (0.0, 0.9)
POINTS = 20
"""points that a curve of the training has"""

Draw = Callable[[int], tuple[Tensor, Tensor]]
"""so many samples and their classes"""


class Generator(Protocol):
    def __call__(self, noise: Tensor, columns: Tensor) -> Tensor: ...
    def parameters(self) -> Any: ...


class Critic(Protocol):
    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """How real each sample looks, and its score for each class."""
        ...

    def slope(self, x: Tensor, columns: Tensor | None = None) -> Tensor:
        """The gradient of how real x looks with respect to x, which can be differentiated by the weights.

        With columns: of how real x looks as a sample of these classes, the score of its class added.
        """
        ...

    def parameters(self) -> Any: ...


def gradient_penalty(critic: Critic, real: Tensor, fake: Tensor, columns: Tensor | None = None) -> Tensor:
    """How far the critic's slope is from 1, squared, at random points between real and generated samples."""
    shape = (len(real), *[1] * (real.ndim - 1))
    share = torch.rand(shape, device=real.device)
    slope = critic.slope(share * real + (1 - share) * fake, columns)
    return (slope.float().flatten(1).norm(dim=1) - 1).square().mean()


def train(
    generator: Generator,
    critic: Critic,
    real: Draw,
    columns: Callable[[int], Tensor],
    settings: GeneratorSettings,
    device: torch.device,
    low_precision: bool,
    stepped: Callable[[int, int], None],
    anchored: Callable[[], Tensor] | None = None,
    taught: Callable[[], Tensor] | None = None,
    edit: Callable[[], None] | None = None,
    given: bool = False,
) -> dict[str, list[float]]:
    """Train both; `real` draws what is to be imitated, `columns` the classes that are asked for, alike in number.

    As many real as generated samples enter the critic's loss, so that it cannot fall without bound by adding a
    constant to every judgement. `anchored` is a further loss of the generator, `taught` of the critic; `edit`
    may change the generator's gradients. The critic is told the classes where they are `given`, else it tells them.
    Returns the losses, in means over twentieths of the training.
    """
    losses = conditional_critic_loss if given else critic_loss
    critic_step = _stepper(list(critic.parameters()), settings)
    generator_step = _stepper(list(generator.parameters()), settings, edit)
    size, steps = settings.generator_batch, settings.generator_steps
    log: dict[str, list[Tensor]] = {}

    def generated(asked: Tensor) -> tuple[Tensor, Tensor]:
        return generator(torch.randn(size, settings.noise, device=device), asked).float(), asked

    @torch.no_grad()
    def pairs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Real samples with their classes, then generated ones; a critic that is told them sees the same in both."""
        if given:
            sample, y = real(size)
            return sample, y, *generated(y)
        fake, asked = generated(columns(size))
        return *real(size), fake, asked

    for step in range(steps):
        for _ in range(settings.critic_steps):
            with torch.autocast(device.type, torch.bfloat16, enabled=low_precision):
                loss, parts = losses(critic, *pairs(), settings.penalty)
                if taught is not None:
                    loss = loss + taught()
            critic_step(loss)
            for name, part in parts.items():
                log.setdefault(name, []).append(part.detach())
        with torch.autocast(device.type, torch.bfloat16, enabled=low_precision):
            fake, asked = generated(columns(size))
            judged, told = critic(fake)
            if given:
                loss = -as_its_class(judged, told, asked).mean()
            else:
                loss = F.cross_entropy(told.float(), asked) - judged.float().mean()
            if anchored is not None:
                loss = loss + anchored()
        generator_step(loss)
        log.setdefault("generator_loss", []).append(loss.detach())
        stepped(step + 1, steps)
    return {name: curve_of(torch.stack(values)) for name, values in log.items()}


def critic_loss(
    critic: Critic, real: Tensor, y: Tensor, fake: Tensor, asked: Tensor, penalty: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """What the critic minimises, and its parts."""
    judged, told = critic(torch.cat([real, fake]))
    judged_real, judged_fake = judged.float().split([len(real), len(fake)])
    wasserstein = judged_real.mean() - judged_fake.mean()
    told_real, told_fake = told.float().split([len(real), len(fake)])
    classes = F.cross_entropy(told_real, y) + F.cross_entropy(told_fake, asked)
    slopes = gradient_penalty(critic, real, fake)
    loss = classes - wasserstein + penalty * slopes
    return loss, {"wasserstein": wasserstein, "class_loss": classes, "gradient_penalty": slopes, "critic_loss": loss}


def conditional_critic_loss(
    critic: Critic, real: Tensor, y: Tensor, fake: Tensor, asked: Tensor, penalty: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """The same for a critic that is told the class instead of telling it; real and generated classes are alike."""
    judged, told = critic(torch.cat([real, fake]))
    judged_real, judged_fake = as_its_class(judged, told, torch.cat([y, asked])).split([len(real), len(fake)])
    wasserstein = judged_real.mean() - judged_fake.mean()
    slopes = gradient_penalty(critic, real, fake, y)
    loss = penalty * slopes - wasserstein
    return loss, {"wasserstein": wasserstein, "gradient_penalty": slopes, "critic_loss": loss}


def as_its_class(judged: Tensor, told: Tensor, columns: Tensor) -> Tensor:
    """How real each sample looks as one of its class: the projection critic of Miyato & Koyama (2018)."""
    return judged.float() + told.float().gather(1, columns[:, None])[:, 0]


def _stepper(
    weights: list[Tensor], settings: GeneratorSettings, edit: Callable[[], None] | None = None
) -> Callable[[Tensor], None]:
    optimizer = torch.optim.Adam(weights, settings.generator_rate, BETAS, fused=True)

    def step(loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward(inputs=weights)
        if edit is not None:
            edit()
        optimizer.step()

    return step


def curve_of(values: Tensor) -> list[float]:
    """Losses, in means over twentieths of the training; an error where one is no number."""
    curve = [float(part.mean()) for part in values.double().cpu().chunk(POINTS)]
    if not all(map(math.isfinite, curve)):
        raise EngramError("The generator's loss is no longer a finite number: lower its learning rate.")
    return curve
