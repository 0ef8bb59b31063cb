"""Orthogonal weight modification as an ingredient: project the gradients that have been added before it."""

from __future__ import annotations

import torch

from engram.ingredients.base import Host, Ingredient, Step
from engram.lesson import Lesson, State
from engram.networks.own import frozen
from engram.owm import OWM
from engram.settings import OWMSettings


class OWMIngredient(Ingredient):
    shares = True

    def __init__(self, settings: OWMSettings) -> None:
        self.settings = settings

    def attach(self, host: Host) -> None:
        self.host = host
        before = host.ingredients[: host.ingredients.index(self)]
        # gradients that are formed by the projection itself can be added to by those that come before it, no more
        lazy = all(other.only_adds or type(other).edit_gradients is Ingredient.edit_gradients for other in before)
        free = ["head"] if self.settings.head == "free" else []
        skip = [*free, *frozen(host.network)]
        self.owm = OWM(host.network, self.settings, skip=skip, lazy=lazy, average=host.average)

    def edit_gradients(self, step: Step) -> None:
        self.owm.project(step.progress)

    def end_task(self, lesson: Lesson) -> None:
        if self.settings.refresh == "task_end":
            self._absorb_task(lesson)

    def state(self) -> State:
        return State(tensors=self.owm.state())

    def restore(self, state: State) -> None:
        self.owm.restore(state.tensors)

    def traces(self) -> dict[str, float]:
        return self.owm.traces()

    def _absorb_task(self, lesson: Lesson) -> None:
        """One pass over the task's batch means, as the article describes it."""
        batches = -(-len(lesson.y) // self.host.batch_size)
        with torch.no_grad():
            for done, (x, _) in enumerate(self.host.batches(lesson, epoch=-1)):
                self.host.forward(x)
                self.owm.absorb(done / batches)
