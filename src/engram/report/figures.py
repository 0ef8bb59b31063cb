"""Pictures of stored results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from engram.report.tables import protocol


def accuracy_figure(results: list[Mapping[str, Any]], path: Path) -> None:
    """Accuracy over all classes seen so far after each task; joint training, known only at the end, is a line."""
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for index, result in enumerate(results):
        after = result["accuracy_after_task"]
        if len(after) == 1 < result["tasks"]:
            axes.axhline(after[0], color=f"C{index}", linestyle="--", label=f"{result['recipe']} (all data at once)")
        else:
            axes.plot(range(1, len(after) + 1), after, color=f"C{index}", marker="o", label=result["recipe"])
    axes.set(xlabel="tasks learnt", ylabel="accuracy on all classes so far", ylim=(0, 1.02))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower left")
    axes.set_title(protocol(results[0]), fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
