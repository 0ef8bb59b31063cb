import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.data.fakes import Server, small, tar_of, write_cifar, write_svhn

from engram.data import SETS, DataSet, SetInfo, catalogue, load
from engram.data.sets import Source
from engram.errors import DataError, DownloadError, InputError

UNPACK = Path(__file__).resolve().parents[3] / "shared" / "data" / "unpack.py"
Shrink = Callable[..., SetInfo]


def source_of(server: Server, name: str) -> Source:
    return Source(server.url + name, hashlib.sha256(server.content).hexdigest(), len(server.content))


def packed_cifar(folder: Path) -> bytes:
    return tar_of({f"{folder.name}/{name}": (folder / name).read_bytes() for name in os.listdir(folder)})


def check(data: DataSet, info: SetInfo) -> None:
    assert (data.name, len(data.classes)) == (info.name, info.classes)
    assert data.train.x.shape == (info.train, *info.shape)
    assert len(data.validation) == round(0.3 * info.test)
    assert len(data.validation) + len(data.test) == info.test
    assert {part.x.dtype for part in (data.train, data.validation, data.test)} == {np.dtype(np.uint8)}
    assert {part.y.dtype for part in (data.train, data.validation, data.test)} == {np.dtype(np.int64)}


def test_importing_the_data_room_imports_no_framework() -> None:
    heavy = "{'torch', 'scipy', 'sklearn', 'pooch', 'requests'}"
    code = f"import sys, engram.data, engram.errors; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_digits_are_built_in(cache: Path) -> None:
    check(load("digits", data_dir="/does/not/exist"), SETS["digits"])
    assert not cache.exists()


@pytest.mark.parametrize(("name", "hint"), [("CIFAR-10", "did you mean cifar10"), ("imagenet", "known are digits, ")])
def test_an_unknown_set_is_refused(name: str, hint: str) -> None:
    with pytest.raises(InputError, match=hint):
        load(name)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_a_named_folder_may_hold_or_be_the_layout(tmp_path: Path, shrink: Shrink, name: str) -> None:
    info = shrink(name)
    folder = write_cifar(tmp_path, info)
    check(load(name, data_dir=tmp_path), info)
    check(load(name, data_dir=str(folder)), info)


@pytest.mark.parametrize("inside", ["", "svhn"])
def test_svhn_may_lie_directly_in_the_folder(tmp_path: Path, shrink: Shrink, inside: str) -> None:
    info = shrink("svhn")
    write_svhn(tmp_path / inside, info)
    check(load("svhn", data_dir=tmp_path), info)


def test_data_dir_goes_before_the_environment(
    tmp_path: Path, shrink: Shrink, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = shrink("cifar10")
    one, two = write_cifar(tmp_path / "one", info), write_cifar(tmp_path / "two", info)
    (two / "batches.meta.txt").write_text("a b c d e f g h i j")
    monkeypatch.setenv("ENGRAM_DATA", str(two.parent))
    assert load("cifar10").classes[0] == "a"
    assert load("cifar10", data_dir=one.parent).classes[0] == "airplane"
    assert not cache.exists()


def test_nothing_is_downloaded_into_a_named_folder(tmp_path: Path, server: Server, shrink: Shrink) -> None:
    shrink("cifar10", sources=(source_of(server, "cifar-10-binary.tar.gz"),))
    with pytest.raises(DataError, match=r"cifar10 is not in .*cifar-10-batches-bin.*leave out --data-dir"):
        load("cifar10", data_dir=tmp_path)
    (tmp_path / "cifar-10-binary.tar.gz").touch()
    with pytest.raises(DataError, match=r"unpack it there \('tar xf cifar-10-binary\.tar\.gz'\)"):
        load("cifar10", data_dir=tmp_path)
    with pytest.raises(DataError, match="nowhere does not exist"):
        load("cifar10", data_dir=tmp_path / "nowhere")
    assert server.seen == []


def test_a_damaged_file_in_a_named_folder_is_not_to_be_downloaded(tmp_path: Path, shrink: Shrink) -> None:
    folder = write_cifar(tmp_path, shrink("cifar10"))
    (folder / "test_batch.bin").unlink()
    with pytest.raises(DataError, match=r"test_batch\.bin is missing: put the official files of cifar10 there"):
        load("cifar10", data_dir=tmp_path)


def test_cifar_is_downloaded_once_into_the_cache(tmp_path: Path, server: Server, shrink: Shrink, cache: Path) -> None:
    server.content = packed_cifar(write_cifar(tmp_path, small("cifar10")))
    info = shrink("cifar10", sources=(source_of(server, "cifar-10-binary.tar.gz"),))
    check(load("cifar10", quiet=True), info)
    check(load("cifar10", quiet=True, download=False), info)
    assert len(server.seen) == 1
    assert sorted(os.listdir(cache)) == [".lock", "cifar-10-batches-bin"]

    truncated = cache / "cifar-10-batches-bin" / "data_batch_1.bin"
    truncated.write_bytes(b"short")
    with pytest.raises(DataError, match=r"data_batch_1\.bin.*delete it and run again to download it"):
        load("cifar10", quiet=True)
    truncated.unlink()
    check(load("cifar10", quiet=True), info)


def test_runs_started_together_download_once(tmp_path: Path, server: Server, shrink: Shrink, cache: Path) -> None:
    server.content = packed_cifar(write_cifar(tmp_path, small("cifar10")))
    info = shrink("cifar10", sources=(source_of(server, "cifar-10-binary.tar.gz"),))
    with ThreadPoolExecutor(3) as runs:
        for data in runs.map(lambda _: load("cifar10", quiet=True), range(3)):
            check(data, info)
    assert len(server.seen) == 1


def test_svhn_downloads_only_what_is_missing(tmp_path: Path, server: Server, shrink: Shrink, cache: Path) -> None:
    info = small("svhn")
    made = write_svhn(tmp_path / "made", info)
    cached = write_svhn(cache / "svhn", info)
    (cached / "test_32x32.mat").unlink()
    server.content = (made / "test_32x32.mat").read_bytes()
    nowhere = replace(info.sources[0], url="http://127.0.0.1:1/train_32x32.mat")
    info = shrink("svhn", sources=(nowhere, source_of(server, "test_32x32.mat")))
    check(load("svhn", quiet=True), info)
    assert len(server.seen) == 1


def test_an_archive_put_into_the_cache_by_hand_is_used(
    tmp_path: Path, server: Server, shrink: Shrink, cache: Path
) -> None:
    server.content = packed_cifar(write_cifar(tmp_path, small("cifar100")))
    info = shrink("cifar100", sources=(source_of(server, "cifar-100-binary.tar.gz"),))
    cache.mkdir()
    (cache / "cifar-100-binary.tar.gz").write_bytes(server.content)
    check(load("cifar100", quiet=True), info)
    assert server.seen == []


def test_without_download_the_way_out_is_named(cache: Path) -> None:
    with pytest.raises(DataError, match="allow the download"):
        load("svhn", download=False)
    assert not cache.exists()


def test_a_refused_download_is_a_data_error(server: Server, shrink: Shrink, cache: Path) -> None:
    shrink("cifar10", sources=(source_of(server, "cifar-10-binary.tar.gz"),))
    server.status = 404
    with pytest.raises(DownloadError, match=f"put it at {cache}"):
        load("cifar10", quiet=True)


def test_a_cache_that_cannot_be_made_is_named(cache: Path) -> None:
    cache.write_text("a file")
    with pytest.raises(DataError, match=f"the cache {cache} cannot be written"):
        load("cifar10", quiet=True)


def test_the_catalogue_tells_where_the_sets_lie(
    tmp_path: Path, shrink: Shrink, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_cifar(tmp_path, shrink("cifar10"))
    write_svhn(cache / "svhn", shrink("svhn"))
    (cache / "svhn" / "test_32x32.mat").unlink()
    where = {entry.name: (entry.where, entry.present) for entry in catalogue() if not SETS[entry.name].texts}
    assert where == {
        "digits": ("built in", True),
        "cifar10": ("not downloaded yet (170 MB)", False),
        "cifar100": ("not downloaded yet (169 MB)", False),
        "svhn": (f"incomplete: {cache / 'svhn'} lacks test_32x32.mat", False),
    }
    monkeypatch.setenv("ENGRAM_DATA", str(tmp_path))
    where = {entry.name: (entry.where, entry.present) for entry in catalogue()}
    assert where["cifar10"] == (str(folder), True)
    assert where["svhn"] == (f"not in {tmp_path}", False)
    assert all(entry.licence and entry.about for entry in catalogue())


def test_the_table_of_sets_is_sound() -> None:
    images = {name: info for name, info in SETS.items() if not info.texts}
    assert [(info.tasks, info.width) for info in images.values()] == [(5, 1), (5, 1), (5, 2), (5, 1)]
    texts = {name: (info.tasks, info.classes, info.filters) for name, info in SETS.items() if info.texts}
    assert texts == {"docstrings": (5, 10, 0), "thucnews": (5, 10, 1024), "dbpedia": (5, 14, 200)}
    assert {name: info.megabytes for name, info in images.items()} == {
        "digits": 0,
        "cifar10": 170,
        "cifar100": 169,
        "svhn": 246,
    }
    assert all(len(source.sha256) == 64 for info in SETS.values() for source in info.sources)


@pytest.mark.slow
def test_the_whole_cifar10(tmp_path: Path) -> None:
    if not UNPACK.exists() or importlib.util.find_spec("imagecodecs") is None:
        pytest.skip("needs ../shared/data and imagecodecs")
    subprocess.run([sys.executable, str(UNPACK), str(tmp_path), "cifar10"], check=True)
    data = load("cifar10", data_dir=tmp_path)
    check(data, SETS["cifar10"])
    assert np.array_equal(np.bincount(data.train.y), [5000] * 10)
    assert np.array_equal(np.bincount(data.validation.y) + np.bincount(data.test.y), [1000] * 10)
    assert data.train.y[:5].tolist() == [6, 9, 9, 4, 1]
    assert data.classes[6] == "frog"
