"""What is measured of a run, from plain numbers: no gradients, no networks.

``matrix`` is everywhere the accuracy matrix of a run: row i holds the accuracy on tasks 0..i after task i was
learnt.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engram.errors import InputError

__all__ = [
    "accuracy_after_task",
    "average_incremental_accuracy",
    "confusion_matrix",
    "errors_by_task",
    "feature_drift",
    "forgetting",
]

Matrix = Sequence[Sequence[float]]


def confusion_matrix(true: ArrayLike, predicted: ArrayLike, classes: int) -> NDArray[np.int64]:
    """Counts samples by [true class, predicted class]; classes are numbered from 0."""
    rows, columns = _labels(true, classes, "true"), _labels(predicted, classes, "predicted")
    if rows.shape != columns.shape:
        raise InputError(f"There are {len(rows)} true and {len(columns)} predicted labels: give one for each sample.")
    counts = np.bincount(rows * classes + columns, minlength=classes * classes)
    return counts.reshape(classes, classes).astype(np.int64)


def errors_by_task(confusion: ArrayLike, task_of: Sequence[int]) -> tuple[float, float, float]:
    """Accuracy, inter-task error and inner-task error, which sum to 1.

    ``task_of[c]`` is the task of class c. A sample counts as an inter-task error where the predicted class
    belongs to another task than the true one, and as an inner-task error where only the class within the task
    is wrong.
    """
    counts = np.asarray(confusion, dtype=np.int64)
    tasks = np.asarray(task_of)
    if counts.shape != (len(tasks), len(tasks)):
        raise InputError(
            f"The confusion has shape {counts.shape}, and {len(tasks)} classes have a task: make them agree."
        )
    total = int(counts.sum())
    if total == 0:
        raise InputError("The confusion counts no sample: give at least one test sample.")
    right = int(np.trace(counts))
    in_task = int(counts[tasks[:, None] == tasks[None, :]].sum())
    return right / total, (total - in_task) / total, (in_task - right) / total


def accuracy_after_task(matrix: Matrix, test_counts: Sequence[int]) -> list[float]:
    """After each task, the accuracy over all classes seen so far.

    ``test_counts[j]`` is the number of test samples of task j.
    """
    _check_triangle(matrix)
    if len(test_counts) < len(matrix):
        raise InputError(f"{len(matrix)} tasks have only {len(test_counts)} test counts: give one for each task.")
    if any(count <= 0 for count in test_counts):
        raise InputError(f"The test counts are {list(test_counts)}: every task needs at least one test sample.")
    return [float(np.average(row, weights=test_counts[: len(row)])) for row in matrix]


def average_incremental_accuracy(matrix: Matrix, test_counts: Sequence[int]) -> float:
    """The mean over the tasks of :func:`accuracy_after_task`."""
    return float(np.mean(accuracy_after_task(matrix, test_counts)))


def forgetting(matrix: Matrix) -> float | None:
    """How far each earlier task fell from its best accuracy to the last one, on average over those tasks.

    The best is taken over the rows before the last, so a task that ends better than ever counts as a negative
    fall. A single task has no earlier one to forget: None.
    """
    _check_triangle(matrix)
    last = len(matrix) - 1
    if last == 0:
        return None
    falls = [max(row[task] for row in matrix[task:last]) - matrix[last][task] for task in range(last)]
    return float(np.mean(falls))


def feature_drift(first: ArrayLike, now: ArrayLike) -> float:
    """The mean distance between a sample's features then and now; one row for each sample."""
    before, after = np.asarray(first, dtype=np.float64), np.asarray(now, dtype=np.float64)
    if before.ndim != 2 or before.shape != after.shape or len(before) == 0:
        raise InputError(
            f"Features of shapes {before.shape} and {after.shape} cannot be compared: give the same samples "
            f"twice, one row each."
        )
    return float(np.linalg.norm(after - before, axis=1).mean())


def _labels(values: ArrayLike, classes: int, name: str) -> NDArray[np.int64]:
    labels = np.asarray(values)
    if labels.size == 0:
        return np.empty(0, dtype=np.int64)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(
            f"The {name} labels are {labels.dtype} of shape {labels.shape}: give one list of whole numbers."
        )
    if labels.min() < 0 or labels.max() >= classes:
        raise InputError(
            f"The {name} labels run from {labels.min()} to {labels.max()}: they must lie between 0 and {classes - 1}."
        )
    return labels.astype(np.int64)


def _check_triangle(matrix: Matrix) -> None:
    lengths = [len(row) for row in matrix]
    if not lengths or lengths != list(range(1, len(lengths) + 1)):
        raise InputError(f"The accuracy matrix has rows of lengths {lengths}: row i must hold the tasks 0..i.")
