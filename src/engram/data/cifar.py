"""CIFAR-10 and CIFAR-100 in the official binary layout, checked by structure."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from engram.data.sets import SetInfo
from engram.data.task import Part
from engram.errors import DataError

COARSE_CLASSES = 20
CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def read_cifar10(folder: Path, info: SetInfo, way_out: str) -> tuple[Part, Part, tuple[str, ...]]:
    """Records of <label><image>; gives train, test and the names of the classes."""
    return _read(folder, info, (info.classes,), CIFAR10_NAMES, way_out)


def read_cifar100(folder: Path, info: SetInfo, way_out: str) -> tuple[Part, Part, tuple[str, ...]]:
    """Records of <coarse label><fine label><image>, of which the fine one is kept."""
    names = tuple(f"class {i:02d}" for i in range(info.classes))
    return _read(folder, info, (COARSE_CLASSES, info.classes), names, way_out)


def _read(
    folder: Path, info: SetInfo, ranges: tuple[int, ...], names: tuple[str, ...], way_out: str
) -> tuple[Part, Part, tuple[str, ...]]:
    train = [folder / name for name in info.train_files]
    test = [folder / name for name in info.test_files]
    return (
        read_records(train, info.train, info.shape, ranges, way_out),
        read_records(test, info.test, info.shape, ranges, way_out),
        read_names(folder / info.names_file, names, way_out),
    )


def read_records(
    paths: Sequence[Path], total: int, shape: tuple[int, int, int], ranges: Sequence[int], way_out: str
) -> Part:
    """Files that share `total` records evenly; `ranges` has the number of classes for each label byte."""
    share = total // len(paths)
    x, y = np.empty((total, *shape), np.uint8), np.empty(total, np.int64)
    for i, path in enumerate(paths):
        records = _records_of(path, share, len(ranges) + int(np.prod(shape)), way_out)
        _check_labels(path, records[:, : len(ranges)], ranges, way_out)
        rows = slice(i * share, (i + 1) * share)
        x[rows] = records[:, len(ranges) :].reshape(-1, *shape)
        y[rows] = records[:, len(ranges) - 1]
    absent = np.setdiff1d(np.arange(ranges[-1]), y)
    if len(absent):
        raise DataError(f"{paths[-1]} and the files beside it have no image of class {absent[0]}: {way_out}")
    return Part(x, y)


def _records_of(path: Path, count: int, size: int, way_out: str) -> np.ndarray:
    try:
        found = path.stat().st_size
        if found == count * size:
            return np.fromfile(path, np.uint8).reshape(count, size)
    except FileNotFoundError:
        raise DataError(f"{path} is missing: {way_out}") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}): {way_out}") from None
    if found % size:
        raise DataError(f"{path} is truncated or no such file: {found} bytes are no whole records of {size}: {way_out}")
    raise DataError(f"{path} has {found // size} records instead of {count}: {way_out}")


def _check_labels(path: Path, labels: np.ndarray, ranges: Sequence[int], way_out: str) -> None:
    for column, classes in zip(labels.T, ranges, strict=True):
        if column.max() >= classes:
            raise DataError(f"{path} has the label {column.max()}, outside 0 to {classes - 1}: {way_out}")


def read_names(path: Path, otherwise: tuple[str, ...], way_out: str) -> tuple[str, ...]:
    """One name a line; `otherwise` serves where the file is missing, since the images do not need it."""
    try:
        names = tuple(path.read_text(encoding="utf-8").split())
    except FileNotFoundError:
        return otherwise
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}): {way_out}") from None
    if len(set(names)) != len(otherwise) or len(names) != len(otherwise):
        raise DataError(f"{path} does not list {len(otherwise)} different class names: {way_out}")
    return names
