"""What users pass in, checked and brought into one form."""

from __future__ import annotations

import warnings
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning

from engram.errors import InputError

CHANNELS = (1, 3, 4)
Layout = Literal["table", "grey", "channels last", "channels first", "texts"]


@dataclass(frozen=True)
class InputForm:
    """What inputs look like, fixed by the first task: `shape` is (numbers,), (channels, height, width), of texts ()."""

    layout: Layout
    shape: tuple[int, ...]
    kind: str = field(default="float32", compare=False)
    """of the first task's numbers, uint8 or float32, and object of texts; later numbers may be of either"""

    @classmethod
    def of(cls, x: np.ndarray) -> InputForm:
        if x.dtype == object:
            return cls("texts", (), x.dtype.name)
        if x.ndim == 2:
            return cls("table", (x.shape[1],), x.dtype.name)
        if x.ndim == 3:
            return cls("grey", (1, *x.shape[1:]), x.dtype.name)
        if x.ndim == 4 and x.shape[3] in CHANNELS and (x.shape[1] not in CHANNELS or x.shape[1] > x.shape[3]):
            return cls("channels last", (x.shape[3], x.shape[1], x.shape[2]), x.dtype.name)
        if x.ndim == 4 and x.shape[1] in CHANNELS:
            return cls("channels first", x.shape[1:], x.dtype.name)
        raise InputError(
            f"X has the shape {x.shape}: give a table (samples x numbers), grey images (samples x height x width) "
            "or images of 1, 3 or 4 channels, the channels first or last."
        )

    @property
    def given(self) -> tuple[int, ...]:
        """The shape of a sample as users give it."""
        if self.layout == "channels last":
            return (*self.shape[1:], self.shape[0])
        return self.shape[1:] if self.layout == "grey" else self.shape

    def arrange(self, x: np.ndarray) -> np.ndarray:
        """x as samples × shape, if it looks like the first task's inputs."""
        if (x.dtype == object) != (self.layout == "texts"):
            found = ("numbers", "texts") if self.layout == "texts" else ("texts", "numbers")
            raise InputError(f"X holds {found[0]}, but the first task had {found[1]}: give the same kind of inputs.")
        found = x[:, None] if self.layout == "grey" and x.ndim == 3 else x
        if self.layout == "channels last" and x.ndim == 4:
            found = x.transpose(0, 3, 1, 2)
        if found.shape[1:] != self.shape:
            turned = self.shape[1:] + self.shape[:1] if self.layout == "channels last" else self.shape
            wanted = " x ".join(map(str, turned))
            if self.layout == "table" and x.ndim == 2:
                # the wording that scikit-learn's own checks look for
                raise InputError(
                    f"X has {x.shape[1]} features, but Learner is expecting {self.shape[0]} features as input."
                )
            raise InputError(f"X has the shape {x.shape}, but the first task had {self.layout} inputs of {wanted}.")
        return found


def check_inputs(x: Any) -> np.ndarray:
    """x as an array of uint8, or of finite float32 numbers, or of texts (the only ones that are objects)."""
    if isinstance(x, str):
        raise InputError("X is a single text: give a list of texts, [text] for one.")
    if isinstance(x, list | tuple) and any(isinstance(value, str) for value in x):
        return _texts(x)  # NumPy would make texts of numbers beside them
    array = _as_array(x, "X")
    if array.ndim == 1 and any(isinstance(value, str) for value in array.tolist()):
        return _texts(array.tolist())
    if array.dtype.kind == "c":
        raise InputError("Complex data not supported: give X as real numbers, say np.abs(X).")
    if array.dtype.kind in "mMV":
        raise InputError(f"X must hold numbers, but has the type {array.dtype}.")
    if array.dtype.kind in "OSU":
        try:
            array = array.astype(np.float32)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"X must hold numbers, but has the type {array.dtype}.") from None
    if array.ndim < 2:
        raise InputError(
            f"X has the shape {array.shape}: give one row per sample. "
            "Reshape your data, with X.reshape(1, -1) if it is a single sample."
        )
    if 0 in array.shape:
        missing = "sample(s)" if len(array) == 0 else "feature(s)"
        raise InputError(f"X has 0 {missing} (shape={array.shape}) while a minimum of 1 is required.")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(array, dtype=np.float32)
    if not np.isfinite(array).all():
        raise InputError("X contains NaN or infinity: remove or fill those values first.")
    return array


def _texts(values: Sequence[Any]) -> np.ndarray:
    """One string a sample, none of them blank."""
    texts = np.empty(len(values), dtype=object)
    for index, text in enumerate(values):
        if not isinstance(text, str):
            raise InputError(f"X holds texts, but sample {index} is {text!r}: give a string for each sample.")
        if not text.strip():
            raise InputError(f"X holds an empty text, sample {index}: leave out samples without text.")
        texts[index] = str(text)
    return texts


def check_labels(y: Any, samples: int | None) -> np.ndarray:
    """y as a one-dimensional array of numbers or strings, one per sample where these are counted."""
    if y is None:
        raise InputError("Learner requires y to be passed, but the target y is None: give one label per sample.")
    labels = _as_labels(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        message = "A column-vector y was passed when a 1d array was expected: pass y.ravel()."
        warnings.warn(message, DataConversionWarning, stacklevel=4)
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InputError(f"y has the shape {labels.shape}: give one label per sample.")
    if samples is not None and len(labels) != samples:
        raise InputError(f"X has {samples} samples and y {len(labels)} labels: give one label per sample.")
    return labels


def check_classes(classes: Any) -> list[Any]:
    """The classes as a list without repetition, numbers or strings."""
    labels = _as_labels([] if isinstance(classes, str | Set) else classes)
    if labels.ndim != 1 or not len(labels):
        raise InputError("classes must be a list of at least one label, such as [0, 1, 2].")
    listed = labels.tolist()
    if len(set(listed)) < len(listed):
        raise InputError("classes lists a label twice: list each once.")
    return listed


def same_kind(known: list[Any], new: list[Any]) -> None:
    """Refuse to mix numbers and strings, which have no common order."""
    if len({isinstance(label, str) for label in [*known, *new]}) > 1:
        raise InputError("Labels mix numbers and strings: use one kind for all classes.")


def _as_array(values: Any, name: str) -> np.ndarray:
    if issparse(values):
        raise InputError(f"Sparse data is not supported: give {name} as a dense array, with {name}.toarray().")
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists; tensors on a GPU or with gradients
        raise InputError(f"{name} cannot be read as an array: {error}") from None


def _as_labels(y: Any) -> np.ndarray:
    values = _as_array(y, "y")
    if values.dtype == object or (values.dtype.kind in "SU" and not isinstance(y, np.ndarray)):
        # np.asarray would turn [1, "a"] into two strings
        listed = np.asarray(y, dtype=object).ravel().tolist()
        same_kind([], listed)
        if any(not isinstance(label, str | int | float | np.generic) for label in listed):
            raise InputError("Labels must be numbers or strings: give one per sample.")
        values = np.asarray(listed).reshape(np.shape(np.asarray(y, dtype=object)))
    if values.dtype.kind not in "biufU":
        raise InputError(f"Labels must be numbers or strings, not {values.dtype}.")
    if values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise InputError("Labels contain NaN or infinity.")
        if (values != np.floor(values)).any():
            raise InputError("Unknown label type: continuous numbers are not classes.")
    return values
