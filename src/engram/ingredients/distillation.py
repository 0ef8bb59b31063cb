"""Distillation on new data: the old network's scores (LwF) or its features are what the new one shall keep."""

from __future__ import annotations

import torch
from torch import Tensor

from engram.ingredients.base import Batch, Host, Ingredient, Step
from engram.ingredients.teacher import Teacher, distillation_loss, old_for_each_new
from engram.lesson import Lesson, State
from engram.settings import FeatureDistillationSettings, LwFSettings


class Taught(Ingredient):
    """Has a teacher, the network after the last task."""

    shares = True

    def attach(self, host: Host) -> None:
        self.host = host
        self.teacher = Teacher(host)

    def end_task(self, lesson: Lesson) -> None:
        self.teacher.take_over(lesson)

    def state(self) -> State:
        return self.teacher.state()

    def restore(self, state: State) -> None:
        self.teacher.restore(state)


class LwF(Taught):
    """Old columns alone are compared: that new ones rise is what the new data is for."""

    def __init__(self, settings: LwFSettings) -> None:
        self.settings = settings

    def loss(self, loss: Tensor, batch: Batch, step: Step) -> Tensor:
        if not self.teacher.seen:
            return loss
        old = self.teacher.columns
        _, taught = self.teacher(batch.x)
        kept = distillation_loss(batch.scores[:, old], taught[:, old], self.settings.temperature)
        return loss + self.settings.weight * kept


class FeatureDistillation(Taught):
    """Adds weight · (old classes for each new one) · the batch's mean of ‖h − h_old‖."""

    def __init__(self, settings: FeatureDistillationSettings) -> None:
        self.settings = settings
        self.factor = 0.0

    def begin_task(self, lesson: Lesson) -> None:
        self.factor = old_for_each_new(self.teacher.seen, lesson)

    def loss(self, loss: Tensor, batch: Batch, step: Step) -> Tensor:
        if not self.factor:
            return loss
        features, _ = self.teacher(batch.x)
        drift = torch.linalg.vector_norm(batch.features.float() - features, dim=1).mean()
        return loss + self.settings.weight * self.factor * drift

    def state(self) -> State:
        state = super().state()
        state.meta["factor"] = self.factor
        return state

    def restore(self, state: State) -> None:
        super().restore(state)
        self.factor = state.meta["factor"]
