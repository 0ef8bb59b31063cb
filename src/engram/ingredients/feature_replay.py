"""Generative feature replay: a generator learns each task's features, and the head goes on seeing them later.

Its gradient on the head is added in `edit_gradients`: listed before OWM it is projected with the rest, after OWM it
is not. Nothing but the head ever sees a generated feature. With `share` "by_classes" the loss so far is scaled to its
part of the average, so ingredients that add to the loss, such as feature distillation, come after this one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.devices import upload
from engram.generators.feature_gan import FeatureGAN
from engram.ingredients.base import Batch, Host, Ingredient, Step
from engram.ingredients.teacher import any_of, old_for_each_new, softened_loss
from engram.lesson import Lesson, State
from engram.randomness import generator
from engram.settings import FeatureReplaySettings

CHECKED = 200
"""generated features a class that the head labels after each task, to see whether they are what was asked for"""


class FeatureReplay(Ingredient):
    only_adds = True
    shares = True
    """generated features are the same in every process, and so is their gradient"""

    def __init__(self, settings: FeatureReplaySettings) -> None:
        self.settings = settings
        self.old_share = 0.0
        """of the whole loss that replay is, where real data and replay are averaged"""
        self.last_task: dict[str, Any] = {}

    def attach(self, host: Host) -> None:
        self.host = host
        features, signed = host.network.head.in_features, host.network.own
        self.gan = FeatureGAN(self.settings, features, host.device, host.low_precision, signed)
        self.old_head = torch.empty(0, features, device=host.device)

    def begin_task(self, lesson: Lesson) -> None:
        if self.settings.share == "by_classes":
            factor = old_for_each_new(self.gan.seen, lesson)
            self.old_share = factor / (factor + 1)

    def loss(self, loss: Tensor, batch: Batch, step: Step) -> Tensor:
        return loss * (1 - self.old_share) if self.old_share else loss

    def edit_gradients(self, step: Step) -> None:
        if not self.gan.seen:
            return
        random = generator(self.host.seed, step.task, "replay", step.epoch, step.index)
        columns = upload(any_of(self.gan.seen, self.settings.batch_size, random), self.host.device)
        weight = self.host.network.head.weight
        loss = self.replay_loss(weight, self.gan.sample(columns, random), columns)
        (gradient,) = torch.autograd.grad((self.old_share or 1.0) * self.settings.weight * loss, weight)
        weight.grad = gradient if weight.grad is None else weight.grad + gradient

    def replay_loss(self, weight: Tensor, features: Tensor, columns: Tensor) -> Tensor:
        if self.settings.labels == "hard":
            return F.cross_entropy(features @ weight.T, columns)
        return softened_loss(features @ weight.T, features @ self.old_head.T, self.settings)

    def end_task(self, lesson: Lesson) -> None:
        features = self.host.extract(lesson.x)
        curves = self.gan.learn(features, lesson.y, lesson.width, partial(self.host.watch.worked, "generator"))
        self.old_head = self.host.network.head.weight.detach().clone()
        self.last_task = {"generator": curves | {"as_asked": self._as_asked(lesson.index)}}

    def measures(self) -> dict[str, Any]:
        return self.last_task

    def generate(self, columns: Tensor, random: torch.Generator) -> Tensor:
        return self.gan.sample(columns, random)

    def state(self) -> State:
        state = self.gan.state()
        state.tensors["old_head"] = self.old_head
        state.meta["old_share"] = self.old_share
        return state

    def restore(self, state: State) -> None:
        self.old_head, self.old_share = state.tensors["old_head"].clone(), state.meta["old_share"]
        self.gan.restore(state)

    def _as_asked(self, task: int) -> dict[str, float]:
        """For each class (by column) the share of generated features that the head takes for what they shall be."""
        random = generator(self.host.seed, task, "generated features checked")
        seen = torch.tensor(self.gan.seen, device=self.host.device)
        shares = {}
        for column in self.gan.seen:
            made = self.gan.sample(seen.new_full((CHECKED,), column), random)
            found = seen[(made @ self.old_head[seen].T).argmax(1)]
            shares[str(column)] = float((found == column).double().mean())
        return shares
