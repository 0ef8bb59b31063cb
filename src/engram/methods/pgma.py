"""PGMA: a classifier that is adapted to each input by generated weights, taught by remembered features.

The features are those of a network that is trained on the first task and then frozen. Of each task its auto-encoder is
taught first, from the task's features and from what its former self makes up; then the classifier, from the task's
labels and from what its former self says to remembered features.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.devices import upload
from engram.errors import EngramError
from engram.generators.autoencoder import AutoEncoder
from engram.ingredients.teacher import any_of, distillation_loss, old_for_each_new
from engram.lesson import Lesson, State, Watch
from engram.methods.gradient import PREDICT_ROWS, GradientMethod
from engram.networks.adapted import AdaptedSolver
from engram.randomness import isolated, seed_for
from engram.settings import PGMASettings

DESCRIBED = 1000
"""remembered features a class, from which it is described anew"""


class PGMAMethod:
    def __init__(self, extractor: GradientMethod, settings: PGMASettings) -> None:
        self.settings = settings
        self.extractor = extractor
        self.device, self.seed = extractor.device, extractor.seed
        self.seen: list[int] = []
        self.scale = 1.0
        """features are divided by it: set by the first task"""
        self.last_task: dict[str, float] = {}
        features = extractor.network.head.in_features
        with isolated(self.device):
            torch.manual_seed(seed_for(self.seed, "pgma"))
            signed = extractor.network.own
            self.memory = AutoEncoder(features, settings.generator_width, settings.latent, signed).to(self.device)
            self.solver = AdaptedSolver(features, settings.latent, settings.hidden, settings.rank).to(self.device)

    def learn(self, lesson: Lesson, watch: Watch) -> None:
        """A kill during the later parts costs the task: only the extractor's training is in checkpoints."""
        if not self.seen:
            self.extractor.learn(lesson, watch)
        self.last_task = {}
        features = self.extract(lesson.x)
        if not self.seen:
            self.scale = float(features.double().square().mean().sqrt()) or 1.0
        with isolated(self.device):
            torch.manual_seed(seed_for(self.seed, lesson.index, "pgma"))
            former = copy.deepcopy((self.memory, self.solver)) if self.seen else None
            factor = old_for_each_new(self.seen, lesson)
            self.solver.grow(lesson.width)
            self.extractor.network.grow(lesson.width)  # nobody asks its head; a restored one is as wide
            self.memory.grow(lesson.width)
            self._remember(features / self.scale, lesson.y, former, factor, watch)
            self._solve(features / self.scale, lesson.y, former, factor, watch)
        self.seen = sorted({*self.seen, *lesson.y.unique().tolist()})

    def _remember(self, x: Tensor, y: Tensor, former: Any, factor: float, watch: Watch) -> None:
        """Teach the auto-encoder new and remembered features, old and new classes alike; then describe each class."""
        size, share = self.settings.generator_batch, factor / (factor + 1)

        def loss() -> Tensor:
            old = int(torch.rand(size).lt(share).sum()) if former else 0
            fresh = x[torch.randint(len(x), (size - old,), device=x.device)]
            batch = torch.cat([fresh, self._old_ones(former, old)]) if former else fresh
            return self.memory.loss(batch, self.settings.spread)

        steps = self.settings.generator_steps
        self._train([self.memory], loss, steps, lambda done: watch.worked("auto-encoder", done, steps))
        for column in self.seen:
            self.memory.describe(column, former[0].sample(torch.full((DESCRIBED,), column, device=x.device)))
        for column in y.unique().tolist():
            self.memory.describe(column, x[y == column])

    def _old_ones(self, former: Any, count: int) -> Tensor:
        """Remembered features, of every old class alike."""
        return former[0].sample(upload(any_of(self.seen, count, torch.default_generator), self.device))

    def _solve(self, x: Tensor, y: Tensor, former: Any, factor: float, watch: Watch) -> None:
        """Teach the classifier the task, and what it said before to remembered features."""
        size = self.settings.batch_size
        steps = self.extractor.epochs * -(-len(y) // size)
        with torch.no_grad():
            descriptions = self.memory.encoder(x)

        def loss() -> Tensor:
            rows = torch.randint(len(x), (size,), device=x.device)
            total = F.cross_entropy(self.solver(x[rows], descriptions[rows]), y[rows])
            if not former:
                return total
            remembered = self._old_ones(former, size)
            with torch.no_grad():
                taught = former[1](remembered, former[0].encoder(remembered))
                described = self.memory.encoder(remembered)
            kept = distillation_loss(self.solver(remembered, described), taught, self.settings.temperature)
            return (total + self.settings.replay * factor * kept) / (1 + factor)

        self._train([self.solver], loss, steps, lambda done: watch.worked("classifier", done, steps))

    def _train(
        self, modules: list[nn.Module], loss: Callable[[], Tensor], steps: int, worked: Callable[[int], None]
    ) -> None:
        optimizer = torch.optim.Adam([p for module in modules for p in module.parameters()], self.settings.rate)
        total = torch.zeros((), device=self.device)
        for step in range(steps):
            optimizer.zero_grad()
            value = loss()
            value.backward()
            optimizer.step()
            total += value.detach()
            worked(step + 1)
        mean = float(total) / steps
        if not math.isfinite(mean):
            raise EngramError("PGMA's loss is no longer a finite number: lower its rate.")
        self.last_task[f"{type(modules[0]).__name__}_loss"] = mean

    def features(self, x: Tensor) -> Tensor:
        return self.extract(x)

    def extract(self, x: Tensor) -> Tensor:
        return self.extractor.extract(x)

    def scores(self, x: Tensor) -> Tensor:
        if not self.seen:  # the extractor is still being trained
            return self.extractor.scores(x)
        with torch.no_grad():
            parts = (self.extract(part) / self.scale for part in x.split(PREDICT_ROWS))
            return torch.cat([self.solver(part, self.memory.encoder(part)) for part in parts])

    def generate(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        return None  # what it remembers is its own: features divided and cut off

    def images(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        return None

    def encoder(self) -> nn.Module | None:
        return self.extractor.encoder()

    def exportable(self) -> nn.Module | None:
        return None

    def traces(self) -> dict[str, float]:
        return {}

    def measures(self) -> dict[str, Any]:
        return self.last_task

    def state(self) -> State:
        inner = self.extractor.state()
        state = State(meta={"extractor": inner.meta, "seen": self.seen, "scale": self.scale})
        state.put("extractor", inner.tensors)
        state.put("memory", self.memory.state_dict())
        state.put("solver", self.solver.state_dict())
        return state

    def restore(self, state: State) -> None:
        self.extractor.restore(State(state.take("extractor"), state.meta["extractor"]))
        self.seen, self.scale = list(state.meta["seen"]), state.meta["scale"]
        solver = state.take("solver")
        self.solver.grow(len(solver["head"]))
        self.solver.load_state_dict(solver)
        memory = state.take("memory")
        self.memory.grow(len(memory["centres"]))
        self.memory.load_state_dict(memory)
