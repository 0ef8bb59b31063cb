import hashlib
import os
import socket
from pathlib import Path

import pooch
import pytest
from rich.progress import Progress
from tests.data.fakes import Server

from engram.data import download
from engram.data.download import Patience, fetch
from engram.errors import DataError, DownloadError

QUICK = Patience(attempts=3, timeout=5.0, pause=0.0)
ONCE = Patience(attempts=1, timeout=5.0, pause=0.0)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def get(server: Server, target: Path, patience: Patience = QUICK, quiet: bool = True) -> bytes:
    return fetch(server.url + "set.bin", sha256(server.content), target, quiet, patience).read_bytes()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "set.bin"


def part_of(target: Path, content: bytes) -> Path:
    target.parent.mkdir(parents=True)
    part = target.with_name("set.bin.part")
    part.write_bytes(content)
    return part


def left_beside(target: Path) -> list[str]:
    return sorted(os.listdir(target.parent))


def test_a_whole_file_arrives_and_is_not_fetched_again(server: Server, target: Path) -> None:
    assert get(server, target) == server.content
    assert get(server, target) == server.content
    assert server.seen == [None]
    assert left_beside(target) == ["set.bin"]


def test_a_cut_connection_goes_on_where_it_stopped(server: Server, target: Path) -> None:
    server.cuts = [100_000, 50_000]
    assert get(server, target) == server.content
    assert server.seen == [None, "bytes=100000-", "bytes=150000-"]


def test_a_stalled_server_is_asked_again(server: Server, target: Path) -> None:
    server.stalls = [download.CHUNK + 5]
    assert get(server, target, Patience(attempts=2, timeout=0.2, pause=0.0)) == server.content
    assert server.seen == [None, f"bytes={download.CHUNK}-"]


def test_the_next_call_goes_on_too(server: Server, target: Path) -> None:
    server.cuts = [100_000]
    with pytest.raises(DownloadError, match="the connection was cut"):
        get(server, target, ONCE)
    assert left_beside(target) == ["set.bin.part"]
    assert get(server, target, ONCE) == server.content
    assert server.seen == [None, "bytes=100000-"]


def test_ctrl_c_keeps_what_has_come(server: Server, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "advance", interrupt)
        with pytest.raises(KeyboardInterrupt):
            get(server, target)
    assert left_beside(target) == ["set.bin.part"]
    assert get(server, target) == server.content
    assert server.seen == [None, f"bytes={download.CHUNK}-"]


def test_the_tries_are_bounded_and_say_what_to_do(server: Server, target: Path) -> None:
    server.cuts = [10] * 9
    with pytest.raises(DownloadError, match="run again to go on") as caught:
        get(server, target)
    assert len(server.seen) == QUICK.attempts
    assert all(word in str(caught.value) for word in (server.url, str(target), "ENGRAM_DATA"))
    assert "\n" not in str(caught.value)


def test_a_server_without_ranges_starts_over(server: Server, target: Path) -> None:
    server.ranges = False
    server.cuts = [100_000]
    assert get(server, target) == server.content
    assert server.seen == [None, "bytes=100000-"]


def test_a_whole_partial_file_is_taken_as_it_is(server: Server, target: Path) -> None:
    part_of(target, server.content)
    assert get(server, target) == server.content
    assert server.seen == [f"bytes={len(server.content)}-"]


def test_a_partial_longer_than_the_file_starts_over(server: Server, target: Path) -> None:
    part_of(target, server.content + b"more")
    assert get(server, target) == server.content
    assert server.seen == [f"bytes={len(server.content) + 4}-", None]


@pytest.mark.parametrize("begun", [b"", b"another file's first bytes"])
def test_a_wrong_checksum_deletes_the_file(server: Server, target: Path, begun: bytes) -> None:
    part_of(target, begun)
    wanted = sha256(server.content if begun else b"other")
    with pytest.raises(DownloadError, match="wrong checksum and was deleted: run again"):
        fetch(server.url + "set.bin", wanted, target, True, QUICK)
    assert left_beside(target) == []


def test_a_damaged_file_is_fetched_again(server: Server, target: Path) -> None:
    part_of(target, b"").unlink()
    target.write_bytes(server.content[:-1])
    assert get(server, target) == server.content


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (503, 3)])
def test_a_refusal_is_reported(server: Server, target: Path, status: int, tries: int) -> None:
    server.status = status
    with pytest.raises(DownloadError, match=f"the server answered {status}"):
        get(server, target)
    assert len(server.seen) == tries


def test_no_network_tells_how_to_get_it_by_hand(target: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/set.bin"
        with pytest.raises(DownloadError, match="no connection") as caught:
            fetch(url, sha256(b""), target, True, QUICK)
    assert all(word in str(caught.value) for word in (url, str(target), "ENGRAM_DATA"))
    assert issubclass(DownloadError, DataError)


def test_a_folder_that_cannot_be_made_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(DownloadError, match="cannot be written"):
        get(server, tmp_path / "file" / "set.bin")


def test_the_bar_shows_unless_quiet(
    server: Server, target: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[object] = []
    monkeypatch.setattr(pooch.get_logger(), "handle", logged.append)
    get(server, target, quiet=True)
    assert capfd.readouterr() == ("", "")
    target.unlink()
    get(server, target, quiet=False)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "set.bin" in shown.err
    assert logged == []
