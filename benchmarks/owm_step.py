"""How much longer a training step takes with OWM: both kinds interleaved in one run, medians over repeats.

python benchmarks/owm_step.py [--threads 2] [--rounds 30] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch

from engram.ingredients.base import Step
from engram.lesson import Lesson
from engram.methods.gradient import GradientMethod
from engram.networks import build_network
from engram.recipes import recipe
from engram.settings import NetworkSettings
from engram.study.machine import describe_machine, versions

STEPS = 3
"""steps of one kind in a row: enough to have its memory at hand again"""


def stepper(name: str, low_precision: bool) -> Callable[[], None]:
    """Training steps of the paper's CNN on one batch of 64 colour images of 32 x 32 pixels."""
    torch.manual_seed(0)
    chosen = recipe(name)
    method = GradientMethod(
        build_network((3, 32, 32), 10, NetworkSettings()),
        [settings.start() for settings in chosen.ingredients.values()],
        chosen.training,
        seed=0,
        device=torch.device("cpu"),
        low_precision=low_precision,
    )
    lesson = Lesson(0, torch.randint(0, 256, (64, 3, 32, 32), dtype=torch.uint8), torch.randint(0, 10, (64,)), 10)
    training = method.begin(lesson)
    method.network.train()
    x = method.network.prepare(lesson.x)

    def step() -> None:
        method.train_step(training.optimizer, x, lesson.y, Step(0, 0, 0, 0.5))

    return step


def measure(kinds: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(rounds + 2):
        for name, step in kinds.items():
            start = time.perf_counter()
            for _ in range(STEPS):
                step()
            times[name].append((time.perf_counter() - start) / STEPS)
    return {name: values[2:] for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    report: dict[str, object] = {"machine": describe_machine(), "versions": versions(), "threads": arguments.threads}
    for precision in ("float32", "bfloat16"):
        low = precision == "bfloat16"
        times = measure({name: stepper(name, low) for name in ("finetune", "owm")}, arguments.rounds)
        plain, owm = (statistics.median(times[name]) for name in ("finetune", "owm"))
        pairs = [b / a for a, b in zip(times["finetune"], times["owm"], strict=True)]
        report[precision] = {
            "plain_ms": round(plain * 1e3, 1),
            "owm_ms": round(owm * 1e3, 1),
            "ratio": round(statistics.median(pairs), 3),
        }
        print(f"{precision}: plain {plain * 1e3:.1f} ms, OWM {owm * 1e3:.1f} ms, ratio {statistics.median(pairs):.2f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
