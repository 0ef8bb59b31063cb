"""Pictures of stored results."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from engram import files
from engram.errors import FileError
from engram.report.tables import protocol

NAMED_CLASSES, COUNTED_CLASSES = 100, 15
"""up to which a confusion names its classes, and says its numbers"""
LONGEST_NAME = 24


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


def confusion_figure(confusion: NDArray[np.int64], classes: Sequence[str], path: Path) -> None:
    """Which classes are taken for which, as shares of each true class; names as far as there is room."""
    share = confusion / confusion.sum(1, keepdims=True).clip(1)
    side = min(12.0, 3.5 + 0.3 * len(classes))
    figure = Figure(figsize=(side, side), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.imshow(share, vmin=0, vmax=1, cmap="Blues")
    axes.set(xlabel="predicted class", ylabel="true class")
    if len(classes) <= NAMED_CLASSES:
        names = [plain_label(name) for name in classes]
        axes.set_xticks(range(len(names)), names, rotation=90, parse_math=False)
        axes.set_yticks(range(len(names)), names, parse_math=False)
    if len(classes) <= COUNTED_CLASSES:
        for (true, predicted), value in np.ndenumerate(share):
            shade = "#ffffff" if value > 0.5 else "#101820"
            axes.text(predicted, true, f"{100 * value:.0f}", ha="center", va="center", color=shade, fontsize=8)
    axes.set_title(f"{confusion.sum():,} samples; each row in percent of its class", fontsize=8)
    files.make_folder(path.resolve().parent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that the font lacks
        try:
            figure.savefig(path, dpi=150)
        except (OSError, ValueError) as error:  # an ending that stands for no kind of picture is a ValueError
            raise FileError(
                f"{path} cannot be written as a picture ({error}): choose another name, such as x.png."
            ) from error


def plain_label(name: str) -> str:
    """Short, and without what a font cannot draw."""
    short = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return "".join(letter if letter.isprintable() else "?" for letter in short)
