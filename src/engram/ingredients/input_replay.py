"""Generative input replay (MeRGAN, joint training with replay): the network goes on seeing generated old images.

They are labelled by the old network, softly, and pass through the whole network beside each batch. An OWM in the same
recipe projects their gradient with the rest, and takes their mean for a part of the batch's.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from engram.devices import upload
from engram.errors import InputError
from engram.generators.image_gan import ImageGAN
from engram.ingredients.base import Batch, Host, Ingredient, Step
from engram.ingredients.teacher import Teacher, any_of, softened_loss
from engram.lesson import Lesson, State
from engram.randomness import generator
from engram.settings import InputReplaySettings


class InputReplay(Ingredient):
    def __init__(self, settings: InputReplaySettings) -> None:
        self.settings = settings
        self.gan: ImageGAN | None = None
        self.last_task: dict[str, Any] = {}

    def attach(self, host: Host) -> None:
        self.host = host
        self.teacher = Teacher(host)

    def begin_task(self, lesson: Lesson) -> None:
        if lesson.x.ndim != 4:
            raise InputError("Input replay generates images, and these are tables: choose a recipe without 'gir'.")
        if self.gan is None:
            self._make_gan(lesson.x.shape[1:])

    def loss(self, loss: Tensor, batch: Batch, step: Step) -> Tensor:
        if not self.teacher.seen:
            return loss
        x = self._replayed(step)
        _, taught = self.teacher(x)
        _, scores = self.host.forward(x)
        return loss + self.settings.weight * softened_loss(scores, taught, self.settings)

    def end_task(self, lesson: Lesson) -> None:
        assert self.gan is not None
        images = self.host.network.prepare(lesson.x)
        stepped = partial(self.host.watch.worked, "generator")
        self.last_task = {"generator": self.gan.learn(images, lesson.y, lesson.width, stepped)}
        self.teacher.take_over(lesson)

    def images(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        return None if self.gan is None else self.gan.picture(columns, random)

    def measures(self) -> dict[str, Any]:
        return self.last_task

    def state(self) -> State:
        state = self.teacher.state()
        if self.gan is not None:
            own = self.gan.state()
            state.put("gan", own.tensors)
            state.meta |= {"gan": own.meta, "shape": list(self.gan.shape)}
        return state

    def restore(self, state: State) -> None:
        self.teacher.restore(state)
        self.gan = None
        if "gan" in state.meta:
            self._make_gan(state.meta["shape"]).restore(State(state.take("gan"), state.meta["gan"]))

    def _make_gan(self, shape: Any) -> ImageGAN:
        channels, height, width = shape
        self.gan = ImageGAN(self.settings, (channels, height, width), self.host.device, self.host.low_precision)
        return self.gan

    def _replayed(self, step: Step) -> Tensor:
        assert self.gan is not None
        random = generator(self.host.seed, step.task, "input replay", step.epoch, step.index)
        columns = upload(any_of(self.teacher.seen, self.settings.batch_size, random), self.host.device)
        return self.gan.sample(columns, random).contiguous(memory_format=torch.channels_last)
