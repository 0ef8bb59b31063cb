"""h: arithmetic of the plain step relative to the machine's best matrix product.  i: the same of the closed form."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from engram.bench.figures import Effort, Figure, interleaved
from engram.bench.steps import Stepper, paper_cnn
from engram.devices import resolve_precision
from engram.networks.patches import PatchFeatures
from engram.products import product
from engram.randomness import generator
from engram.settings import AnalyticSettings

SIDES = (512, 1024, 2048)
"""of the square matrices whose product is the machine's best"""
IMAGES = 256


def plain_share(effort: Effort) -> list[Figure]:
    figures = []
    for precision, least in ((torch.float32, None), (torch.bfloat16, 0.5)):
        step = Stepper(paper_cnn(effort.quick), "finetune", precision == torch.bfloat16)
        share, best, _ = _share(step, precision, effort)
        name = str(precision).removeprefix("torch.")
        figures.append(Figure(f"best matrix product, {name}", best / 1e9, "GFLOP/s"))
        figures.append(Figure(f"plain step's arithmetic / that, {name}", share, least=least))
    return figures


def closed_form_share(effort: Effort) -> list[Figure]:
    kind = paper_cnn(effort.quick)
    low = resolve_precision("auto", torch.device("cpu"), kind.shape) == "bfloat16"
    x, _ = kind.batch(IMAGES)
    settings = AnalyticSettings(filters=16 if effort.quick else None, flips="yes", pick="random")
    features = PatchFeatures.fit(x, settings, generator(0, "bench"), low)
    share, _, seconds = _share(lambda: features(x), torch.bfloat16 if low else torch.float32, effort)
    return [
        Figure("features of the closed form", IMAGES / seconds, "images/s"),
        Figure("their arithmetic / the best matrix product", share, least=0.4),
    ]


def _share(act: Callable[[], object], precision: torch.dtype, effort: Effort) -> tuple[float, float, float]:
    """Share of the machine's best rate, that rate, and seconds. The best of several rounds counts for both."""
    with FlopCounterMode(display=False) as counter:
        act()
    matrices = [torch.randn(side, side, dtype=precision) for side in SIDES[: 1 if effort.quick else None]]
    products = {str(len(m)): (lambda m=m: product(m, m)) for m in matrices}
    found = interleaved({**products, "act": act}, effort.rounds(8))
    seconds = min(found.pop("act"))
    best = max(2 * int(side) ** 3 / min(times) for side, times in found.items())
    return counter.get_total_flops() / seconds / best, best, seconds
