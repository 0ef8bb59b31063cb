import json

import numpy as np
import pytest

from engram.classes import ClassTable
from engram.errors import InputError


def test_columns_follow_the_order_of_arrival_and_never_move() -> None:
    first = ClassTable().admit(np.array([7, 3, 7]))
    second = first.admit(np.array([1, 3]))
    assert first.columns == {3: 0, 7: 1}
    assert second.columns == {3: 0, 7: 1, 1: 2}
    assert second.seen == [3, 7, 1]
    assert second.encode(np.array([1, 7, 3])).tolist() == [2, 1, 0]
    assert second.sorted().tolist() == [1, 3, 7]
    assert second.sorted_columns() == [2, 0, 1]


def test_announced_classes_are_unseen_until_they_are_admitted() -> None:
    table = ClassTable(["b", "a", "c"]).admit(np.array(["c", "a"]))
    assert table.columns == {"b": 0, "a": 1, "c": 2}
    assert table.unseen().tolist() == [False, True, False]
    with pytest.raises(InputError, match="'d' was not among"):
        table.admit(np.array(["d"]))


def test_labels_keep_the_type_that_they_came_in() -> None:
    assert ClassTable().admit(np.array([1, 2], dtype=np.uint8)).sorted().dtype == np.uint8
    long = ClassTable().admit(np.array(["a"])).admit(np.array(["longer"]))
    assert long.sorted().tolist() == ["a", "longer"]
    with pytest.raises(InputError, match="mix"):
        long.admit(np.array([1]))


def test_the_state_is_json_and_gives_the_same_table_again() -> None:
    table = ClassTable([2, 0, 1]).admit(np.array([1]))
    again = ClassTable.from_state(json.loads(json.dumps(table.state())))
    assert vars(again) == vars(table)


def test_a_hundred_thousand_classes_are_no_trouble() -> None:
    labels = np.arange(100_000)
    table = ClassTable().admit(labels).admit(labels + 1)
    assert len(table.columns) == 100_001
    assert not table.unseen().any()
