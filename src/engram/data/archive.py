"""Unpacking a downloaded archive: only the files that are wanted, and all of them or none."""

import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Collection
from pathlib import Path

from engram.errors import DataError

AGAIN = "delete it and run again to download it"


def unpack(archive: Path, folder: str, wanted: Collection[str], optional: Collection[str] = ()) -> Path:
    """Put `folder/wanted` of a .tar.gz into `folder` beside it."""
    with tempfile.TemporaryDirectory(prefix=f".{folder}-", dir=archive.parent) as aside:
        whole = Path(aside, folder)
        whole.mkdir()
        _copy_members(archive, whole, {f"{folder}/{name}": name for name in (*wanted, *optional)})
        for name in wanted:
            if not (whole / name).is_file():
                raise DataError(f"{archive} does not hold {folder}/{name}: {AGAIN}")
        return _put_in_place(whole, archive.parent / folder)


def _copy_members(archive: Path, whole: Path, names: dict[str, str]) -> None:
    # The names written are ours and links are left out, so that no archive can write elsewhere.
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                source = tar.extractfile(member) if member.isreg() and member.name in names else None
                if source is not None:
                    with source, open(whole / names[member.name], "wb") as target:
                        shutil.copyfileobj(source, target)
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise DataError(f"{archive} could not be unpacked ({error}): make room for it and run again") from None
        raise DataError(f"{archive} is truncated or no .tar.gz archive ({error}): {AGAIN}") from None


def _put_in_place(whole: Path, target: Path) -> Path:
    if target.exists():
        os.replace(target, whole.with_name("replaced"))
    os.replace(whole, target)
    return target
