"""The report's figures, made from the evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from engram.report.content import Picture, percent
from engram.report.evidence import Evidence, protocols
from engram.report.style import CLASSES, look, new_figure
from engram.study.folder import Found
from engram.study.statistics import Summary

ACROSS = 4
"""panels side by side"""
FIGURE_4 = ("finetune", "fd+gfr", "owm", "owm+ssl")
FEW_TASKS = 5
"""up to which a confusion shows its numbers"""


def after_each_task(evidence: Evidence, column: str) -> Picture:
    figure, axes = _lines_figure()
    for row in evidence.rows_in(column):
        after = evidence.over_tasks(column, row, "accuracy_after_task")
        if len(after) == 1 < evidence.tasks(column):
            own = look(row)
            axes.axhline(after[0].mean, color=own.light, linestyle=own.dash, label=f"{row} (all data at once)")
        else:
            _line(axes, row, range(1, len(after) + 1), after)
    axes.set(xlabel="tasks learnt", ylabel="accuracy on all classes so far", ylim=(0, 1.02))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    _finish(figure, axes, evidence.tasks(column))
    ends = _ends(evidence, column, "accuracy_after_task", percent)
    return Picture(
        f"after-{column}",
        f"{column}: accuracy after each task",
        figure,
        "Accuracy on the test data of all classes learnt so far; bands are one standard error over seeds.",
        f"Line chart. After the last task, in percent: {ends}.",
        protocols(evidence.all_results(column)),
    )


def drift(evidence: Evidence, column: str) -> Picture | None:
    """Figure 4's rows where some are there, else all."""
    having = [row for row in evidence.rows_in(column) if evidence.over_tasks(column, row, "drift")]
    rows = [row for row in having if row in FIGURE_4] or having
    if not rows:
        return None
    figure, axes = _lines_figure()
    for row in rows:
        after = evidence.over_tasks(column, row, "drift")
        _line(axes, row, range(2, len(after) + 2), after)
    axes.set(xlabel="tasks learnt", ylabel="mean distance to the features after task 1")
    axes.set_ylim(bottom=0)
    _finish(figure, axes, evidence.tasks(column))
    ends = _ends(evidence, column, "drift", lambda value: f"{value:.2f}", rows)
    return Picture(
        f"drift-{column}",
        f"{column}: drift of the first task's features",
        figure,
        "Mean Euclidean distance between the features of the first task's validation data now and after task 1.",
        f"Line chart. After the last task: {ends}.",
        protocols(one for row in rows for one in evidence.results(column, row)),
    )


def traces(evidence: Evidence, column: str) -> Picture | None:
    """How much of each layer's input space the projectors leave free."""
    rows = [row for row in evidence.rows_in(column) if _traces_of(evidence.results(column, row)[0])]
    if not rows:
        return None
    figure, panels = _panels(len(rows), 2.7)
    for row, axes in zip(rows, panels, strict=True):
        shares = [_traces_of(one) for one in evidence.results(column, row)]
        for index, layer in enumerate(shares[0][0]):
            tasks = range(1, len(shares[0]) + 1)
            means = [np.mean([one[task - 1][layer] for one in shares if layer in one[task - 1]]) for task in tasks]
            axes.plot(tasks, means, marker="os^Dvph"[index % 7], label=layer, color=CLASSES[index % len(CLASSES)])
        axes.set(title=row, yscale="log", xlabel="tasks learnt", ylabel="share still free")
        _ticks(axes, len(shares[0]))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return Picture(
        f"traces-{column}",
        f"{column}: what the projectors leave free",
        figure,
        "The trace of each layer's projector as a share of its input dimensions, mean over seeds, on a logarithmic "
        "scale: 1 is free, 0 fully protected.",
        f"Line charts of the projector traces of {', '.join(rows)}, a line for each layer, falling from task to task.",
        protocols(one for row in rows for one in evidence.results(column, row)),
    )


def confusion(evidence: Evidence, column: str) -> Picture:
    """Which tasks are taken for which."""
    rows = evidence.rows_in(column)
    figure, panels = _panels(len(rows), 2.9)
    shares = {row: np.mean([_between_tasks(one) for one in evidence.results(column, row)], axis=0) for row in rows}
    for (row, share), axes in zip(shares.items(), panels, strict=True):
        _heat(axes, row, share)
    diagonal = ", ".join(f"{row} {percent(float(np.trace(share)) / len(share))}" for row, share in shares.items())
    return Picture(
        f"confusion-{column}",
        f"{column}: confusion between tasks",
        figure,
        "Share of each task's test samples whose predicted class belongs to the task below, after the last task; mean "
        "over seeds. On the diagonal the task is right.",
        f"Heat maps. Mean share of samples whose task is right, in percent: {diagonal}.",
        protocols(one for row in rows for one in evidence.results(column, row)),
    )


def _between_tasks(one: Found) -> np.ndarray:
    counts = np.array(one.result["confusion"], dtype=float)
    groups = one.result["groups"]
    between = np.array([[counts[np.ix_(true, predicted)].sum() for predicted in groups] for true in groups])
    return between / between.sum(1, keepdims=True)


def _heat(axes: Axes, row: str, share: np.ndarray) -> None:
    axes.imshow(share, vmin=0, vmax=1, cmap="Blues")
    axes.grid(False)
    tasks = range(len(share))
    axes.set(title=row, xlabel="predicted task", ylabel="true task")
    if len(share) > FEW_TASKS:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        return
    axes.set_xticks(tasks, [str(task + 1) for task in tasks])
    axes.set_yticks(tasks, [str(task + 1) for task in tasks])
    for true in tasks:
        for predicted in tasks:
            value = share[true, predicted]
            shade = "#ffffff" if value > 0.5 else "#101820"
            axes.text(predicted, true, f"{100 * value:.0f}", ha="center", va="center", color=shade, fontsize=9)


def _traces_of(one: Found) -> list[dict[str, float]]:
    return [traces for traces in one.result.get("projector_traces") or [] if traces]


def _lines_figure() -> tuple[Figure, Axes]:
    figure = new_figure(6.0, 4.2)
    return figure, figure.add_subplot()


def _line(axes: Axes, row: str, tasks: Sequence[int], after: Sequence[Summary]) -> None:
    own = look(row)
    means = np.array([one.mean for one in after])
    errors = np.array([one.error or 0.0 for one in after])
    axes.plot(tasks, means, color=own.light, marker=own.marker or None, linestyle=own.dash, label=row)
    axes.fill_between(tasks, means - errors, means + errors, color=own.light, alpha=0.18, linewidth=0)


def _finish(figure: Figure, axes: Axes, tasks: int) -> None:
    _ticks(axes, tasks)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _ticks(axes: Axes, tasks: int) -> None:
    step = -(-tasks // 10)
    axes.set_xticks(range(step, tasks + 1, step))
    axes.set_xlim(0.7, tasks + 0.3)


def _panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    across = min(ACROSS, count)
    down = math.ceil(count / across)
    figure = new_figure(max(4.2, 2.9 * across), height * down + 0.6)
    grid = figure.subplots(down, across, squeeze=False).ravel().tolist()
    for spare in grid[count:]:
        spare.remove()
    return figure, grid[:count]


def _ends(evidence: Evidence, column: str, name: str, shown, rows: Sequence[str] | None = None) -> str:
    ends = []
    for row in rows or evidence.rows_in(column):
        after = evidence.over_tasks(column, row, name)
        if after:
            ends.append(f"{row} {shown(after[-1].mean)}")
    return ", ".join(ends)
