"""The readers of CIFAR, SVHN and the digits on small files, whole and damaged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.fakes import TRAIN, small, write_cifar, write_svhn

from engram.data.cifar import CIFAR10_NAMES, read_cifar10, read_cifar100
from engram.data.digits import read_digits
from engram.data.sets import SETS
from engram.data.svhn import read_svhn
from engram.errors import DataError

WAY_OUT = "ask for another"


def damage(path: Path, at: int, value: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] = value
    path.write_bytes(content)


def test_cifar10_is_read_row_by_row(tmp_path: Path) -> None:
    info = small("cifar10")
    folder = write_cifar(tmp_path, info)
    train, test, names = read_cifar10(folder, info, WAY_OUT)
    assert (train.x.shape, train.x.dtype, train.y.dtype) == ((TRAIN, 3, 32, 32), np.uint8, np.int64)
    assert len(test) == info.test
    assert names == CIFAR10_NAMES
    record = np.frombuffer((folder / "data_batch_2.bin").read_bytes(), np.uint8)[3 * 3073 : 4 * 3073]
    assert train.y[13] == record[0]
    assert np.array_equal(train.x[13, 1, 2], record[1 + 1024 + 64 : 1 + 1024 + 96])


def test_cifar100_keeps_the_fine_label(tmp_path: Path) -> None:
    info = small("cifar100")
    train, _, names = read_cifar100(write_cifar(tmp_path, info), info, WAY_OUT)
    assert np.array_equal(train.y, np.arange(100))
    assert len(set(names)) == 100


def test_the_names_are_read_where_they_lie(tmp_path: Path) -> None:
    info = small("cifar100")
    folder = write_cifar(tmp_path, info)
    (folder / info.names_file).write_text("\n".join(f"thing_{i}" for i in range(100)) + "\n\n")
    assert read_cifar100(folder, info, WAY_OUT)[2][99] == "thing_99"
    for nonsense in (b"only three names", b"same " * 100, b"\xff\xfe\x00"):
        (folder / info.names_file).write_bytes(nonsense)
        with pytest.raises(DataError, match=f"{info.names_file}.*{WAY_OUT}"):
            read_cifar100(folder, info, WAY_OUT)


def shorten(path: Path, records: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(records * 3073)])


CIFAR_DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (lambda path: path.unlink(), "is missing"),
    "truncated": (lambda path: shorten(path, 4.5), "truncated"),
    "empty": (lambda path: path.write_bytes(b""), "0 records instead of 10"),
    "too few": (lambda path: shorten(path, 9), "9 records instead of 10"),
    "too many": (lambda path: path.write_bytes(path.read_bytes() * 2), "20 records instead of 10"),
    "garbage": (lambda path: path.write_bytes(b"<html>" * 100), "no whole records"),
    "label": (lambda path: damage(path, 3073, 10), "label 10, outside 0 to 9"),
}


@pytest.mark.parametrize("kind", CIFAR_DAMAGE)
def test_a_damaged_cifar_file_is_named(tmp_path: Path, kind: str) -> None:
    info = small("cifar10")
    folder = write_cifar(tmp_path, info)
    break_it, says = CIFAR_DAMAGE[kind]
    break_it(folder / "data_batch_3.bin")
    with pytest.raises(DataError, match=rf"data_batch_3\.bin.*{says}.*{WAY_OUT}") as caught:
        read_cifar10(folder, info, WAY_OUT)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("byte", "label", "last"), [(0, 20, 19), (1, 100, 99)])
def test_both_labels_of_cifar100_are_checked(tmp_path: Path, byte: int, label: int, last: int) -> None:
    info = small("cifar100")
    folder = write_cifar(tmp_path, info)
    damage(folder / "test.bin", 5 * 3074 + byte, label)
    with pytest.raises(DataError, match=rf"test\.bin has the label {label}, outside 0 to {last}"):
        read_cifar100(folder, info, WAY_OUT)


def test_an_absent_class_is_noticed(tmp_path: Path) -> None:
    info = small("cifar100")
    folder = write_cifar(tmp_path, info)
    damage(folder / "test.bin", 5 * 3074 + 1, 6)
    with pytest.raises(DataError, match=rf"test\.bin.*no image of class 5: {WAY_OUT}"):
        read_cifar100(folder, info, WAY_OUT)


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    info = small("cifar10")
    folder = write_cifar(tmp_path, info)
    (folder / "test_batch.bin").unlink()
    (folder / "test_batch.bin").mkdir()
    with pytest.raises(DataError, match=r"test_batch\.bin"):
        read_cifar10(folder, info, WAY_OUT)


def test_svhn_turns_the_label_10_into_the_digit_0(tmp_path: Path) -> None:
    info = small("svhn")
    folder = write_svhn(tmp_path, info)
    train, test, names = read_svhn(folder, info, WAY_OUT)
    assert (train.x.shape, train.x.dtype, train.y.dtype) == ((TRAIN, 3, 32, 32), np.uint8, np.int64)
    assert train.x.flags.c_contiguous
    assert len(test) == info.test
    assert names == tuple("0123456789")
    assert train.y[:10].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
    from scipy.io import loadmat

    assert np.array_equal(train.x[7, 2, 3], loadmat(str(folder / "train_32x32.mat"))["X"][3, :, 2, 7])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"X": None}, "no array 'X'"),
        ({"y": None}, "no array 'y'"),
        ({"X": np.zeros((32, 32, 3, TRAIN))}, "images of float64 32 x 32 x 3 x 50 instead of uint8"),
        ({"X": np.zeros((32, 32, 3, 9), np.uint8)}, "32 x 32 x 3 x 9 instead of"),
        ({"X": np.zeros((TRAIN, 32, 32, 3), np.uint8)}, "50 x 32 x 32 x 3 instead of"),
        ({"y": np.full((9, 1), 1)}, "9 labels"),
        ({"y": np.array(["a"] * TRAIN)}, "labels of"),
        ({"y": np.full((TRAIN, 1), 11)}, "label 11, outside 1 to 10"),
        ({"y": np.full((TRAIN, 1), 0)}, "label 0, outside 1 to 10"),
        ({"y": np.full((TRAIN, 1), 1.5)}, r"label 1\.5, outside 1 to 10"),
        ({"y": np.full((TRAIN, 1), 1)}, "no image with the label 2"),
    ],
)
def test_a_senseless_mat_file_is_named(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    info = small("svhn")
    write_svhn(tmp_path, info, **changes)
    with pytest.raises(DataError, match=rf"train_32x32\.mat.*{says}.*{WAY_OUT}"):
        read_svhn(tmp_path, info, WAY_OUT)


@pytest.mark.parametrize("kept", [0, 1, 100, 127, 128, 130, 140, 200, 5000, 61_000])
def test_a_truncated_mat_file_is_named(tmp_path: Path, kept: int) -> None:
    info = small("svhn")
    path = write_svhn(tmp_path, info) / "test_32x32.mat"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError, match=rf"test_32x32\.mat is truncated.*{WAY_OUT}|no array"):
        read_svhn(tmp_path, info, WAY_OUT)


def test_garbage_and_missing_mat_files_are_named(tmp_path: Path) -> None:
    info = small("svhn")
    path = write_svhn(tmp_path, info) / "test_32x32.mat"
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for content in (b"<html>" * 100, b"\0" * 500, rng.bytes(10_000), whole[:128] + rng.bytes(10_000)):
        path.write_bytes(content)
        with pytest.raises(DataError, match=rf"test_32x32\.mat.*{WAY_OUT}"):
            read_svhn(tmp_path, info, WAY_OUT)
    path.unlink()
    with pytest.raises(DataError, match=rf"test_32x32\.mat is missing: {WAY_OUT}"):
        read_svhn(tmp_path, info, WAY_OUT)


def test_the_digits_are_split_alike_in_every_class() -> None:
    info = SETS["digits"]
    train, test, names = read_digits(Path(), info, "")
    assert (len(train), len(test)) == (info.train, info.test)
    assert (train.x.shape[1:], train.x.dtype, train.y.dtype) == (info.shape, np.uint8, np.int64)
    assert (train.x.min(), train.x.max()) == (0, 255)
    assert names == tuple("0123456789")
    shares = np.bincount(train.y) / (np.bincount(train.y) + np.bincount(test.y))
    assert np.abs(shares - 0.7).max() < 0.01
    again, _, _ = read_digits(Path(), info, "")
    assert np.array_equal(train.x, again.x)
