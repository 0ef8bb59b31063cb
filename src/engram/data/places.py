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


def vectors_folder(data_dir: str | Path | None = None) -> Path:
    """Where files of word vectors are looked for."""
    return (named_folder(data_dir) or cache_folder()) / "embeddings"


def find(info: SetInfo, root: Path) -> tuple[SetInfo, Path] | None:
    """The first folder at `root` that holds at least one of the set's files, and the layout that they have."""
    places = [(layout, root / layout.folder) for layout in info.layouts] + [(info, root) for info in info.layouts]
    for layout, folder in places:
        if any((folder / name).is_file() for name in layout.files):
            return layout, folder
    return None


def missing_files(info: SetInfo, folder: Path) -> list[str]:
    return [name for name in info.files if not (folder / name).is_file()]


def find_named(info: SetInfo, named: Path | None) -> tuple[SetInfo, Path]:
    """As `find`, in a folder that the user named: nothing is ever downloaded into it. None: in the cache's."""
    root = cache_folder() if named is None else named
    instead = f"leave out --data-dir and {VARIABLE} to download it"
    if not info.sources:
        instead = f"name another folder with --data-dir or {VARIABLE}: this set has no download"
    if not root.is_dir():
        raise DataError(f"the data folder {root} does not exist: name another, or {instead}")
    found = find(info, root)
    if found is not None:
        return found
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
    found = find(info, named or cache_folder()) if named or not info.sources else _in_cache(info)
    if found is None:
        if named or not info.sources:
            return f"not in {named or cache_folder()}", False
        return f"not downloaded yet ({info.megabytes} MB)", False
    layout, folder = found
    missing = missing_files(layout, folder)
    return (f"incomplete: {folder} lacks {missing[0]}", False) if missing else (str(folder), True)


def _in_cache(info: SetInfo) -> tuple[SetInfo, Path] | None:
    folder = cache_folder() / info.folder
    return (info, folder) if folder.is_dir() else None
