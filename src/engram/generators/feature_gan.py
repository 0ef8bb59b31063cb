"""A conditional generator of features: three layers each for the generator and its critic."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.generators.conditional import LEAK, ConditionalGAN, Growing, bend, grown
from engram.settings import ReplaySettings


class FeatureGenerator(Growing):
    """[noise ; class] → width → width → features; never negative where the features are not."""

    def __init__(self, settings: ReplaySettings, features: int, signed: bool = False) -> None:
        super().__init__()
        self.signed = signed
        width = settings.generator_width
        self.enter = nn.Linear(settings.noise, width)
        self.classes = nn.Parameter(torch.empty(0, width))
        self.middle = nn.Linear(width, width)
        self.leave = nn.Linear(width, features)

    def forward(self, noise: Tensor, columns: Tensor) -> Tensor:
        first = F.leaky_relu(self.enter(noise) + self.classes[columns], LEAK)
        made = self.leave(F.leaky_relu(self.middle(first), LEAK))
        return made if self.signed else made.relu()

    def grow(self, classes: int) -> None:
        # as far apart as the noise spreads what it is added to, or the classes would be lost in it at first
        self.classes = grown(self.classes, classes, 0.5)


class FeatureCritic(Growing):
    """features → width → width → how real they look, and a score for each class."""

    def __init__(self, settings: ReplaySettings, features: int) -> None:
        super().__init__()
        width = settings.generator_width
        self.enter = nn.Linear(features, width)
        self.middle = nn.Linear(width, width)
        self.judge = nn.Linear(width, 1)
        self.classes = nn.Parameter(torch.empty(0, width))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = F.leaky_relu(self.enter(x), LEAK)
        second = F.leaky_relu(self.middle(first), LEAK)
        return self.judge(second)[:, 0], F.linear(second, self.classes)

    def slope(self, x: Tensor, columns: Tensor | None = None) -> Tensor:
        """Written out: the network is linear wherever no unit changes its sign, and this costs half of autograd's."""
        with torch.no_grad():
            first = self.enter(x)
            by_first = bend(first)
            by_second = bend(self.middle(first * by_first))
        judge = self.judge.weight if columns is None else self.judge.weight + self.classes[columns]
        return ((judge * by_second) @ self.middle.weight * by_first) @ self.enter.weight

    def grow(self, classes: int) -> None:
        self.classes = grown(self.classes, classes, self.classes.shape[1] ** -0.5)


class FeatureGAN(ConditionalGAN):
    """Learns the features of class after class; those of earlier classes it learns from its former self."""

    def __init__(
        self,
        settings: ReplaySettings,
        features: int,
        device: torch.device,
        low_precision: bool,
        signed: bool = False,
    ) -> None:
        networks = FeatureGenerator(settings, features, signed), FeatureCritic(settings, features)
        super().__init__(settings, *networks, device, low_precision)

    def standardise(self, samples: Tensor) -> None:
        self.scale = float(samples.double().square().mean().sqrt()) or 1.0
