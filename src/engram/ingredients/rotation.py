"""The self-supervised task: each batch is turned by 0 to 3 quarters, and a second head tells by how many."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import InputError
from engram.ingredients.base import Batch, Host, Ingredient, Step
from engram.lesson import Lesson
from engram.randomness import generator
from engram.settings import RotationSettings

TURNS = 4


def turned(images: Tensor, quarters: int) -> Tensor:
    """Square images after so many counter-clockwise quarter turns, in the memory layout they had."""
    last = images.is_contiguous(memory_format=torch.channels_last)
    layout = torch.channels_last if last else torch.contiguous_format
    return torch.rot90(images, quarters, (2, 3)).contiguous(memory_format=layout)


class Rotation(Ingredient):
    """The class loss sees the turned images too; so at prediction the features are the mean over all turns."""

    shares = True

    def __init__(self, settings: RotationSettings) -> None:
        self.settings = settings
        self.quarters = 0

    def attach(self, host: Host) -> None:
        self.host = host
        self.head = nn.Linear(host.network.head.in_features, TURNS, bias=False)
        nn.init.xavier_normal_(self.head.weight)
        self.head.to(host.device)

    def begin_task(self, lesson: Lesson) -> None:
        shape = tuple(lesson.x.shape[1:])
        if len(shape) != 3:
            raise InputError("The rotation task turns images, and these are none: choose a recipe without 'ssl'.")
        if shape[1] != shape[2]:
            raise InputError(
                f"The rotation task needs square images, not {shape[1]} x {shape[2]} pixels: "
                "crop or pad them, or choose a recipe without 'ssl'."
            )

    def batch(self, x: Tensor, y: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        random = generator(self.host.seed, step.task, "rotation", step.epoch, step.index)
        self.quarters = torch.randint(TURNS, (1,), generator=random).tolist()[0]
        return turned(x, self.quarters), y

    def loss(self, loss: Tensor, batch: Batch, step: Step) -> Tensor:
        answers = self.head(batch.features.float())
        asked = torch.full((len(answers),), self.quarters, device=answers.device)
        return loss + self.settings.weight * F.cross_entropy(answers, asked)

    def features(self, extract: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        return torch.stack([extract(turned(x, quarters)).float() for quarters in range(TURNS)]).mean(0)

    def modules(self) -> dict[str, nn.Module]:
        return {"head": self.head}
