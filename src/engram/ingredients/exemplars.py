"""Real samples of old classes, stored: iCaRL, and plain experience replay for scale."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from engram.devices import upload
from engram.ingredients.base import Batch, Host, Ingredient, Step
from engram.ingredients.teacher import Teacher
from engram.lesson import Lesson, State
from engram.randomness import generator
from engram.settings import ExemplarSettings, ExperienceReplaySettings, ICaRLSettings

UNKNOWN = -3.0
"""score of a class without exemplars: below every other, as unit vectors are at most 2 apart"""


class ExemplarMemory:
    """So many samples in all, shared out among the classes; of each class those chosen first are kept longest."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.x = torch.empty(0)
        self.y = torch.empty(0, dtype=torch.long)

    def add(self, x: Tensor, y: Tensor, choose: Callable[[Tensor, int], Tensor]) -> None:
        """`choose(samples, count)` gives the rows of a class's samples to keep, the most important first."""
        pool = {column: self.x[self.y == column] for column in self.y.unique().tolist()}
        for column in y.unique().tolist():
            of_class = x[y == column]
            pool[column] = torch.cat([of_class, pool[column]]) if column in pool else of_class
        shares = shared_out(self.size, [len(of_class) for of_class in pool.values()])
        new = set(y.unique().tolist())
        kept = []
        for (column, of_class), share in zip(pool.items(), shares, strict=True):
            kept.append(of_class[choose(of_class, share)] if column in new else of_class[:share])
        self.x = torch.cat(kept)
        self.y = torch.cat([y.new_full((len(part),), column) for column, part in zip(pool, kept, strict=True)])
        assert len(self.x) == sum(shares) <= self.size

    def state(self) -> dict[str, Tensor]:
        return {"exemplars": self.x, "exemplar_columns": self.y} if len(self.y) else {}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        if "exemplars" in tensors:
            self.x, self.y = tensors["exemplars"].clone(), tensors["exemplar_columns"].clone()


def shared_out(size: int, available: list[int]) -> list[int]:
    """Equal shares, the first classes' larger by one where it does not come out even; what a class lacks others get."""
    shares = [0] * len(available)
    for left in range(len(available), 0, -1):  # the scarcest first, so that what they leave goes to the others
        index = min((i for i in range(len(available)) if not shares[i]), key=lambda i: available[i])
        shares[index] = min(available[index], -(-(size - sum(shares)) // left))
    return shares


def herded(features: Tensor, count: int) -> Tensor:
    """Rows in such an order that each beginning of it has a mean close to the mean of all (Welling 2009)."""
    mean, total = features.mean(0), torch.zeros_like(features[0])
    taken = torch.zeros(len(features), dtype=torch.bool, device=features.device)
    rows = []
    for number in range(1, count + 1):
        distance = ((total + features) / number - mean).square().sum(1)
        row = distance.masked_fill(taken, torch.inf).argmin()
        taken[row] = True
        total = total + features[row]
        rows.append(row)
    return torch.stack(rows) if rows else torch.empty(0, dtype=torch.long, device=features.device)


class Remembering(Ingredient):
    """Has a memory of exemplars."""

    def __init__(self, settings: ExemplarSettings) -> None:
        self.memory = ExemplarMemory(settings.memory)

    def attach(self, host: Host) -> None:
        self.host = host

    def with_stored(self, x: Tensor, y: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """A prepared batch and these rows of the memory."""
        rows = upload(rows, x.device)
        stored = self.host.network.prepare(self.memory.x[rows])
        return torch.cat([x, stored]), torch.cat([y, self.memory.y[rows]])

    def state(self) -> State:
        return State(tensors=self.memory.state())

    def restore(self, state: State) -> None:
        self.memory.restore(state.tensors)

    def measures(self) -> dict[str, int]:
        return {"stored_samples": len(self.memory.y)}


class ExperienceReplay(Remembering):
    """Each batch comes with as many random exemplars; so their classes' loss weighs as their number does."""

    def __init__(self, settings: ExperienceReplaySettings) -> None:
        super().__init__(settings)
        self.settings = settings

    def batch(self, x: Tensor, y: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        if not len(self.memory.y):
            return x, y
        random = generator(self.host.seed, step.task, "experience", step.epoch, step.index)
        return self.with_stored(x, y, torch.randint(len(self.memory.y), (self.settings.batch_size,), generator=random))

    def end_task(self, lesson: Lesson) -> None:
        random = generator(self.host.seed, lesson.index, "exemplars")
        self.memory.add(
            lesson.x, lesson.y, lambda x, count: torch.randperm(len(x), generator=random)[:count].to(x.device)
        )


class ICaRL(Remembering):
    """One sigmoid per class, old outputs distilled, and the nearest mean of exemplars for prediction.

    It replaces the loss, so ingredients that add to it come after this one. The data trained on is the task's and the
    exemplars together: each exemplar once an epoch.
    """

    def __init__(self, settings: ICaRLSettings) -> None:
        super().__init__(settings)
        self.settings = settings
        self.steps = 1
        """of an epoch, among which the exemplars are dealt out"""

    def attach(self, host: Host) -> None:
        super().attach(host)
        self.teacher = Teacher(host)
        self.means = torch.empty(0, host.network.head.in_features, device=host.device)
        """one row for each column; zero where a class has no exemplars"""

    def begin_task(self, lesson: Lesson) -> None:
        self.steps = -(-len(lesson.y) // self.host.batch_size)

    def batch(self, x: Tensor, y: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        if not len(self.memory.y):
            return x, y
        random = generator(self.host.seed, step.task, "exemplars", step.epoch)
        order = torch.randperm(len(self.memory.y), generator=random)
        return self.with_stored(x, y, order[step.index :: self.steps])

    def loss(self, loss: Tensor, batch: Batch, step: Step) -> Tensor:
        targets = torch.zeros_like(batch.scores).scatter_(1, batch.y[:, None], 1)
        weights = torch.ones_like(targets)
        if self.teacher.seen:
            old = self.teacher.columns
            targets[:, old] = self.teacher(batch.x)[1][:, old].sigmoid()
            weights[:, old] = self.settings.distillation
        return icarl_loss(batch.scores, targets, weights)

    def end_task(self, lesson: Lesson) -> None:
        self.memory.add(lesson.x, lesson.y, lambda x, count: herded(self._directions(x), count))
        self.teacher.take_over(lesson)
        found = self._directions(self.memory.x)
        self.means = found.new_zeros(lesson.width, found.shape[1])
        for column in self.memory.y.unique().tolist():
            self.means[column] = F.normalize(found[self.memory.y == column].mean(0), dim=0)

    def scores(self, head: Callable[[Tensor], Tensor], features: Tensor) -> Tensor:
        """Before the first task's end the head's own; then less the distance to each mean of exemplars."""
        if not len(self.means):
            return head(features)
        scores = -torch.cdist(F.normalize(features, dim=1), self.means, compute_mode="donot_use_mm_for_euclid_dist")
        scores = scores.masked_fill(~self.means.any(1), UNKNOWN)
        missing = self.host.network.head.out_features - scores.shape[1]  # columns of the task under way
        return F.pad(scores, (0, missing), value=UNKNOWN)

    def state(self) -> State:
        state = self.teacher.state()
        state.tensors |= self.memory.state() | {"means": self.means}
        state.meta["steps"] = self.steps
        return state

    def restore(self, state: State) -> None:
        self.teacher.restore(state)
        self.memory.restore(state.tensors)
        self.means, self.steps = state.tensors["means"].clone(), state.meta["steps"]

    def _directions(self, x: Tensor) -> Tensor:
        return F.normalize(self.host.extract(x), dim=1)


def icarl_loss(scores: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """The classes' binary cross-entropies, summed over the classes and averaged over the samples."""
    return F.binary_cross_entropy_with_logits(scores, targets, weights, reduction="sum") / len(scores)
