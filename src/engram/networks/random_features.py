"""Features of tables: the columns themselves, and random waves over them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from engram.lesson import State
from engram.networks.base import TABLE_LIMIT
from engram.settings import AnalyticSettings

WIDTHS = {"small": 512, "medium": 1024, "large": 4096}
PER_COLUMN = 64
LEAST = 256


class RandomFeatures:
    """Random Fourier features of standardised columns, which stand for a Gaussian kernel (Rahimi & Recht 2007)."""

    def __init__(self, shift: Tensor, scale: Tensor, waves: Tensor, phases: Tensor) -> None:
        self.shift, self.scale, self.waves, self.phases = shift, scale, waves, phases

    def __call__(self, x: Tensor) -> Tensor:
        columns = ((x.double() - self.shift) * self.scale).clamp(-TABLE_LIMIT, TABLE_LIMIT)
        return torch.cat([columns, (columns @ self.waves + self.phases).cos()], 1)

    def plain(self) -> RandomFeatures:
        """It is in full precision anyway."""
        return self

    @classmethod
    def fit(cls, x: Tensor, settings: AnalyticSettings, random: torch.Generator) -> RandomFeatures:
        """From rows of the first task, whose typical distance is the kernel's width."""
        rows = x.double()
        columns = rows.shape[1]
        shift, spread = rows.mean(0), rows.std(0, correction=0)
        varies = spread > 1e-6 * shift.abs().clamp_min(1e-12)
        scale = torch.where(varies, 1 / spread, 1.0)
        width = settings.width or min(WIDTHS[settings.size], max(LEAST, PER_COLUMN * columns))
        waves = torch.randn(columns, width, generator=random, dtype=torch.float64)
        phases = torch.rand(width, generator=random, dtype=torch.float64) * (2 * math.pi)
        distance = _typical_distance(((rows - shift) * scale).clamp(-TABLE_LIMIT, TABLE_LIMIT))
        return cls(shift, scale, waves.to(x.device) / distance, phases.to(x.device))

    def state(self) -> State:
        return State(dict(vars(self)))

    @classmethod
    def from_state(cls, state: State) -> RandomFeatures:
        return cls(**{name: tensor.clone() for name, tensor in state.tensors.items()})


def _typical_distance(rows: Tensor) -> float:
    """The median distance between two rows; neighbours in a sample are strangers."""
    if len(rows) < 2:
        return math.sqrt(rows.shape[1])
    distances = (rows[1:] - rows[:-1]).norm(dim=1)
    return float(distances.median()) or math.sqrt(rows.shape[1])
