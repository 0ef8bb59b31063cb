"""What every conditional generator here does: it learns class after class, earlier ones from its former self."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from engram.devices import upload
from engram.generators.wgan_gp import train
from engram.lesson import State
from engram.settings import ReplaySettings

LEAK = 0.2


class Growing(nn.Module, ABC):
    """A generator or a critic that has a row of its own for each class."""

    classes: nn.Parameter

    @abstractmethod
    def grow(self, classes: int) -> None: ...


class ConditionalGAN(ABC):
    """A generator and its critic; they see what is generated shifted and divided, as the first samples ask for."""

    def __init__(
        self,
        settings: ReplaySettings,
        generator: Growing,
        critic: Growing,
        device: torch.device,
        low_precision: bool,
    ) -> None:
        self.settings = settings
        self.device = device
        self.low_precision = low_precision
        self.generator = generator.to(device)
        self.critic = critic.to(device)
        self.seen: list[int] = []
        self.shift, self.scale = 0.0, 1.0
        """samples less the shift are divided by the scale: set by the first ones, fixed from then on"""

    @abstractmethod
    def standardise(self, samples: Tensor) -> None:
        """Set shift and scale by the first samples."""

    def learn(
        self, samples: Tensor, columns: Tensor, width: int, stepped: Callable[[int, int], None]
    ) -> dict[str, list[float]]:
        """Add the classes of these samples, out of `width` in all; returns the curves of the training."""
        if not self.seen:
            self.standardise(samples)
        former, old = copy.deepcopy(self.generator), self.seen
        self.grow(width)
        self.seen = sorted({*old, *columns.unique().tolist()})
        seen = torch.tensor(self.seen, device=self.device)

        def any_class(size: int) -> Tensor:
            return seen[torch.randint(len(seen), (size,), device=self.device)]

        def remembered(asked: Tensor) -> Tensor:
            return self._make(former, asked)

        real = Mixture(self._inwards(samples), columns, width, any_class, old, remembered)
        anchored = self._alignment(former, old) if self.settings.alignment and old else None
        networks: tuple[Any, Any] = self.generator, self.critic
        where = self.settings, self.device, self.low_precision
        given = self.settings.critic == "conditional"
        return train(*networks, real, any_class, *where, stepped, anchored, given=given)

    def sample(self, columns: Tensor, random: torch.Generator) -> Tensor:
        """Generated samples of these classes, all of which have been learnt."""
        return self._outwards(self._make(self.generator, columns, random))

    def grow(self, width: int) -> None:
        for module in (self.generator, self.critic):
            module.grow(width)

    def state(self) -> State:
        numbers = {"seen": self.seen, "shift": self.shift, "scale": self.scale}
        state = State(meta=numbers | {"width": len(self.critic.classes)})
        state.put("generator", self.generator.state_dict())
        state.put("critic", self.critic.state_dict())
        return state

    def restore(self, state: State) -> None:
        self.grow(state.meta["width"])
        self.seen, self.shift, self.scale = list(state.meta["seen"]), state.meta["shift"], state.meta["scale"]
        self.generator.load_state_dict(state.take("generator"))
        self.critic.load_state_dict(state.take("critic"))

    def _inwards(self, samples: Tensor) -> Tensor:
        return (samples - self.shift) / self.scale

    def _outwards(self, made: Tensor) -> Tensor:
        return made * self.scale + self.shift

    def _make(self, generator: nn.Module, columns: Tensor, random: torch.Generator | None = None) -> Tensor:
        noise = upload(torch.randn(len(columns), self.settings.noise, generator=random), self.device)
        with torch.no_grad(), torch.autocast(self.device.type, torch.bfloat16, enabled=self.low_precision):
            return generator(noise, columns).float()

    def _alignment(self, former: nn.Module, old: Sequence[int]) -> Callable[[], Tensor]:
        """How far old classes' samples are from what the former generator makes of the same noise."""
        columns = torch.tensor(list(old), device=self.device)
        new = len(self.seen) - len(old)
        weight = self.settings.alignment * len(old) / max(1, new)

        def distance() -> Tensor:
            asked = columns[torch.randint(len(columns), (self.settings.generator_batch,), device=self.device)]
            noise = torch.randn(len(asked), self.settings.noise, device=self.device)
            with torch.no_grad():
                wanted = former(noise, asked).float()
            return weight * (self.generator(noise, asked).float() - wanted).square().sum()

        return distance


class Mixture:
    """Draws what is to be imitated: new classes from their samples, old ones as they are remembered.

    Every class comes equally often, whatever the number of its samples, as it does among the generated ones; of a
    class that is both new and old, half is remembered.
    """

    def __init__(
        self,
        samples: Tensor,
        columns: Tensor,
        width: int,
        any_class: Callable[[int], Tensor],
        old: Sequence[int],
        remembered: Callable[[Tensor], Tensor],
    ) -> None:
        self.samples = samples[columns.argsort()]
        self.counts = columns.bincount(minlength=width)
        self.starts = self.counts.cumsum(0) - self.counts
        self.any_class = any_class
        self.remembered = remembered if old else None
        self.old = old
        self.is_old = torch.zeros(width, dtype=torch.bool, device=samples.device)
        self.is_old[list(old)] = True

    def __call__(self, size: int) -> tuple[Tensor, Tensor]:
        asked = self.any_class(size)
        place, coin = torch.rand(2, size, device=asked.device)
        rows = self.starts[asked] + (place * self.counts[asked]).long().clamp_max(self.counts[asked] - 1)
        fresh = self.samples[rows.clamp(0, len(self.samples) - 1)]
        if self.remembered is None:
            return fresh, asked
        from_memory = (self.counts[asked] == 0) | (self.is_old[asked] & (coin < 0.5))
        memory = self.remembered(torch.where(from_memory, asked, self.old[0]))  # it knows old classes only
        return torch.where(from_memory.view(-1, *[1] * (fresh.ndim - 1)), memory, fresh), asked


def grown(old: nn.Parameter, rows: int, spread: float) -> nn.Parameter:
    """With as many rows; the new ones are random."""
    fresh = spread * torch.randn(rows - len(old), old.shape[1])
    return nn.Parameter(torch.cat([old.detach(), fresh.to(old)]))


def bend(x: Tensor) -> Tensor:
    """The slope of the leaky ReLU at x."""
    return torch.where(x > 0, 1.0, LEAK).to(x.dtype)
