"""`engram demo`: the same five tasks with several recipes, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engram.errors import InputError
from engram.progress import Progress
from engram.recipes import recipe
from engram.report.figures import accuracy_figure
from engram.report.tables import print_comparison
from engram.study.options import RunOptions
from engram.study.protocol import read_result
from engram.study.run import CHECKPOINT, RESULT, run

RECIPES = ("finetune", "owm", "owm+gfr", "owm+ssl+gfr", "analytic", "joint")
SETTINGS: dict[str, dict[str, Any]] = {
    "training": {"epochs": 10, "batch_size": 16},
    "network": {"filters": (32, 64, 128), "hidden": 300},
    "owm": {"patch_stride": 1, "alpha_conv": 1.0, "alpha_first": 1.0, "alpha_hidden": 0.1, "alpha_last": 1.0},
    "replay": {
        "generator_steps": 200,
        "generator_width": 128,
        "generator_batch": 64,
        "generator_rate": 1e-3,
        "batch_size": 16,
    },
}
"""Smaller than the paper's network, batches and generator, as the pictures and the tasks (250 samples) are. The alphas
were chosen on validation data with seed 7: on 8x8 pixels a layer has few input directions, and the paper's take all of
them with the first task, while patches side by side miss those between them."""
PICTURE = "accuracy.png"


def demo(out: str, quiet: bool) -> list[dict[str, Any]]:
    """Run every recipe of the list on the digits; print a table and write a picture of it."""
    folder = Path(out)
    results = []
    for name in RECIPES:
        own = folder / name
        chosen = recipe(name)
        chosen = chosen.changed({group: values for group, values in SETTINGS.items() if group in chosen.groups()})
        _clear(own)
        with Progress(f"{name} on digits", quiet) as progress:
            results.append(run(chosen, RunOptions("digits", str(own), threads=1, quiet=quiet), progress))
    print_comparison(list(results))
    accuracy_figure(list(results), folder / PICTURE)
    print(f"picture: {folder / PICTURE}")
    return results


def _clear(own: Path) -> None:
    """Remove what an earlier demo left, and nothing else."""
    if (own / RESULT).exists() and read_result(own / RESULT).get("dataset") != "digits":
        raise InputError(f"{own} holds a run of another data set: choose another --out.")
    for stale in (RESULT, CHECKPOINT):
        (own / stale).unlink(missing_ok=True)
