"""DGM: a generator that cannot forget, and a discriminator whose class head is the classifier.

The generator learns the new classes alone, with masks on its weights; old classes' images, which the discriminator
goes on learning to classify, are made by the weights that their tasks own.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.devices import upload
from engram.generators.image_gan import ImageCritic
from engram.generators.masked_gan import MaskedGenerator
from engram.generators.wgan_gp import train
from engram.ingredients.teacher import any_of, old_for_each_new
from engram.lesson import Lesson, State, Watch
from engram.methods.gradient import PREDICT_ROWS
from engram.randomness import isolated, seed_for
from engram.settings import DGMSettings


class DGMMethod:
    def __init__(
        self,
        settings: DGMSettings,
        shape: tuple[int, int, int],
        seed: int,
        device: torch.device,
        low_precision: bool,
    ) -> None:
        self.settings = settings
        self.seed, self.device, self.low_precision = seed, device, low_precision
        with isolated(device):
            torch.manual_seed(seed_for(seed, "dgm"))
            self.generator = MaskedGenerator(settings, shape).to(device)
            self.generator.reserved = [reserved.to(device) for reserved in self.generator.reserved]
            self.discriminator = ImageCritic(settings, shape).to(device)
        self.shift, self.scale = 0.0, 1.0
        """the first task's range of values becomes −1 to 1"""
        self.last_task: dict[str, Any] = {}

    @property
    def seen(self) -> list[int]:
        return sorted({column for part in self.generator.parts for column in part.columns})

    def learn(self, lesson: Lesson, watch: Watch) -> None:
        """A kill costs the task: there is no checkpoint within one."""
        if not self.generator.parts:
            low, high = float(lesson.x.min()), float(lesson.x.max())
            self.shift, self.scale = (low + high) / 2, (high - low) / 2 or 1.0
        with isolated(self.device):
            torch.manual_seed(seed_for(self.seed, lesson.index, "dgm"))
            self.discriminator.grow(lesson.width)
            curves = self._train(lesson, watch)
        growth = {"weights": self.generator.count(), "most": self.generator.most(), "at_first": self.generator.initial}
        self.last_task = {"generator": curves, "growth": growth}

    def _train(self, lesson: Lesson, watch: Watch) -> dict[str, list[float]]:
        generator, old = self.generator, self.seen
        # of a class that comes again the newest part answers; the masks are for what is new
        classes = lesson.y.unique()
        generator.begin_task(classes.tolist())
        factor = old_for_each_new(old, lesson)

        def columns(size: int) -> Tensor:
            return classes[torch.randint(len(classes), (size,), device=self.device)]

        def real(size: int) -> tuple[Tensor, Tensor]:
            rows = torch.randint(len(lesson.y), (size,), device=self.device)
            return self._inwards(lesson.x[rows]), lesson.y[rows]

        def replayed() -> Tensor:
            asked = any_of(old, self.settings.generator_batch, torch.default_generator)
            noise = torch.randn(len(asked), self.settings.noise, device=self.device)
            with torch.no_grad():
                images = generator.remembered(noise, asked)
            return factor * F.cross_entropy(self.discriminator(images)[1].float(), upload(asked, self.device))

        def stepped(done: int, total: int) -> None:
            generator.set_progress(done / total)
            watch.worked("generator", done, total)

        curves = train(
            generator,
            self.discriminator,
            real,
            columns,
            self.settings,
            self.device,
            self.low_precision,
            stepped,
            anchored=lambda: self.settings.mask_weight * generator.claimed(),
            taught=replayed if old else None,
            edit=generator.edit_gradients,
        )
        generator.end_task()
        return curves

    def features(self, x: Tensor) -> Tensor:
        return self._in_parts(self.discriminator.features, x)

    def extract(self, x: Tensor) -> Tensor:
        return self.features(x)

    def scores(self, x: Tensor) -> Tensor:
        return self._in_parts(lambda part: self.discriminator(part)[1], x)

    def generate(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        return None  # it generates images, not features

    def images(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        noise = upload(torch.randn(len(columns), self.settings.noise, generator=random), self.device)
        with torch.no_grad():
            return (self.generator.remembered(noise, columns) + 1) / 2

    def encoder(self) -> nn.Module | None:
        return None

    def exportable(self) -> nn.Module | None:
        return None

    def traces(self) -> dict[str, float]:
        return {}

    def measures(self) -> dict[str, Any]:
        return self.last_task

    def state(self) -> State:
        own = self.generator.state()
        state = State(meta={"generator": own.meta, "shift": self.shift, "scale": self.scale})
        state.put("generator", own.tensors)
        state.put("discriminator", self.discriminator.state_dict())
        return state

    def restore(self, state: State) -> None:
        self.generator.restore(State(state.take("generator"), state.meta["generator"]))
        self.shift, self.scale = state.meta["shift"], state.meta["scale"]
        weights = state.take("discriminator")
        self.discriminator.grow(len(weights["classes"]))
        self.discriminator.load_state_dict(weights)

    def _inwards(self, x: Tensor) -> Tensor:
        return (x.float() - self.shift) / self.scale

    def _in_parts(self, function: Any, x: Tensor) -> Tensor:
        enabled = self.low_precision
        with torch.no_grad(), torch.autocast(self.device.type, torch.bfloat16, enabled=enabled):
            return torch.cat([function(self._inwards(part)).float() for part in x.split(PREDICT_ROWS)])
