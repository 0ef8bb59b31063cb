"""From the name of a data set to its images or texts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from engram.data.archive import unpack
from engram.data.cifar import read_cifar10, read_cifar100
from engram.data.dbpedia import read_dbpedia
from engram.data.digits import read_digits
from engram.data.docstrings import read_docstrings
from engram.data.download import fetch
from engram.data.places import cache_folder, find_named, missing_files, named_folder
from engram.data.sets import SetInfo, set_info
from engram.data.svhn import read_svhn
from engram.data.task import DataSet, Part, cut_validation
from engram.data.thucnews import read_thucnews
from engram.errors import DataError

Reader = Callable[[Path, SetInfo, str], tuple[Part, Part, tuple[str, ...]]]

READERS: Mapping[str, Reader] = {
    "digits": read_digits,
    "cifar10": read_cifar10,
    "cifar100": read_cifar100,
    "svhn": read_svhn,
    "docstrings": read_docstrings,
    "thucnews": read_thucnews,
    "dbpedia": read_dbpedia,
}


def load(name: str, data_dir: str | Path | None = None, download: bool = True, quiet: bool = False) -> DataSet:
    """Read a data set from `data_dir`, else from the folder in ENGRAM_DATA, else from the download cache."""
    info = set_info(name)
    info, folder, way_out = _locate(info, named_folder(data_dir), download, quiet)
    train, test, names = READERS[info.name](folder, info, way_out)
    validation, test = cut_validation(test)
    return DataSet(info.name, names, train, validation, test)


def _locate(info: SetInfo, named: Path | None, download: bool, quiet: bool) -> tuple[SetInfo, Path, str]:
    """The set in the layout in which it is there, its folder, and what to do if that is damaged."""
    if info.built_in:
        return info, Path(), ""
    if named is not None or not info.sources:
        found, folder = find_named(info, named)
        return found, folder, f"put the official files of {info.name} there again"
    folder = _in_cache(info, cache_folder(), download, quiet)
    return info, folder, "delete it and run again to download it"


def _in_cache(info: SetInfo, cache: Path, download: bool, quiet: bool) -> Path:
    folder = cache / info.folder
    if not missing_files(info, folder):
        return folder
    if not download:
        raise DataError(f"{info.name} is not in {folder}: allow the download, or name the folder that holds it")
    with _one_at_a_time(cache):
        if missing_files(info, folder):
            _download(info, cache, quiet)
    return folder


def _download(info: SetInfo, cache: Path, quiet: bool) -> None:
    for source in info.sources:
        if source.packed:
            archive = fetch(source.url, source.sha256, cache / source.name, quiet)
            unpack(archive, info.folder, info.files, optional=[info.names_file])
            archive.unlink()
        elif not (cache / info.folder / source.name).is_file():
            fetch(source.url, source.sha256, cache / info.folder / source.name, quiet)


@contextmanager
def _one_at_a_time(cache: Path) -> Iterator[None]:
    """Runs started together must not write one partial file; without flock, the checksum tells."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock = open(cache / ".lock", "w")  # noqa: SIM115
    except OSError as error:
        raise DataError(f"the cache {cache} cannot be written ({error}): name a folder with ENGRAM_DATA") from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
