"""What a training step costs with each recipe, relative to finetune: the paper's CNN on random 32 x 32 images.

python benchmarks/recipe_step.py [--steps 10] [--threads 2] [--device cpu] [RECIPE ...]

Each recipe has learnt five tasks (of few samples, its generators trained for a step each); steps of the sixth are
timed and the fastest counts, as a shared machine only ever adds. Methods that are not the loop over batches (analytic,
pgma, dgm) have no such step and are left out.
"""

from __future__ import annotations

import argparse
import time

import torch

from engram.devices import resolve_device
from engram.ingredients.base import Step
from engram.lesson import Lesson, Watch
from engram.methods.gradient import GradientMethod
from engram.methods.registry import Start, start_method
from engram.recipes import RECIPES, recipe
from engram.settings import GeneratorSettings


def prepared(name: str, device: torch.device) -> tuple[GradientMethod, Lesson]:
    chosen = recipe(name, training={"epochs": 1})
    if "icarl" in chosen.ingredients:  # each exemplar comes once an epoch, which here has 2 steps instead of 157
        chosen = chosen.changed({"icarl": {"memory": 26}})
    quick = {"generator_steps": 1}
    generators = {g: quick for g, settings in chosen.ingredients.items() if isinstance(settings, GeneratorSettings)}
    method = start_method(Start(chosen.changed(generators), (3, 32, 32), 12, 0, device, False, None))
    assert isinstance(method, GradientMethod)
    for task in range(5):
        method.learn(lesson(task, device, 128), Watch())
    last = lesson(5, device, 128)
    method.begin(last)
    method.network.train()
    return method, last


def lesson(task: int, device: torch.device, samples: int) -> Lesson:
    random = torch.Generator().manual_seed(task)
    x = torch.randint(256, (samples, 3, 32, 32), generator=random, dtype=torch.uint8)
    return Lesson(task, x.to(device), (torch.arange(samples) % 2 + 2 * task).to(device), 12)


def seconds(method: GradientMethod, lesson: Lesson, steps: int) -> float:
    optimizer = torch.optim.SGD(method.network.parameters(), 1e-6, 0.9)
    batch = next(method.batches(lesson, 0))
    times = []
    for index in range(steps + 1):
        begun = time.perf_counter()
        method.train_step(optimizer, *batch, Step(5, 0, index % 2, 0.5))
        if method.device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return min(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=[n for n, r in RECIPES.items() if r.method == "gradient"])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = resolve_device(arguments.device)
    base = prepared("finetune", device)
    for name in arguments.recipes:
        found, plain = prepared(name, device), base
        # in turns, as a shared machine is not equally busy all the time
        pairs = [[seconds(*each, arguments.steps) for each in (found, plain)] for _ in range(arguments.turns)]
        mine, theirs = (min(column) for column in zip(*pairs, strict=True))
        print(f"{name:12} {1000 * mine:8.1f} ms a step, {mine / theirs:5.2f} times finetune", flush=True)


if __name__ == "__main__":
    main()
