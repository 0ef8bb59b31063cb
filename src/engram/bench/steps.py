"""Training steps on one batch, ready to be timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engram.ingredients.base import Ingredient, Step
from engram.lesson import Lesson
from engram.methods.gradient import GradientMethod
from engram.networks import Network, build_network
from engram.networks.text_cnn import build_text_network
from engram.recipes import recipe
from engram.settings import NetworkSettings, TextSettings, TrainingSettings
from engram.text.encoder import TextEncoder

CLASSES = 10
BATCH = 64
DIMENSION = 200
"""of a character's vector"""


@dataclass(frozen=True)
class Kind:
    """A network and its inputs."""

    shape: tuple[int, ...]
    settings: NetworkSettings

    def network(self) -> Network:
        torch.manual_seed(0)
        return build_network(self.shape, CLASSES, self.settings)

    def batch(self, rows: int = BATCH) -> tuple[Tensor, Tensor]:
        random = torch.Generator().manual_seed(0)
        y = torch.randint(CLASSES, (rows,), generator=random)
        if len(self.shape) == 1:
            return torch.randn(rows, *self.shape, generator=random), y
        return torch.randint(256, (rows, *self.shape), generator=random, dtype=torch.uint8), y


def paper_cnn(quick: bool) -> Kind:
    return Kind((3, 16, 16), NetworkSettings(hidden=100)) if quick else Kind((3, 32, 32), NetworkSettings())


def doubled_cnn(quick: bool) -> Kind:
    small = NetworkSettings(filters=(8, 16, 32), width=2, hidden=100)
    return Kind((3, 16, 16), small) if quick else Kind((3, 32, 32), NetworkSettings(width=2))


def wide_mlp(quick: bool) -> Kind:
    return Kind((1000,), NetworkSettings(hidden=100 if quick else 1000))


@dataclass(frozen=True)
class TextKind(Kind):
    """Texts of so many characters, each with a vector of 200 numbers."""

    filters: int = 1024

    def network(self) -> Network:
        torch.manual_seed(0)
        settings = TextSettings(tokens="characters", length=self.shape[0], filters=self.filters, buckets=1000)
        encoder = TextEncoder(settings, [], torch.zeros(0, DIMENSION), "", torch.device("cpu"))
        return build_text_network(encoder, CLASSES, self.settings)

    def batch(self, rows: int = BATCH) -> tuple[Tensor, Tensor]:
        random = torch.Generator().manual_seed(0)
        y = torch.randint(CLASSES, (rows,), generator=random)
        return torch.randint(1, 1000, (rows, *self.shape), generator=random), y


def text_cnn(quick: bool) -> Kind:
    return TextKind((20,), NetworkSettings(hidden=100), 50) if quick else TextKind((20,), NetworkSettings())


class Stepper:
    """A method in the middle of a task; calling it trains on its one batch."""

    def __init__(self, kind: Kind, ingredients: Sequence[Ingredient] | str, low_precision: bool) -> None:
        if isinstance(ingredients, str):
            ingredients = [settings.start() for settings in recipe(ingredients).ingredients.values()]
        where = torch.device("cpu")
        self.method = GradientMethod(kind.network(), ingredients, TrainingSettings(), 0, where, low_precision)
        x, self.y = kind.batch()
        self.optimizer = self.method.begin(Lesson(0, x, self.y, CLASSES)).optimizer
        self.method.network.train()
        self.x = self.method.network.prepare(x)

    def __call__(self) -> None:
        self.method.train_step(self.optimizer, self.x, self.y, Step(0, 0, 0, 0.5))
