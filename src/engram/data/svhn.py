"""SVHN's cropped digits in the official .mat layout, checked by structure."""

from pathlib import Path
from typing import Any

import numpy as np

from engram.data.sets import SetInfo
from engram.data.task import Part
from engram.errors import DataError

NAMES = tuple("0123456789")


def read_svhn(folder: Path, info: SetInfo, way_out: str) -> tuple[Part, Part, tuple[str, ...]]:
    """Train, test and the names of the classes."""
    train = read_mat(folder / info.train_files[0], info.train, info.shape, way_out)
    return train, read_mat(folder / info.test_files[0], info.test, info.shape, way_out), NAMES


def read_mat(path: Path, count: int, shape: tuple[int, int, int], way_out: str) -> Part:
    """X is height x width x channels x samples; y has the labels 1 to 10, where 10 stands for the digit 0."""
    images, labels = _variables(path, way_out)
    channels, height, width = shape
    wanted = (height, width, channels, count)
    if images.dtype != np.uint8 or images.shape != wanted:
        found = f"{images.dtype} {' x '.join(map(str, images.shape))}"
        raise DataError(f"{path} has images of {found} instead of uint8 {' x '.join(map(str, wanted))}: {way_out}")
    y = _digits(path, labels, count, way_out)
    return Part(np.ascontiguousarray(images.transpose(3, 2, 0, 1)), y)


def _digits(path: Path, labels: np.ndarray, count: int, way_out: str) -> np.ndarray:
    if labels.dtype.kind not in "iuf" or labels.size != count:
        raise DataError(f"{path} has {labels.size} labels of {labels.dtype} instead of {count} numbers: {way_out}")
    present = set(labels.ravel().tolist())
    if present - set(range(1, 11)):
        wrong = next(iter(present - set(range(1, 11))))
        raise DataError(f"{path} has the label {wrong}, outside 1 to 10: {way_out}")
    if len(present) < len(NAMES):
        absent = min(set(range(1, 11)) - present)
        raise DataError(f"{path} has no image with the label {absent}: {way_out}")
    return labels.ravel().astype(np.int64) % 10


def _variables(path: Path, way_out: str) -> tuple[np.ndarray, np.ndarray]:
    if not path.is_file():
        raise DataError(f"{path} is missing: {way_out}")
    found = _load(path, way_out)
    for key in ("X", "y"):
        if not isinstance(found.get(key), np.ndarray):
            raise DataError(f"{path} has no array {key!r}: {way_out}")
    return found["X"], found["y"]


def _load(path: Path, way_out: str) -> dict[str, Any]:
    from scipy.io import loadmat

    try:
        return loadmat(str(path), variable_names=["X", "y"])
    # What the reader raises on garbage is no fixed list: TypeError, KeyError, zlib.error, MemoryError, ...
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".split("\n")[0]
        raise DataError(f"{path} is truncated or no .mat file ({reason}): {way_out}") from None
