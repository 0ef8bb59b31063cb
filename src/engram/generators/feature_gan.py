"""A conditional generator of features: three layers each for the generator and its critic."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.generators.wgan_gp import train
from engram.lesson import State
from engram.settings import GeneratorSettings

LEAK = 0.2


class FeatureGenerator(nn.Module):
    """[noise ; class] → width → width → features; never negative, as the features are."""

    def __init__(self, settings: GeneratorSettings, features: int) -> None:
        super().__init__()
        width = settings.generator_width
        self.enter = nn.Linear(settings.noise, width)
        self.classes = nn.Parameter(torch.empty(0, width))
        self.middle = nn.Linear(width, width)
        self.leave = nn.Linear(width, features)

    def forward(self, noise: Tensor, columns: Tensor) -> Tensor:
        first = F.leaky_relu(self.enter(noise) + self.classes[columns], LEAK)
        return self.leave(F.leaky_relu(self.middle(first), LEAK)).relu()

    def grow(self, classes: int) -> None:
        # as far apart as the noise spreads what it is added to, or the classes would be lost in it at first
        self.classes = _grown(self.classes, classes, 0.5)


class FeatureCritic(nn.Module):
    """features → width → width → how real they look, and a score for each class."""

    def __init__(self, settings: GeneratorSettings, features: int) -> None:
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

    def slope(self, x: Tensor) -> Tensor:
        """Written out: the network is linear wherever no unit changes its sign, and this costs half of autograd's."""
        with torch.no_grad():
            first = self.enter(x)
            by_first = _bend(first)
            by_second = _bend(self.middle(first * by_first))
        return ((self.judge.weight * by_second) @ self.middle.weight * by_first) @ self.enter.weight

    def grow(self, classes: int) -> None:
        self.classes = _grown(self.classes, classes, self.classes.shape[1] ** -0.5)


class FeatureGAN:
    """Learns the features of class after class; those of earlier classes it learns from its former self."""

    def __init__(self, settings: GeneratorSettings, features: int, device: torch.device, low_precision: bool) -> None:
        self.settings = settings
        self.device = device
        self.low_precision = low_precision
        self.generator = FeatureGenerator(settings, features).to(device)
        self.critic = FeatureCritic(settings, features).to(device)
        self.seen: list[int] = []
        self.scale = 1.0
        """features are divided by it: set by the first ones, fixed from then on"""

    def learn(
        self, features: Tensor, columns: Tensor, width: int, stepped: Callable[[int, int], None]
    ) -> dict[str, list[float]]:
        """Add the classes of these features, out of `width` in all; returns the curves of the training."""
        if not self.seen:
            self.scale = float(features.double().square().mean().sqrt()) or 1.0
        former, old = copy.deepcopy(self.generator), self.seen
        self.grow(width)
        self.seen = sorted({*old, *columns.unique().tolist()})
        seen = torch.tensor(self.seen, device=self.device)

        def any_class(size: int) -> Tensor:
            return seen[torch.randint(len(seen), (size,), device=self.device)]

        def remembered(asked: Tensor) -> Tensor:
            return self._make(former, asked)

        real = Mixture(features / self.scale, columns, width, any_class, old, remembered)
        networks = self.generator, self.critic
        return train(*networks, real, any_class, self.settings, self.device, self.low_precision, stepped)

    def sample(self, columns: Tensor, random: torch.Generator) -> Tensor:
        """Generated features of these classes, all of which have been learnt."""
        return self._make(self.generator, columns, random) * self.scale

    def _make(self, generator: FeatureGenerator, columns: Tensor, random: torch.Generator | None = None) -> Tensor:
        noise = torch.randn(len(columns), self.settings.noise, generator=random).to(self.device)
        with torch.no_grad(), torch.autocast(self.device.type, torch.bfloat16, enabled=self.low_precision):
            return generator(noise, columns).float()

    def grow(self, width: int) -> None:
        for module in (self.generator, self.critic):
            module.grow(width)

    def state(self) -> State:
        state = State(meta={"seen": self.seen, "scale": self.scale, "width": len(self.critic.classes)})
        state.put("generator", self.generator.state_dict())
        state.put("critic", self.critic.state_dict())
        return state

    def restore(self, state: State) -> None:
        self.grow(state.meta["width"])
        self.seen, self.scale = list(state.meta["seen"]), state.meta["scale"]
        self.generator.load_state_dict(state.take("generator"))
        self.critic.load_state_dict(state.take("critic"))


class Mixture:
    """Draws what is to be imitated: new classes from their features, old ones as they are remembered.

    Every class comes equally often, whatever the number of its features, as it does among the generated samples; of a
    class that is both new and old, half is remembered.
    """

    def __init__(
        self,
        features: Tensor,
        columns: Tensor,
        width: int,
        any_class: Callable[[int], Tensor],
        old: Sequence[int],
        remembered: Callable[[Tensor], Tensor],
    ) -> None:
        self.features = features[columns.argsort()]
        self.counts = columns.bincount(minlength=width)
        self.starts = self.counts.cumsum(0) - self.counts
        self.any_class = any_class
        self.remembered = remembered if old else None
        self.old = old
        self.is_old = torch.zeros(width, dtype=torch.bool, device=features.device)
        self.is_old[list(old)] = True

    def __call__(self, size: int) -> tuple[Tensor, Tensor]:
        asked = self.any_class(size)
        place, coin = torch.rand(2, size, device=asked.device)
        rows = self.starts[asked] + (place * self.counts[asked]).long().clamp_max(self.counts[asked] - 1)
        fresh = self.features[rows.clamp(0, len(self.features) - 1)]
        if self.remembered is None:
            return fresh, asked
        from_memory = (self.counts[asked] == 0) | (self.is_old[asked] & (coin < 0.5))
        memory = self.remembered(torch.where(from_memory, asked, self.old[0]))  # it knows old classes only
        return torch.where(from_memory[:, None], memory, fresh), asked


def _grown(old: nn.Parameter, rows: int, spread: float) -> nn.Parameter:
    fresh = spread * torch.randn(rows - len(old), old.shape[1])
    return nn.Parameter(torch.cat([old.detach(), fresh.to(old)]))


def _bend(x: Tensor) -> Tensor:
    """The slope of the leaky ReLU at x."""
    return torch.where(x > 0, 1.0, LEAK).to(x.dtype)
