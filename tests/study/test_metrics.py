from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import InputError
from engram.study import metrics

THREE_TASKS = [[0.9], [0.6, 0.8], [0.3, 0.9, 1.0]]


def test_confusion_counts_true_by_predicted() -> None:
    confusion = metrics.confusion_matrix([0, 0, 1, 2, 2], [0, 1, 1, 0, 2], 3)
    assert confusion.dtype == np.int64
    assert confusion.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]


def test_confusion_of_small_integer_types_does_not_wrap() -> None:
    labels = np.array([199, 0], dtype=np.uint8)
    confusion = metrics.confusion_matrix(labels, labels, 200)
    assert confusion[199, 199] == 1
    assert confusion.sum() == 2


def test_confusion_of_nothing() -> None:
    assert metrics.confusion_matrix([], [], 2).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("true", "predicted", "reason"),
    [
        ([0, 1], [0], "2 true and 1 predicted"),
        ([0, 3], [0, 1], "true labels run from 0 to 3"),
        ([0, 1], [-1, 1], "predicted labels run from -1"),
        ([0.5], [0], "true labels are float64"),
        ([[0]], [[0]], "shape"),
    ],
)
def test_labels_that_make_no_sense(true: Any, predicted: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        metrics.confusion_matrix(true, predicted, 3)


def test_errors_by_hand() -> None:
    # Classes 0 and 3 make task 0, classes 1 and 2 task 1: 11 of 20 are right, and 4 wrong within their task.
    confusion = [[4, 1, 0, 2], [0, 3, 1, 1], [2, 1, 2, 0], [0, 1, 0, 2]]
    accuracy, inter, inner = metrics.errors_by_task(confusion, [0, 1, 1, 0])
    assert (accuracy, inter, inner) == pytest.approx((11 / 20, 5 / 20, 4 / 20), abs=1e-15)


def definition(true: Sequence[int], predicted: Sequence[int], task_of: Sequence[int]) -> tuple[float, float]:
    pairs = list(zip(true, predicted, strict=True))
    inter = sum(task_of[y] != task_of[guess] for y, guess in pairs)
    inner = sum(task_of[y] == task_of[guess] and y != guess for y, guess in pairs)
    return inter / len(pairs), inner / len(pairs)


@given(
    samples=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60),
    task_of=st.lists(st.integers(0, 2), min_size=5, max_size=5),
)
def test_errors_follow_the_definition_and_sum_to_one(samples: list[tuple[int, int]], task_of: list[int]) -> None:
    true, predicted = zip(*samples, strict=True)
    accuracy, inter, inner = metrics.errors_by_task(metrics.confusion_matrix(true, predicted, 5), task_of)
    assert (inter, inner) == pytest.approx(definition(true, predicted, task_of), abs=1e-15)
    assert abs(accuracy + inter + inner - 1) < 1e-12


def test_one_task_has_no_inter_task_error_and_single_class_tasks_no_inner_one() -> None:
    confusion = [[3, 1], [2, 4]]
    assert metrics.errors_by_task(confusion, [0, 0])[1] == 0
    assert metrics.errors_by_task(confusion, [0, 1])[2] == 0


@pytest.mark.parametrize(("confusion", "task_of"), [([[1, 0], [0, 1]], [0]), ([[1, 0]], [0]), ([[0]], [0]), ([], [])])
def test_a_confusion_without_meaning(confusion: Any, task_of: list[int]) -> None:
    with pytest.raises(InputError):
        metrics.errors_by_task(confusion, task_of)


def test_accuracy_over_the_classes_seen_weighs_tasks_by_their_samples() -> None:
    after = metrics.accuracy_after_task(THREE_TASKS, [10, 30, 60])
    assert after == pytest.approx([0.9, (6 + 24) / 40, (3 + 27 + 60) / 100], abs=1e-15)
    assert all(type(value) is float for value in after)


def test_average_incremental_accuracy_by_hand() -> None:
    average = metrics.average_incremental_accuracy(THREE_TASKS, [10, 30, 60])
    assert average == pytest.approx((0.9 + 0.75 + 0.9) / 3, abs=1e-15)


def test_forgetting_by_hand() -> None:
    assert metrics.forgetting(THREE_TASKS) == pytest.approx((0.6 - 0.1) / 2, abs=1e-15)


def test_forgetting_counts_from_the_best_not_the_first() -> None:
    assert metrics.forgetting([[0.5], [0.8, 1.0], [0.4, 1.0, 1.0]]) == pytest.approx((0.4 + 0.0) / 2, abs=1e-15)


def test_a_single_task_forgets_nothing_that_could_be_measured() -> None:
    assert metrics.forgetting([[0.9]]) is None


@pytest.mark.parametrize("matrix", [[], [[]], [[0.1, 0.2]], [[0.1], [0.2]]])
def test_a_matrix_that_is_no_triangle(matrix: list[list[float]]) -> None:
    with pytest.raises(InputError, match="row i must hold"):
        metrics.forgetting(matrix)
    with pytest.raises(InputError, match="row i must hold"):
        metrics.accuracy_after_task(matrix, [1, 1])


@pytest.mark.parametrize("counts", [[10, 20], [10, 20, 0]])
def test_counts_that_do_not_fit(counts: list[int]) -> None:
    with pytest.raises(InputError, match="test"):
        metrics.accuracy_after_task(THREE_TASKS, counts)


def test_drift_is_the_mean_distance() -> None:
    first = np.zeros((2, 2), dtype=np.float32)
    assert metrics.feature_drift(first, np.array([[3.0, 4.0], [0.0, 1.0]])) == pytest.approx(3.0, abs=1e-15)
    assert metrics.feature_drift(first, first) == 0.0


@pytest.mark.parametrize("now", [np.zeros((3, 2)), np.zeros(2), np.zeros((2, 3))])
def test_drift_of_different_samples_is_refused(now: np.ndarray) -> None:
    with pytest.raises(InputError, match="cannot be compared"):
        metrics.feature_drift(np.zeros((2, 2)), now)
    with pytest.raises(InputError, match="cannot be compared"):
        metrics.feature_drift(np.zeros((0, 2)), np.zeros((0, 2)))
