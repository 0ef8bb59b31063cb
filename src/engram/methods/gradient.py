"""Training by gradient, task after task: the whole loop, and the ingredients' places in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.devices import upload
from engram.distributed import world
from engram.errors import EngramError, InputError
from engram.ingredients.base import Batch, Ingredient, Step
from engram.lesson import Lesson, Position, State, Watch
from engram.methods.copies import Encoder, NetworkScores
from engram.methods.finite import LOOK_EVERY, FiniteLoss, all_finite
from engram.networks import Network
from engram.networks.frozen import check_given
from engram.randomness import generator, isolated, seed_default, seed_for
from engram.settings import TrainingSettings
from engram.settings.training import EPOCHS

PREDICT_ROWS = 500


@dataclass
class Training:
    """A task's training while it goes on: all of it is in a checkpoint."""

    optimizer: torch.optim.SGD
    task: int
    epoch: int = 0
    step: int = 0
    best_score: float | None = None
    best_weights: dict[str, Tensor] = field(default_factory=dict)


class GradientMethod:
    """A network trained on each task in turn; the ingredients, in their order, keep it from forgetting."""

    def __init__(
        self,
        network: Network,
        ingredients: Sequence[Ingredient],
        settings: TrainingSettings,
        seed: int,
        device: torch.device,
        low_precision: bool,
    ) -> None:
        self.network = network
        self.ingredients = list(ingredients)
        self.settings = settings
        self.epochs = settings.epochs or EPOCHS
        self.batch_size = settings.batch_size
        self.seed = seed
        self.device = device
        self.low_precision = low_precision
        self.training: Training | None = None
        self.watch = Watch()
        self.world = world()
        self.weight = 1 / self.world.size
        """of this process's share of the batch"""
        self.average = self._average if self.world.size > 1 else None
        self.finite = FiniteLoss()
        with isolated(device):
            for ingredient in self.ingredients:
                seed_default(seed_for(seed, "attach", type(ingredient).__name__), self.device)
                ingredient.attach(self)
        self.trained = self._all_trained()

    def learn(self, lesson: Lesson, watch: Watch) -> None:
        """Learn one task, or go on with it where `restore` has left it."""
        with isolated(self.device), self._watched(watch):
            training = self.training or self.begin(lesson)
            self.training = training
            self.network.train()
            for epoch in range(training.epoch, self.epochs):
                self._train_epoch(lesson, training, watch)
                self._keep_best(training, watch)
                training.epoch, training.step = epoch + 1, 0
            if training.best_weights:
                self.trained.load_state_dict(training.best_weights)
            for ingredient in self.ingredients:
                seed_default(seed_for(self.seed, lesson.index, "end", type(ingredient).__name__), self.device)
                ingredient.end_task(lesson)
            self.training = None
            self.world.agree(self.state().tensors.values())

    @contextmanager
    def _watched(self, watch: Watch) -> Iterator[None]:
        self.watch = watch
        try:
            yield
        finally:
            self.watch = Watch()

    def begin(self, lesson: Lesson) -> Training:
        """Make ready for a task's first step."""
        if lesson.index == 0:
            self.network.standardise(lesson.x)
        seed_default(seed_for(self.seed, lesson.index, "grow"), self.device)
        self.network.grow(lesson.width)
        for ingredient in self.ingredients:
            seed_default(seed_for(self.seed, lesson.index, "begin", type(ingredient).__name__), self.device)
            ingredient.begin_task(lesson)
        return Training(self._new_optimizer(), lesson.index)

    def _train_epoch(self, lesson: Lesson, training: Training, watch: Watch) -> None:
        steps = -(-len(lesson.y) // self.batch_size)
        epochs = self.epochs
        self.finite.begin_epoch(training.step)
        total, first = torch.zeros((), device=self.device), training.step
        for index, (x, y) in enumerate(self._shares(lesson, training.epoch, training.step), training.step):
            rank = (self.world.rank,) if self.world.rank else ()  # each process drops out others
            seed_default(seed_for(self.seed, lesson.index, "step", training.epoch, index, *rank), self.device)
            progress = (training.epoch + index / steps) / epochs
            try:
                step = Step(lesson.index, training.epoch, index, progress)
                total += self.train_step(training.optimizer, x, y, step)
            # the projectors' factorisations are the first to meet NaN
            except torch.linalg.LinAlgError as error:  # pyright: ignore[reportPrivateImportUsage]
                self._check_finite(training)
                raise self._exploded(training, (index, 0)) from error
            training.step = index + 1
            if training.step % LOOK_EVERY == 0 or training.step == steps:
                self._check_finite(training)
            watch.stepped(Position(training.epoch, epochs, index + 1, steps, len(y)))
        if training.step > first:  # not where a run was stopped after an epoch's last step
            watch.epoch_ended(training.epoch, epochs, float(total) / (training.step - first))

    def train_step(self, optimizer: torch.optim.SGD, x: Tensor, y: Tensor, step: Step) -> Tensor:
        for ingredient in self.ingredients:
            x, y = ingredient.batch(x, y, step)
        optimizer.zero_grad()
        features, scores = self.forward(x)
        parts = [F.cross_entropy(scores, y)]
        for ingredient in self.ingredients:
            parts.append(ingredient.loss(parts[-1], Batch(x, y, features, scores), step))
        self.finite.see(parts)
        loss = parts[-1]
        loss.backward()
        for ingredient in self.ingredients:
            ingredient.edit_gradients(step)
        if self.average is not None:
            self.average([p.grad for p in self.trained.parameters() if p.grad is not None])
        if self.settings.clip_norm:
            nn.utils.clip_grad_norm_(self.trained.parameters(), self.settings.clip_norm)
        optimizer.step()
        return loss.detach()

    def _keep_best(self, training: Training, watch: Watch) -> None:
        """Weights may go back to the best epoch; what ingredients remember (the projectors) does not."""
        score = watch.score_epoch()
        self.network.train()
        if score is not None and (training.best_score is None or score > training.best_score):
            training.best_score = score
            training.best_weights = {k: v.clone() for k, v in self.trained.state_dict().items()}

    def batches(self, lesson: Lesson, epoch: int, skip: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """A task's prepared batches in the epoch's own order, from batch `skip` on."""
        for rows in self._order(lesson, epoch)[skip:]:
            yield self.network.prepare(lesson.x[rows]), lesson.y[rows]

    def _shares(self, lesson: Lesson, epoch: int, skip: int) -> Iterator[tuple[Tensor, Tensor]]:
        """This process's part of each batch."""
        for batch in self._order(lesson, epoch)[skip:]:
            rows, self.weight = self.world.share(batch)
            yield self.network.prepare(lesson.x[rows]), lesson.y[rows]

    def _order(self, lesson: Lesson, epoch: int) -> tuple[Tensor, ...]:
        """The rows of each batch of an epoch."""
        order = torch.randperm(len(lesson.y), generator=generator(self.seed, lesson.index, "order", epoch))
        return upload(order, self.device).split(self.batch_size)

    def _average(self, tensors: list[Tensor]) -> None:
        self.world.sum(tensors, self.weight)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features and scores of prepared inputs."""
        with self._precision():
            features = self.network.extractor(x)
            scores = self.network.head(features)
        return features, scores.float()

    def _precision(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device.type, torch.bfloat16) if self.low_precision else nullcontext()

    def extract(self, x: Tensor) -> Tensor:
        return self._in_parts(partial(self._run, self.network.extractor), x)

    def features(self, x: Tensor) -> Tensor:
        return self._in_parts(self._features, x)

    def scores(self, x: Tensor) -> Tensor:
        head = self.head_of(self.network)
        return self._in_parts(lambda part: head(self._features(part)).float(), x)

    def generate(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        made = (ingredient.generate(columns, random) for ingredient in self.ingredients)
        return next((features for features in made if features is not None), None)

    def images(self, columns: Tensor, random: torch.Generator) -> Tensor | None:
        made = (ingredient.images(columns, random) for ingredient in self.ingredients)
        return next((images for images in made if images is not None), None)

    def _features(self, x: Tensor) -> Tensor:
        return self._run(self.extractor_of(self.network), x)

    def extractor_of(self, network: Network) -> Callable[[Tensor], Tensor]:
        """Features of prepared inputs at prediction."""
        extract: Callable[[Tensor], Tensor] = network.extractor
        for ingredient in self.ingredients:
            extract = partial(ingredient.features, extract)
        return extract

    def head_of(self, network: Network) -> Callable[[Tensor], Tensor]:
        """Scores of such features."""
        head: Callable[[Tensor], Tensor] = network.head
        for ingredient in self.ingredients:
            head = partial(ingredient.scores, head)
        return head

    def _run(self, extract: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        with self._precision():
            return extract(self.network.prepare(x)).float()

    def _in_parts(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        with self._predicting():
            return torch.cat([function(part) for part in x.split(PREDICT_ROWS)])

    @contextmanager
    def _predicting(self) -> Iterator[None]:
        before = self.network.training
        self.network.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.network.train(before)

    def encoder(self) -> nn.Module | None:
        return Encoder(self.network)

    def exportable(self) -> nn.Module | None:
        return NetworkScores(self.network, self.extractor_of, self.head_of)

    def traces(self) -> dict[str, float]:
        return {name: share for ingredient in self.ingredients for name, share in ingredient.traces().items()}

    def measures(self) -> dict[str, Any]:
        return {name: value for ingredient in self.ingredients for name, value in ingredient.measures().items()}

    def state(self) -> State:
        """While a task is learnt, an error where it has lost its way: so the last good checkpoint is left."""
        if self.training is not None:
            self._check_finite(self.training, weights=True)
        state = State(meta={"width": self.network.head.out_features, "own_network": self.network.own})
        state.put("weights", self.trained.state_dict())
        for index, ingredient in enumerate(self.ingredients):
            own = ingredient.state()
            state.put(f"ingredient{index}", own.tensors)
            state.meta[f"ingredient{index}"] = own.meta
        if self.training is not None:
            names = {id(p): name for name, p in self.trained.named_parameters()}
            momentum = {
                names[id(p)]: values["momentum_buffer"]
                for p, values in self.training.optimizer.state.items()
                if values.get("momentum_buffer") is not None
            }
            state.put("momentum", momentum)
            state.put("best", self.training.best_weights)
            position = {key: getattr(self.training, key) for key in ("task", "epoch", "step", "best_score")}
            state.meta["training"] = position
        return state

    def restore(self, state: State) -> None:
        check_given(state.meta.get("own_network", False), self.network.own)
        self.network.grow(state.meta["width"])
        weights = state.take("weights")
        self.network.shift, self.network.scale = weights["network.shift"], weights["network.scale"]
        self._check_same_network(weights)
        self.trained.load_state_dict(weights)
        for index, ingredient in enumerate(self.ingredients):
            name = f"ingredient{index}"
            ingredient.restore(State(state.take(name), state.meta[name]))
        self.training = None
        if position := state.meta.get("training"):
            best = {name: tensor.clone() for name, tensor in state.take("best").items()}
            self.training = Training(self._new_optimizer(), **position, best_weights=best)
            parameters = dict(self.trained.named_parameters())
            for name, buffer in state.take("momentum").items():
                self.training.optimizer.state[parameters[name]]["momentum_buffer"] = buffer.clone()

    def _check_same_network(self, weights: dict[str, Tensor]) -> None:
        found = {name: tensor.shape for name, tensor in self.trained.state_dict().items()}
        if self.network.own and found != {name: tensor.shape for name, tensor in weights.items()}:
            raise InputError("It was learnt with another network than the one given: its parameters differ.")

    def _all_trained(self) -> nn.ModuleDict:
        """The network and the ingredients' own modules: what the optimiser moves and selection sets back."""
        own = {
            f"ingredient{index}-{name}": module
            for index, ingredient in enumerate(self.ingredients)
            for name, module in ingredient.modules().items()
        }
        return nn.ModuleDict({"network": self.network, **own})

    def _new_optimizer(self) -> torch.optim.SGD:
        settings = self.settings
        return torch.optim.SGD(self.trained.parameters(), settings.learning_rate, settings.momentum)

    def _check_finite(self, training: Training, weights: bool = False) -> None:
        bad = self.finite.first_bad()
        if bad is None and weights and not all_finite(self.trained.parameters()):
            bad = (training.step - 1, 0)
        if bad is not None:
            raise self._exploded(training, bad)

    def _exploded(self, training: Training, bad: tuple[int, int]) -> EngramError:
        step, part = bad
        cause = "the steps were too large: lower the learning rate"
        if part:
            cause = f"the part of {type(self.ingredients[part - 1]).__name__} is to blame: lower its weight"
        return EngramError(
            f"The loss of task {training.task + 1} is no longer a finite number "
            f"in epoch {training.epoch + 1}, step {step + 1}; {cause}."
        )
