"""Generative input replay: the network goes on seeing generated old images (MeRGAN) or texts (SeqGAN, as in DGR).

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
from engram.generators.text_gan import TextGAN
from engram.ingredients.base import Batch, Host, Ingredient, Step
from engram.ingredients.teacher import Teacher, any_of, softened_loss
from engram.lesson import Lesson, State
from engram.networks.text_cnn import TextNetwork
from engram.randomness import generator
from engram.settings import InputReplaySettings
from engram.text.encoder import TextEncoder


class InputReplay(Ingredient):
    def __init__(self, settings: InputReplaySettings) -> None:
        self.settings = settings
        self.gan: ImageGAN | TextGAN | None = None
        self.last_task: dict[str, Any] = {}

    def attach(self, host: Host) -> None:
        self.host = host
        self.teacher = Teacher(host)

    def begin_task(self, lesson: Lesson) -> None:
        if lesson.x.ndim != 4 and not isinstance(self.host.network, TextNetwork):
            raise InputError(
                "Input replay generates images or texts, and these are none: choose a recipe without 'gir'."
            )
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
        if isinstance(self.gan, TextGAN):
            return self.gan.sample(columns, random)
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

    def _make_gan(self, shape: Any) -> ImageGAN | TextGAN:
        host = self.host
        if isinstance(host.network, TextNetwork):
            words = self._vocabulary(host.network.texts)
            self.gan = TextGAN(self.settings, words, host.device, host.low_precision)
        else:
            channels, height, width = shape
            self.gan = ImageGAN(self.settings, (channels, height, width), host.device, host.low_precision)
        return self.gan

    def _vocabulary(self, texts: TextEncoder) -> int:
        """How many words there are to write with: the known ones, or else the buckets."""
        words, most = len(texts.words) or texts.settings.buckets, self.settings.text_vocabulary
        if words > most:
            named = f"{texts.source} has {words} words" if texts.words else f"there are {words} buckets (text.buckets)"
            raise InputError(
                f"A generator of texts with more than {most} words would learn nothing, and {named}: "
                "raise replay.text_vocabulary, or choose a recipe without 'gir'."
            )
        return words

    def _replayed(self, step: Step) -> Tensor:
        assert self.gan is not None
        random = generator(self.host.seed, step.task, "input replay", step.epoch, step.index)
        columns = upload(any_of(self.teacher.seen, self.settings.batch_size, random), self.host.device)
        made = self.gan.sample(columns, random)
        return made.contiguous(memory_format=torch.channels_last) if made.ndim == 4 else made
