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
from torch import nn

from engram.ingredients.base import Step
from engram.lesson import Lesson
from engram.methods.gradient import GradientMethod
from engram.networks import build_network
from engram.networks.cnn import ConvBlock
from engram.recipes import recipe
from engram.settings import NetworkSettings
from engram.study.machine import describe_machine, versions

STEPS = 3
"""steps of one kind in a row: enough to have its memory at hand again"""


def stepper(name: str, low_precision: bool, torch_dropout: bool = False) -> Callable[[], None]:
    """Training steps of the paper's CNN on one batch of 64 colour images of 32 x 32 pixels."""
    torch.manual_seed(0)
    chosen = recipe(name)
    network = build_network((3, 32, 32), 10, NetworkSettings())
    if torch_dropout:
        for block in network.modules():
            if isinstance(block, ConvBlock):
                block.add_module("dropout", nn.Dropout(block.dropout.p))
    method = GradientMethod(
        network,
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


def ratio(top: list[float], bottom: list[float]) -> float:
    """Median over the rounds, so that a slow spell of the machine meets both."""
    return statistics.median(a / b for a, b in zip(top, bottom, strict=True))


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
        kinds = {"plain": stepper("finetune", low), "OWM": stepper("owm", low)}
        kinds |= {
            "plain, torch's dropout": stepper("finetune", low, torch_dropout=True),
            "OWM, torch's dropout": stepper("owm", low, torch_dropout=True),
        }
        times = measure(kinds, arguments.rounds)
        ratios = {
            f"{top} / {bottom}": round(ratio(times[top], times[bottom]), 2)
            for top, bottom in [("OWM", "plain"), ("OWM, torch's dropout", "plain, torch's dropout")]
        }
        medians = {name: round(statistics.median(values) * 1e3, 1) for name, values in times.items()}
        report[precision] = {"milliseconds": medians, "ratios": ratios}
        print(precision, json.dumps(report[precision], indent=1))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
