"""What the tests of several processes start: learns with each recipe, and writes what came of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from engram import files
from engram._trial import Trial
from engram.distributed import joined
from engram.lesson import Position, State, Watch
from engram.recipes import RECIPES


class Dying(Watch):
    def stepped(self, position: Position) -> None:
        if position.epoch == 1:
            os._exit(1)


def learnt(name: str, watch: Watch | None = None) -> State:
    """After two tasks; 33 and 22 samples are no multiples of the batch of 8, and one is no two processes' share."""
    trial = Trial.of(RECIPES[name], "images")
    if trial.trains:
        trial = Trial(trial.recipe.changed({"network": {"dropout": 0.0}}), "images")
    learner = trial.learner()
    for index, classes in enumerate(((0, 1, 2), (3, 4))):
        learner.learn(*trial.task(*classes), None if index else range(5), watch or Watch())
    return learner.state()


def main(names: list[str], folder: Path, dies: bool) -> None:
    with joined(torch.device("cpu")) as everyone:
        for name in names:
            state = learnt(name, Dying() if dies and everyone.rank else None)
            if everyone.rank == 0:
                files.save(folder / name, state.tensors, state.meta, kind="model")


if __name__ == "__main__":
    torch.set_num_threads(1)
    try:
        main(sys.argv[3].split(","), Path(sys.argv[1]), sys.argv[2] == "dies")
    except ValueError as error:
        sys.exit(f"{type(error).__name__}: {error}")
