"""Sums against the matrices that they stand for."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engram.closed_form import triangles
from engram.closed_form.holdout import fair_sample, held_out, row_hashes
from engram.closed_form.sums import Sums
from engram.errors import InputError
from engram.lesson import State

CPU = torch.device("cpu")
MANY = 1 << 30


def data(rows: int = 60, width: int = 7, columns: int = 3, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    features = torch.randn(rows, width, generator=random, dtype=torch.float64)
    y = torch.randint(columns, (rows,), generator=random)
    return features, y, torch.rand(rows, generator=random) < 0.3


def summed(*parts: tuple[Tensor, Tensor, Tensor], limit: int = MANY, columns: int = 3) -> Sums:
    sums = Sums(parts[0][0].shape[1], limit, CPU)
    sums.widen(columns)
    for part in parts:
        sums.add(*part)
    return sums


def products(sums: Sums) -> tuple[Tensor, Tensor]:
    """Of rows learnt from and of rows held out, whole."""
    low = sums.moments(0).square.tril()
    return low + low.tril(-1).T, sums.held_products(torch.eye(sums.width, dtype=sums.products.dtype))


def assert_equal_sums(one: Sums, other: Sums) -> None:
    for mine, theirs in zip(products(one), products(other), strict=True):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(one.by_class, other.by_class)
    assert torch.equal(one.counts, other.counts)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that blocks beside the diagonal are tried too."""
    monkeypatch.setattr(triangles, "BLOCK", 3)


@pytest.mark.parametrize("limit", [0, MANY])
def test_sums_are_the_products_and_class_sums_of_their_rows(limit: int) -> None:
    features, y, held = data()
    sums = summed((features[:25], y[:25], held[:25]), (features[25:], y[25:], held[25:]), limit=limit)
    assert len(sums.products) == (3 if limit else 1)
    learnt, apart = products(sums)
    torch.testing.assert_close(learnt, features[~held].T @ features[~held])
    torch.testing.assert_close(apart, features[held].T @ features[held])
    both = sums.moments(2)
    torch.testing.assert_close(both.square.tril(), (features.T @ features).tril())
    for column in range(3):
        for part, side in enumerate((~held, held)):
            rows = side & (y == column)
            torch.testing.assert_close(sums.by_class[part, column], features[rows].sum(0))
            assert sums.counts[part, column] == rows.sum()


@pytest.mark.parametrize("limit", [0, MANY])
def test_what_is_added_and_taken_out_leaves_nothing(limit: int) -> None:
    first, second = data(seed=1), data(seed=2)
    sums = summed(first, second, limit=limit)
    sums.add(*second, sign=-1)
    assert_equal_sums(sums, summed(first, limit=limit))
    sums.add(*first, sign=-1)
    assert not any(tensor.any() for tensor in sums.state().tensors.values())


@pytest.mark.parametrize("limit", [0, MANY])
@pytest.mark.parametrize("stays", [0, 1])
def test_a_part_of_which_no_row_is_left_is_zero_beside_the_other_one(limit: int, stays: int) -> None:
    features, y, held = data()
    sums = summed((features[:25], y[:25], held[:25]), (features[25:], y[25:], held[25:]), limit=limit)
    gone = held if stays == 0 else ~held
    sums.add(features[gone], y[gone], held[gone], sign=-1)
    assert_equal_sums(sums, summed((features[~gone], y[~gone], held[~gone]), limit=limit))
    assert not products(sums)[1 - stays].any()


def test_more_than_was_learnt_cannot_be_taken_out() -> None:
    features, y, held = data()
    sums = summed((features, y, held))
    with pytest.raises(InputError, match="not all learnt"):
        sums.add(features[:1].repeat(61, 1), y[:1].repeat(61), held[:1].repeat(61), sign=-1)
    assert_equal_sums(sums, summed((features, y, held)))


def test_a_class_with_products_of_its_own_leaves_no_trace() -> None:
    features, y, held = data()
    sums = summed((features, y, held))
    sums.forget([1])
    rest = y != 1
    assert_equal_sums(sums, summed((features[rest], y[rest], held[rest])))


def test_classes_are_told_apart_as_long_as_there_is_room() -> None:
    features, y, held = data()
    room = 2 * 7 * 8 * 8
    sums = Sums(7, room, CPU)
    sums.widen(2)
    first = y < 2
    sums.add(features[first], y[first], held[first])
    assert (sums.apart, len(sums.products)) == (True, 2)
    sums.widen(3)
    assert (sums.apart, len(sums.products)) == (False, 1)
    sums.add(features[~first], y[~first], held[~first])
    assert_equal_sums(sums, summed((features, y, held)))


@pytest.mark.parametrize("limits", [(0, 0), (MANY, MANY), (MANY, 0), (0, MANY)])
def test_merged_sums_are_those_of_all_rows(limits: tuple[int, int]) -> None:
    first, second = data(seed=1), data(seed=2)
    ours, theirs = summed(first, limit=limits[0]), summed(second, limit=limits[1])
    ours.widen(4)
    ours.merge(theirs, {0: 3, 1: 0, 2: 1})
    features, y, held = second
    moved = torch.tensor([3, 0, 1])[y]
    assert_equal_sums(ours, summed(first, (features, moved, held), columns=4))


def test_a_state_is_a_copy_of_everything() -> None:
    sums = summed(data())
    state = sums.state()
    twin = Sums.from_state(State(state.tensors, state.meta))
    assert_equal_sums(twin, sums)
    twin.add(*data(seed=5))
    assert_equal_sums(sums, summed(data()))


# --- held-out rows ---


def test_a_rows_hash_is_its_own_whatever_its_place_and_its_type() -> None:
    x = torch.randint(256, (3000, 3, 5, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    hashes = row_hashes(x)
    order = torch.randperm(len(x))
    assert torch.equal(row_hashes(x[order]), hashes[order])
    assert torch.equal(row_hashes(x.float()), hashes)
    assert torch.equal(torch.cat([row_hashes(row[None]) for row in x[:50]]), hashes[:50])
    assert len(hashes.unique()) == len(x)
    assert torch.equal(row_hashes(torch.tensor([[0.0]])), row_hashes(torch.tensor([[-0.0]])))


@pytest.mark.parametrize("rows", [torch.arange(20_000.0)[:, None], torch.randn(20_000, 30), torch.eye(5_000)])
def test_about_one_row_in_ten_is_held_out(rows: Any) -> None:
    share = float(held_out(rows).double().mean())
    assert abs(share - 0.1) < 4 * np.sqrt(0.09 / len(rows))


def test_a_sample_does_not_depend_on_the_order_of_the_rows() -> None:
    x = torch.randn(500, 4)
    assert torch.equal(fair_sample(x, 50), fair_sample(x[torch.randperm(500)], 50))
    assert len(fair_sample(x, 50)) == 50
    assert len(fair_sample(x[:3], 50)) == 3
