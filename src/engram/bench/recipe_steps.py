"""d: a step of each recipe after five tasks, relative to finetune's."""

from __future__ import annotations

import torch

from engram.bench.figures import Effort, Figure, interleaved, ratio
from engram.bench.steps import BATCH, paper_cnn
from engram.devices import resolve_precision
from engram.ingredients.base import Step
from engram.lesson import Lesson, Watch
from engram.methods.gradient import GradientMethod
from engram.methods.registry import Start, start_method
from engram.recipes import RECIPES, Recipe
from engram.settings import GeneratorSettings

TASKS = 5
WIDTH = 2 * (TASKS + 1)
MOST = {"ewc": 1.15, "mas": 1.15}
MEMORY = 26
"""exemplars of iCaRL: each comes once an epoch, which here has 2 steps instead of 157"""


def recipe_step(effort: Effort) -> list[Figure]:
    """Methods that are not the loop over batches (analytic, pgma, dgm) have no such step, and joint's is finetune's."""
    base, figures = Prepared(RECIPES["finetune"], TASKS, effort), []
    names = [name for name, entry in RECIPES.items() if entry.method == "gradient" and entry.ingredients]
    for name in MOST if effort.quick else names:
        steps = {"recipe": Prepared(RECIPES[name], TASKS, effort), "plain": base}
        if name in MOST:
            steps["after one task"] = Prepared(RECIPES[name], 1, effort)
        found = interleaved(steps, effort.rounds(5), 3)
        figures.append(
            Figure(f"{name} after five tasks / plain", ratio(found["recipe"], found["plain"]), most=MOST.get(name))
        )
        if name in MOST:
            grown = ratio(found["recipe"], found["after one task"])
            figures.append(Figure(f"{name} after five tasks / after one", grown, most=1.05))
    return figures


class Prepared:
    """A method that has learnt tasks of few samples; calling it trains a step of the next."""

    def __init__(self, recipe: Recipe, tasks: int, effort: Effort) -> None:
        self.kind = paper_cnn(effort.quick)
        device = torch.device("cpu")
        low = resolve_precision("auto", device, self.kind.shape) == "bfloat16"
        small = quick_version(recipe).changed({"network": {"hidden": self.kind.settings.hidden}})
        method = start_method(Start(small, self.kind.shape, WIDTH, 0, device, low, None))
        assert isinstance(method, GradientMethod)
        for task in range(tasks):
            method.learn(self._lesson(task), Watch())
        lesson = self._lesson(tasks)
        self.method, self.task = method, tasks
        self.optimizer = method.begin(lesson).optimizer
        method.network.train()
        self.batch = next(method.batches(lesson, 0))

    def _lesson(self, task: int) -> Lesson:
        x, _ = self.kind.batch(2 * BATCH)
        return Lesson(task, x, torch.arange(len(x)) % 2 + 2 * task, WIDTH)

    def __call__(self) -> None:
        self.method.train_step(self.optimizer, *self.batch, Step(self.task, 0, 0, 0.5))


def quick_version(recipe: Recipe) -> Recipe:
    """The same steps in training, after one epoch a task, a step of the generator and few exemplars."""
    changes = {"training": {"epochs": 1, "learning_rate": 1e-6}}
    changes |= {n: {"generator_steps": 1} for n, g in recipe.ingredients.items() if isinstance(g, GeneratorSettings)}
    if "icarl" in recipe.ingredients:
        changes["icarl"] = {"memory": MEMORY}
    return recipe.changed(changes)
