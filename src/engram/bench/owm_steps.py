"""a: a step with OWM, relative to a plain one.  b: the same with the official double loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from engram.bench.double_loop import DoubleLoop
from engram.bench.figures import Effort, Figure, interleaved, milliseconds, ratio
from engram.bench.steps import Kind, Stepper, doubled_cnn, paper_cnn, text_cnn, wide_mlp
from engram.ingredients.owm import OWMIngredient
from engram.settings import OWMSettings

NETWORKS: list[tuple[str, Callable[[bool], Kind], float | None, int]] = [
    ("paper's CNN", paper_cnn, 1.15, 20),
    ("doubled CNN", doubled_cnn, 1.25, 5),
    ("MLP of 1000 units", wide_mlp, None, 20),
    ("text CNN", text_cnn, None, 20),
]
"""name, what it is, the most that OWM may take there, and rounds"""
EACH = 3
"""steps of a kind in a row"""


def owm_step(effort: Effort) -> list[Figure]:
    figures = []
    for name, kind, most, rounds in NETWORKS:
        for precision in ("float32", "bfloat16"):
            where = f"{name}, {precision}"
            figures += _against_plain(kind(effort.quick), where, most, precision == "bfloat16", effort.rounds(rounds))
    return figures


def _against_plain(kind: Kind, where: str, most: float | None, low: bool, rounds: int) -> list[Figure]:
    protected = OWMIngredient(OWMSettings())
    steps = {"plain": Stepper(kind, "finetune", low), "OWM": Stepper(kind, [protected], low)}
    found = interleaved(steps, rounds, EACH)
    layers = _layer_times(protected, steps["OWM"], rounds)
    return [
        Figure(f"OWM / plain, {where}", ratio(found["OWM"], found["plain"]), most=most),
        milliseconds(f"plain step, {where}", found["plain"]),
        *(milliseconds(f"  projection of {layer}", times) for layer, times in layers.items()),
    ]


def _layer_times(protected: OWMIngredient, step: Stepper, rounds: int) -> dict[str, list[float]]:
    """Seconds that each layer's projection takes, in steps of their own."""
    found: dict[str, list[float]] = {name: [] for name in protected.owm.layers}
    for name, layer in protected.owm.layers.items():
        setattr(layer, "project", _timed(layer.project, found[name]))  # noqa: B010 (on the one object alone)
    for _ in range(EACH * rounds):
        step()
    return found


def _timed(function: Callable[[Any], Any], times: list[float]) -> Callable[[Any], None]:
    def timed(alpha: Any) -> None:
        begun = time.perf_counter()
        function(alpha)
        times.append(time.perf_counter() - begun)

    return timed


def double_loop_step(effort: Effort) -> list[Figure]:
    kind = paper_cnn(effort.quick)
    steps = {"plain": Stepper(kind, "finetune", False), "OWM": Stepper(kind, "owm", False)}
    steps["double loop"] = Stepper(kind, [DoubleLoop(OWMSettings())], False)
    found = interleaved(steps, effort.rounds(4))
    overhead = [
        (loop - plain) / max(owm - plain, 1e-9)
        for loop, owm, plain in zip(found["double loop"], found["OWM"], found["plain"], strict=True)
    ]
    return [
        Figure("double loop / plain", ratio(found["double loop"], found["plain"])),
        Figure("double loop / OWM", ratio(found["double loop"], found["OWM"]), least=3),
        Figure("what the double loop adds / what OWM adds", median(overhead)),
    ]
