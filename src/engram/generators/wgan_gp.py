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

    def slope(self, x: Tensor) -> Tensor:
        """The gradient of how real x looks with respect to x, which can be differentiated by the weights."""
        ...

    def parameters(self) -> Any: ...


def gradient_penalty(critic: Critic, real: Tensor, fake: Tensor) -> Tensor:
    """How far the critic's slope is from 1, squared, at random points between real and generated samples."""
    shape = (len(real), *[1] * (real.ndim - 1))
    share = torch.rand(shape, device=real.device)
    slope = critic.slope(share * real + (1 - share) * fake)
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
) -> dict[str, list[float]]:
    """Train both; `real` draws what is to be imitated, `columns` the classes that are asked for, alike in number.

    As many real as generated samples enter the critic's loss, so that it cannot fall without bound by adding a
    constant to every judgement. Returns the losses, in means over twentieths of the training.
    """
    critic_step, generator_step = (_stepper(list(net.parameters()), settings) for net in (critic, generator))
    size, steps = settings.generator_batch, settings.generator_steps
    log: dict[str, list[Tensor]] = {}

    def generated() -> tuple[Tensor, Tensor]:
        asked = columns(size)
        return generator(torch.randn(size, settings.noise, device=device), asked).float(), asked

    for step in range(steps):
        for _ in range(settings.critic_steps):
            with torch.autocast(device.type, torch.bfloat16, enabled=low_precision):
                with torch.no_grad():
                    fake, asked = generated()
                loss, parts = critic_loss(critic, *real(size), fake, asked, settings.penalty)
            critic_step(loss)
            for name, part in parts.items():
                log.setdefault(name, []).append(part.detach())
        with torch.autocast(device.type, torch.bfloat16, enabled=low_precision):
            fake, asked = generated()
            judged, told = critic(fake)
            loss = F.cross_entropy(told.float(), asked) - judged.float().mean()
        generator_step(loss)
        log.setdefault("generator_loss", []).append(loss.detach())
        stepped(step + 1, steps)
    return {name: _curve(torch.stack(values)) for name, values in log.items()}


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


def _stepper(weights: list[Tensor], settings: GeneratorSettings) -> Callable[[Tensor], None]:
    optimizer = torch.optim.Adam(weights, settings.generator_rate, BETAS, fused=True)

    def step(loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward(inputs=weights)
        optimizer.step()

    return step


def _curve(values: Tensor) -> list[float]:
    curve = [float(part.mean()) for part in values.double().cpu().chunk(POINTS)]
    if not all(map(math.isfinite, curve)):
        raise EngramError("The generator's loss is no longer a finite number: lower its learning rate.")
    return curve
