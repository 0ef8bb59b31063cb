import gc
import weakref
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.data import Part, TaskStream, class_order, cut_validation, split_classes
from engram.errors import EngramError, InputError


def numbered(count: int, classes: int) -> Part:
    return Part(np.arange(count)[:, None], np.arange(count) % classes)


@pytest.mark.parametrize(
    ("classes", "tasks", "sizes"),
    [(14, 5, [3, 3, 3, 3, 2]), (10, 10, [1] * 10), (10, 1, [10]), (10, 5, [2] * 5), (11, 4, [3, 3, 3, 2])],
)
def test_classes_are_split_as_evenly_as_possible(classes: int, tasks: int, sizes: list[int]) -> None:
    assert [len(group) for group in split_classes(range(classes), tasks)] == sizes


@given(st.lists(st.text() | st.integers(), min_size=1, max_size=200, unique=True), st.data())
def test_splitting_loses_no_class(classes: list[str | int], data: st.DataObject) -> None:
    groups = split_classes(classes, tasks := data.draw(st.integers(1, len(classes))))
    assert [name for group in groups for name in group] == classes
    sizes = [len(group) for group in groups]
    assert len(groups) == tasks
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("tasks", [0, -1, 4])
def test_an_impossible_number_of_tasks_is_refused(tasks: int) -> None:
    with pytest.raises(InputError, match=r"3 classes cannot make -?\d tasks: choose 1 to 3 tasks"):
        split_classes("abc", tasks)


def test_classes_must_be_distinct_and_tasks_whole() -> None:
    with pytest.raises(InputError, match="class 'a' is listed twice"):
        split_classes(["a", "b", "a"], 2)
    with pytest.raises(InputError, match=r"tasks is 2\.5"):
        split_classes("abc", 2.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="0 classes cannot"):
        split_classes([], 1)
    assert issubclass(InputError, EngramError)
    assert issubclass(EngramError, ValueError)


def test_class_order_zero_is_natural_and_others_shuffle() -> None:
    names = list("abcdefghij")
    assert class_order(names) == names
    assert class_order(names, 3) == class_order(names, 3) != names
    assert class_order(names, 3) != class_order(names, 4)
    assert sorted(class_order(names, 3)) == names
    with pytest.raises(InputError, match="negative"):
        class_order(names, -1)


def test_a_part_needs_a_label_per_sample_and_copies_its_rows() -> None:
    with pytest.raises(InputError, match="3 samples came with 2 labels"):
        Part(np.zeros((3, 1)), np.zeros(2))
    part = numbered(9, 3)
    some = part.only([0, 2])
    assert len(some) == 6
    assert set(some.y) == {0, 2}
    some.x[:] = -1
    assert part.x.min() == 0


def test_the_validation_cut_is_random_complete_and_always_the_same() -> None:
    validation, test = cut_validation(numbered(10_000, 10))
    again, _ = cut_validation(numbered(10_000, 10))
    assert (len(validation), len(test)) == (3000, 7000)
    rows = np.concatenate([validation.x, test.x]).ravel()
    assert np.array_equal(np.sort(rows), np.arange(10_000))
    assert np.array_equal(validation.x, again.x)
    assert not np.array_equal(validation.x.ravel(), np.arange(3000))
    assert np.array_equal(validation.x.ravel() % 10, validation.y)
    assert np.array_equal(test.x.ravel() % 10, test.y)
    assert not np.array_equal(cut_validation(numbered(10_000, 10), seed=1)[0].x, validation.x)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.5, 2.0])
def test_a_cut_that_leaves_nothing_is_refused(fraction: float) -> None:
    with pytest.raises(InputError, match="fraction"):
        cut_validation(numbered(10, 2), fraction)


def test_the_stream_hands_each_task_out_once_and_then_ends() -> None:
    stream = TaskStream(numbered(12, 4), [[2, 0], [3], [1]])
    assert len(stream) == 3
    tasks = list(stream)
    assert [task.index for task in tasks] == [0, 1, 2]
    assert [task.classes for task in tasks] == [(2, 0), (3,), (1,)]
    assert [set(task.y.tolist()) for task in tasks] == [{0, 2}, {3}, {1}]
    assert all(np.array_equal(task.x.ravel() % 4, task.y) for task in tasks)
    assert sum(len(task.y) for task in tasks) == 12
    assert len(stream) == 0
    assert next(stream, None) is None
    with pytest.raises(InputError, match="make a new TaskStream"):
        list(stream)


def test_a_stream_taken_up_again_goes_on() -> None:
    stream = TaskStream(numbered(12, 4), [[0], [1], [2], [3]], start=1)
    assert next(stream).index == 1
    assert [task.index for task in stream] == [2, 3]
    assert list(TaskStream(numbered(12, 4), [[0], [1, 2, 3]], start=2)) == []


def test_the_stream_holds_nothing_of_a_task() -> None:
    part = numbered(12, 4)
    stream = TaskStream(part, [[0, 1, 2, 3]])
    task = next(stream)
    assert not np.shares_memory(task.x, part.x)
    assert not np.shares_memory(task.y, part.y)
    with pytest.raises(FrozenInstanceError):
        task.index = 1  # pyright: ignore[reportAttributeAccessIssue]
    left = [weakref.ref(task), weakref.ref(task.x), weakref.ref(task.y)]
    del task
    gc.collect()
    assert [ref() for ref in left] == [None, None, None]
    assert list(stream) == []


@pytest.mark.parametrize(
    ("groups", "start", "says"),
    [
        ([[0], [0, 1]], 0, "class 0 is listed twice"),
        ([[0], []], 0, "at least one class"),
        ([], 0, "at least one class"),
        ([[0], [7]], 0, "class 7 has no samples"),
        ([[0], [1]], 3, "start 3"),
        ([[0], [1]], -1, "start -1"),
    ],
)
def test_groups_that_make_no_sense_are_refused(groups: list[list[int]], start: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        TaskStream(numbered(12, 4), groups, start)
