from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.exceptions import DataConversionWarning

from engram.errors import InputError
from engram.inputs import InputForm, Layout, check_classes, check_inputs, check_labels


class Frame:
    """Like pandas: an array on demand."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values.astype(dtype or self.values.dtype)


TABLE = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize(
    "x",
    [
        TABLE,
        TABLE.tolist(),
        TABLE.astype(np.float16),
        TABLE.astype(object),
        TABLE.astype(np.int64),
        TABLE.astype(str),
        np.asfortranarray(TABLE),
        np.repeat(TABLE, 2, axis=0)[::2],
        Frame(TABLE),
        torch.tensor(TABLE),
        [torch.tensor(row) for row in TABLE],
    ],
)
def test_whatever_holds_numbers_becomes_one_float32_array(x: Any) -> None:
    found = check_inputs(x)
    assert found.dtype == np.float32
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, TABLE)


def test_bytes_stay_bytes_and_read_only_arrays_are_fine() -> None:
    x = np.zeros((2, 3), np.uint8)
    x.flags.writeable = False
    assert check_inputs(x).dtype == np.uint8
    assert check_inputs(np.ones((2, 2), bool)).dtype == np.float32


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        (None, "one row per sample"),
        ([1.0, 2.0], "Reshape your data"),
        ("abc", r"a single text: give a list of texts, \[text\] for one"),
        ([["a", "b"]], "must hold numbers"),
        ([[1, 2], [3]], "X cannot be read as an array"),
        (np.zeros((0, 3)), r"0 sample\(s\)"),
        (np.zeros((3, 0)), r"0 feature\(s\)"),
        ([[1.0, np.nan]], "NaN or infinity"),
        ([[1.0, -np.inf]], "NaN or infinity"),
        ([[1.0, 1e300]], "NaN or infinity"),
        ([[1.0, None]], "NaN or infinity"),
        (TABLE + 1j, "Complex data not supported"),
        (TABLE.astype("datetime64[s]"), "must hold numbers"),
        (TABLE.astype("timedelta64[s]"), "must hold numbers"),
        ([[10**400]], "must hold numbers"),
        (scipy.sparse.csr_matrix(TABLE), "Sparse data is not supported.*toarray"),
        (torch.tensor(TABLE, requires_grad=True), "X cannot be read as an array"),
        (torch.tensor(TABLE, dtype=torch.bfloat16), "X cannot be read as an array"),
        ([[{"a": 1}]], "must hold numbers"),
    ],
)
def test_what_holds_no_usable_numbers_is_refused(x: Any, wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        check_inputs(x)


@pytest.mark.parametrize(
    ("shape", "layout", "form"),
    [
        ((5, 7), "table", (7,)),
        ((5, 6, 7), "grey", (1, 6, 7)),
        ((5, 1, 1), "grey", (1, 1, 1)),
        ((5, 6, 7, 3), "channels last", (3, 6, 7)),
        ((5, 4, 4, 3), "channels last", (3, 4, 4)),
        ((5, 4, 4, 1), "channels last", (1, 4, 4)),
        ((5, 6, 7, 4), "channels last", (4, 6, 7)),
        ((5, 3, 6, 7), "channels first", (3, 6, 7)),
        ((5, 1, 4, 4), "channels first", (1, 4, 4)),
        ((5, 3, 4, 4), "channels first", (3, 4, 4)),
        ((5, 3, 32, 3), "channels first", (3, 32, 3)),
    ],
)
def test_the_form_of_the_first_task(shape: tuple[int, ...], layout: Layout, form: tuple[int, ...]) -> None:
    assert InputForm.of(np.zeros(shape)) == InputForm(layout, form)


def test_channels_move_to_the_front_with_their_pixels() -> None:
    x = np.random.default_rng(0).normal(size=(2, 6, 7, 3))
    found = InputForm.of(x).arrange(x)
    assert found.shape == (2, 3, 6, 7)
    np.testing.assert_array_equal(found[1, 2], x[1, :, :, 2])


@pytest.mark.parametrize("shape", [(2, 5, 6, 7), (2, 2, 5, 5), (2, 1, 3, 4, 4)])
def test_other_shapes_have_no_form(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="channels first or last"):
        InputForm.of(np.zeros(shape))


@pytest.mark.parametrize(
    ("first", "later", "wanted"),
    [
        ((2, 5), (2, 6), "X has 6 features, but Learner is expecting 5 features as input"),
        ((2, 5), (2, 5, 5), "table inputs of 5"),
        ((2, 8, 8), (2, 8, 9), "grey inputs of 1 x 8 x 8"),
        ((2, 8, 8), (2, 64), "grey inputs"),
        ((2, 8, 9, 3), (2, 3, 8, 9), "channels last inputs of 8 x 9 x 3"),
        ((2, 3, 8, 9), (2, 1, 8, 9), "channels first inputs of 3 x 8 x 9"),
    ],
)
def test_later_inputs_must_look_like_the_first(first: tuple[int, ...], later: tuple[int, ...], wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        InputForm.of(np.zeros(first)).arrange(np.zeros(later))


def test_grey_images_may_come_with_their_one_channel() -> None:
    assert InputForm.of(np.zeros((2, 8, 8))).arrange(np.zeros((4, 1, 8, 8))).shape == (4, 1, 8, 8)


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        ([3, 1], "i"),
        (["a", "b"], "U"),
        ([np.str_("a"), np.str_("b")], "U"),
        (np.array(["a", "bb"], object), "U"),
        (np.array([3, 1], object), "i"),
        ([True, False], "b"),
        (np.array([3, 1], np.uint8), "u"),
        ([-1, 1], "i"),
        ([1.0, 2.0], "f"),
        (torch.tensor([1, 2]), "i"),
        (Frame([1, 2]), "i"),
        (Frame(["x", "y"]), "U"),
        ((1, 2), "i"),
    ],
)
def test_labels_may_be_numbers_or_strings(y: Any, kind: str) -> None:
    found = check_labels(y, 2)
    assert found.shape == (2,)
    assert found.dtype.kind == kind
    assert found.tolist() == [label.item() if hasattr(label, "item") else label for label in np.asarray(y).tolist()]


@pytest.mark.parametrize(
    ("y", "wanted"),
    [
        (None, "requires y to be passed, but the target y is None"),
        (1, "one label per sample"),
        ([1, 2, 3], "X has 2 samples and y 3 labels"),
        ([], "0 labels"),
        ([[1, 2], [3, 4]], "one label per sample"),
        ([1, "a"], "mix numbers and strings"),
        (np.array([1, "a"], object), "mix numbers and strings"),
        ([0.5, 1.5], "Unknown label type: continuous"),
        ([1.0, np.nan], "NaN or infinity"),
        ([None, 1], "numbers or strings"),
        ([b"a", b"b"], "numbers or strings"),
        (np.array([b"a", b"b"]), "numbers or strings"),
        ([1j, 2j], "numbers or strings"),
        (np.array(["2020", "2021"], "datetime64[Y]"), "numbers or strings"),
        ([[1], [2, 3]], "y cannot be read|numbers or strings"),
    ],
)
def test_other_labels_are_refused(y: Any, wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        check_labels(y, 2)


def test_a_column_of_labels_is_taken_with_scikit_learns_warning() -> None:
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        assert check_labels(np.array([[1], [2]]), 2).tolist() == [1, 2]


def test_classes_are_plain_values() -> None:
    assert check_classes(np.array([3, 1], np.uint8)) == [3, 1]
    assert check_classes(("b", "a")) == ["b", "a"]
    assert check_classes(range(3)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("classes", "wanted"),
    [
        ([], "at least one label"),
        ([1, 1], "twice"),
        ([1, "a"], "mix numbers and strings"),
        ({1, 2}, "must be a list"),
        ("ab", "must be a list"),
        (3, "must be a list"),
        ([[1, 2]], "must be a list"),
        ([0.5], "continuous"),
    ],
)
def test_bad_classes_are_refused(classes: Any, wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        check_classes(classes)
