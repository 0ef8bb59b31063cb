import io
import os
import tarfile
from pathlib import Path

import pytest
from tests.data.fakes import tar_of

from engram.data.archive import unpack
from engram.errors import DataError

FILES = {
    "set/a.bin": b"a" * 5000,
    "set/b.bin": b"b" * 5000,
    "set/readme.html": b"?",
    "../evil": b"!",
    "c": b"c",
}


def written(tmp_path: Path, content: bytes) -> Path:
    archive = tmp_path / "in" / "set.tar.gz"
    archive.parent.mkdir()
    archive.write_bytes(content)
    return archive


def test_only_the_wanted_files_are_unpacked(tmp_path: Path) -> None:
    archive = written(tmp_path, tar_of(FILES))
    folder = unpack(archive, "set", ["a.bin", "b.bin"], optional=["names.txt"])
    assert sorted(os.listdir(folder)) == ["a.bin", "b.bin"]
    assert (folder / "b.bin").read_bytes() == FILES["set/b.bin"]
    assert sorted(os.listdir(archive.parent)) == ["set", "set.tar.gz"]
    assert os.listdir(tmp_path) == ["in"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        link = tarfile.TarInfo("set/a.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(DataError, match=r"does not hold set/a\.bin"):
        unpack(written(tmp_path, packed.getvalue()), "set", ["a.bin"])


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", tar_of(FILES)[:60], tar_of(FILES)[:-30], tar_of({"other/a.bin": b""})],
    ids=["empty", "garbage", "cut early", "cut late", "another set"],
)
def test_a_bad_archive_leaves_nothing_behind(tmp_path: Path, content: bytes) -> None:
    archive = written(tmp_path, content)
    with pytest.raises(DataError, match="delete it and run again") as caught:
        unpack(archive, "set", ["a.bin", "b.bin"])
    assert str(archive) in str(caught.value)
    assert os.listdir(archive.parent) == ["set.tar.gz"]


def test_an_incomplete_folder_is_replaced(tmp_path: Path) -> None:
    archive = written(tmp_path, tar_of(FILES))
    (archive.parent / "set").mkdir()
    (archive.parent / "set" / "stale.bin").write_text("stale")
    assert sorted(os.listdir(unpack(archive, "set", ["a.bin"]))) == ["a.bin"]
    assert sorted(os.listdir(archive.parent)) == ["set", "set.tar.gz"]


def test_a_kill_in_the_middle_leaves_no_folder_that_looks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = written(tmp_path, tar_of(FILES))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engram.data.archive._put_in_place", killed)
    with pytest.raises(KeyboardInterrupt):
        unpack(archive, "set", ["a.bin"])
    assert not (archive.parent / "set").exists()
