"""Where data sets lie: a folder that the user named, else the cache that downloads fill."""

import os
from dataclasses import dataclass
from pathlib import Path

from engram.data.sets import SETS, SetInfo
from engram.errors import DataError

VARIABLE = "ENGRAM_DATA"


@dataclass(frozen=True)
class CatalogueEntry:
    """A line of `engram data`."""

    name: str
    about: str
    licence: str
    where: str
    present: bool


def cache_folder() -> Path:
    import pooch

    return Path(pooch.os_cache("engram"))


def named_folder(data_dir: str | Path | None = None) -> Path | None:
    """The folder named by the caller, else by the environment."""
    named = data_dir or os.environ.get(VARIABLE)
    return Path(named).expanduser() if named else None


def find(info: SetInfo, root: Path) -> Path | None:
    """The first folder at `root` that holds at least one of the set's files."""
    for folder in (root / info.folder, root):
        if any((folder / name).is_file() for name in info.files):
            return folder
    return None


def missing_files(info: SetInfo, folder: Path) -> list[str]:
    return [name for name in info.files if not (folder / name).is_file()]


def find_named(info: SetInfo, root: Path) -> Path:
    """As `find`, in a folder that the user named: nothing is ever downloaded into it."""
    instead = f"leave out --data-dir and {VARIABLE} to download it"
    if not root.is_dir():
        raise DataError(f"the data folder {root} does not exist: name another, or {instead}")
    folder = find(info, root)
    if folder is not None:
        return folder
    packed = [source.name for source in info.sources if source.packed and (root / source.name).is_file()]
    if packed:
        raise DataError(f"{root} holds {packed[0]} but not its files: unpack it there ('tar xf {packed[0]}')")
    raise DataError(
        f"{info.name} is not in {root}, where {info.folder}/{info.files[0]} and {info.files[0]} were looked "
        f"for: put its official files there, or {instead}"
    )


def catalogue(data_dir: str | Path | None = None) -> list[CatalogueEntry]:
    """All data sets and where they lie; reads no data."""
    named = named_folder(data_dir)
    return [_entry(info, named) for info in SETS.values()]


def _entry(info: SetInfo, named: Path | None) -> CatalogueEntry:
    where, present = ("built in", True) if info.built_in else _where(info, named)
    return CatalogueEntry(info.name, info.about, info.licence, where, present)


def _where(info: SetInfo, named: Path | None) -> tuple[str, bool]:
    folder = find(info, named) if named else _in_cache(info)
    if folder is None:
        return (f"not in {named}" if named else f"not downloaded yet ({info.megabytes} MB)"), False
    missing = missing_files(info, folder)
    return (f"incomplete: {folder} lacks {missing[0]}", False) if missing else (str(folder), True)


def _in_cache(info: SetInfo) -> Path | None:
    folder = cache_folder() / info.folder
    return folder if folder.is_dir() else None
