"""c: Engram's whole loop, relative to the shortest one that does the same."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from engram.bench.figures import Effort, Figure, interleaved, ratio
from engram.bench.steps import BATCH, CLASSES, Kind, paper_cnn
from engram.lesson import Lesson, Watch
from engram.methods.gradient import GradientMethod
from engram.settings import NetworkSettings, TrainingSettings

SETTINGS = TrainingSettings(epochs=1, batch_size=BATCH)


def loop(effort: Effort) -> list[Figure]:
    tiny = Kind((16,), NetworkSettings(hidden=32))
    figures = []
    for name, kind, batches, rounds, most in (
        ("paper's CNN", paper_cnn(effort.quick), 4, 8, 1.02),
        ("tiny MLP", tiny, 100, 15, 1.3),
    ):
        acts = {"engram": engram_loop(kind, batches), "bare": bare_loop(kind, batches)}
        found = interleaved(acts, effort.rounds(rounds))
        figures.append(
            Figure(f"finetune's loop / a bare loop, {name}", ratio(found["engram"], found["bare"]), most=most)
        )
        figures.append(Figure(f"bare loop, {name}", 1000 * min(found["bare"]) / batches, "ms a step"))
    return figures


def engram_loop(kind: Kind, batches: int) -> Callable[[], None]:
    method = GradientMethod(kind.network(), [], SETTINGS, 0, torch.device("cpu"), low_precision=False)
    lesson = Lesson(0, *kind.batch(BATCH * batches), CLASSES)
    return lambda: method.learn(lesson, Watch())


def bare_loop(kind: Kind, batches: int) -> Callable[[], None]:
    network, (x, y) = kind.network(), kind.batch(BATCH * batches)

    def train() -> None:
        network.standardise(x)  # the first task's beginning
        network.train()
        optimizer = torch.optim.SGD(network.parameters(), SETTINGS.learning_rate, SETTINGS.momentum)
        for rows in torch.randperm(len(y)).split(BATCH):
            optimizer.zero_grad()
            loss = F.cross_entropy(network(network.prepare(x[rows])), y[rows])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), SETTINGS.clip_norm)
            optimizer.step()

    return train
