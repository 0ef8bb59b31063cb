import contextlib
import errno
import json
import math
import os
import pickle
import resource
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engram import files
from engram.errors import FileError

Forge = Callable[[Path], None]

ODD_TENSORS = {
    "float32": torch.tensor([[1.5, -0.0, math.nan], [math.inf, -math.inf, 1e-45]]),
    "float64": torch.tensor([0.1, 1e-320], dtype=torch.float64),
    "bfloat16": torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16),
    "float16": torch.tensor([65504.0, 6e-8], dtype=torch.float16),
    "int64": torch.tensor([2**63 - 1, -(2**63)]),
    "uint8": torch.arange(256, dtype=torch.uint8),
    "bool": torch.tensor([True, False, True]),
    "complex64": torch.tensor([1 + 2j, -3j]),
    "scalar": torch.tensor(3.0),
    "scalar bool": torch.tensor(True),
    "empty": torch.empty(0, 4),
    "empty too": torch.empty(3, 0, dtype=torch.int64),
    "名 / α": torch.ones(1),
}


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def saved(folder: Path) -> Path:
    path = folder / "model.engram"
    files.save(path, {"w": torch.arange(6.0).reshape(2, 3), "n": torch.tensor(7)}, {"epoch": 3}, "model")
    return path


def header_of(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def rewrite_state(path: Path, forge_checksum: bool = False, **changes: Any) -> None:
    checksum, _, text = header_of(path)["__metadata__"]["engram"].partition(" ")
    text = json.dumps(json.loads(text) | changes)
    if forge_checksum:
        checksum = files._checksum(files.load(path, "model")[0], text)
    rewrite_entry(path, f"{checksum} {text}")


def rewrite_entry(path: Path, entry: str) -> None:
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(header_of(path) | {"__metadata__": {"engram": entry}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[start:])


def test_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    files.save(tmp_path / "state", ODD_TENSORS, {}, "model")
    tensors, meta = files.load(tmp_path / "state", "model")
    assert meta == {}
    assert tensors.keys() == ODD_TENSORS.keys()
    for name, tensor in ODD_TENSORS.items():
        assert (tensors[name].dtype, tensors[name].shape) == (tensor.dtype, tensor.shape)
        assert bits(tensors[name]) == bits(tensor)


def test_views_and_aliases_are_stored_apart(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    views = {
        "base": base,
        "again": base,
        "transposed": base.T,
        "strided": base[:, ::2],
        "tail": base[1:],
        "expanded": torch.ones(1).expand(5),
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "parameter": torch.nn.Parameter(base.clone()),
    }
    files.save(tmp_path / "state", views, {}, "model")
    tensors, _ = files.load(tmp_path / "state", "model")
    assert all(torch.equal(tensors[name], view) for name, view in views.items())
    tensors["base"].zero_()
    assert torch.equal(tensors["again"], base)
    assert base.sum() == 66


def test_a_loaded_tensor_owns_only_its_own_memory(tmp_path: Path) -> None:
    tensors, _ = files.load(saved(tmp_path), "model")
    assert tensors["w"].untyped_storage().nbytes() == 6 * 4


def test_no_tensors_at_all(tmp_path: Path) -> None:
    files.save(tmp_path / "state", {}, {"a": 1}, "model")
    assert files.load(tmp_path / "state", "model") == ({}, {"a": 1})


plain_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(meta=st.dictionaries(st.text(), plain_json, max_size=4))
def test_meta_comes_back_exactly(tmp_path: Path, meta: dict[str, Any]) -> None:
    files.save(tmp_path / "state", {}, meta, "model")
    _, back = files.load(tmp_path / "state", "model")
    assert back == meta
    assert repr(back) == repr(meta)


def test_parent_folders_are_made_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "state"
    files.save(path, {}, {}, "model")
    files.save(str(path), {}, {"second": True}, "model")
    assert os.listdir(path.parent) == ["state"]
    assert files.load(path, "model")[1] == {"second": True}


def test_the_same_state_gives_the_same_file(tmp_path: Path) -> None:
    content = saved(tmp_path).read_bytes()
    assert saved(tmp_path).read_bytes() == content


def test_file_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        path = saved(tmp_path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_symbolic_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    files.write_text(tmp_path / "link", "hello")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "hello"


# --- what is refused at saving ---


@pytest.mark.parametrize(
    ("meta", "named"),
    [
        ({"loss": [1.0, math.nan]}, "under 'loss', at 1"),
        ({"best": {"loss": math.inf}}, "under 'loss'"),
        ({"counts": {3: 1}}, "3 cannot be stored"),
        ({"x": torch.tensor(1)}, "JSON has no Tensor"),
        ({"x": {1, 2}}, "JSON has no set"),
    ],
)
def test_meta_that_json_would_change_is_refused(tmp_path: Path, meta: dict[str, Any], named: str) -> None:
    with pytest.raises(FileError, match=named):
        files.save(tmp_path / "state", {}, meta, "model")
    with pytest.raises(FileError, match=named):
        files.write_json(tmp_path / "state", meta)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("__metadata__", torch.ones(1)),
        ("wide", torch.ones(1, dtype=torch.complex128)),
        ("sparse", torch.eye(2).to_sparse()),
        ("nowhere", torch.ones(1, device="meta")),
    ],
)
def test_a_tensor_that_cannot_be_stored_is_named(tmp_path: Path, name: str, tensor: torch.Tensor) -> None:
    with pytest.raises(FileError, match=name):
        files.save(tmp_path / "state", {name: tensor}, {}, "model")


def test_a_meta_too_large_to_read_back_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_LARGEST_HEADER", 1000)
    with pytest.raises(FileError, match="too large"):
        files.save(tmp_path / "state", {}, {"x": "y" * 1000}, "model")


def test_saving_onto_a_folder_or_under_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileError, match="folder cannot be written"):
        files.save(tmp_path / "folder", {}, {}, "model")
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="cannot be written"):
        files.save(tmp_path / "file" / "state", {}, {}, "model")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


# --- what is refused at loading ---


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def truncate_in_header(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def claim_ten_gigabytes(path: Path) -> None:
    path.write_bytes((10 * 2**30).to_bytes(8, "little") + path.read_bytes()[8:])


def claim_the_largest_number(path: Path) -> None:
    path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:])


def claim_a_huge_tensor(path: Path) -> None:
    header = b'{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 4)


def nest_deeply(path: Path) -> None:
    header = b"[" * 200_000
    path.write_bytes(len(header).to_bytes(8, "little") + header)


def torch_save(path: Path) -> None:
    torch.save({"w": torch.ones(2)}, path)


def only_a_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", "hello")


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("bomb-went-off"),))


def pickle_bomb(path: Path) -> None:
    path.write_bytes(pickle.dumps(Bomb()))


def other_safetensors(path: Path) -> None:
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 4)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def empty(path: Path) -> None:
    path.write_bytes(b"")


REFUSED: list[tuple[Forge, str]] = [
    (truncate, "cut short"),
    (truncate_in_header, "cut short"),
    (lengthen, "damaged"),
    (claim_ten_gigabytes, "cut short"),
    (claim_the_largest_number, "cut short"),
    (claim_a_huge_tensor, "not a file that Engram saved"),
    (nest_deeply, "not a file that Engram saved"),
    (torch_save, "never unpickles"),
    (only_a_zip, "not a file that Engram saved"),
    (pickle_bomb, "never unpickles"),
    (other_safetensors, "not a file that Engram saved"),
    (empty, "not a file that Engram saved"),
    (as_folder, "is a folder"),
    (as_pipe, "no regular file"),
    (Path.unlink, "does not exist"),
    (lambda path: rewrite_state(path, format=2), "format 2.*upgrade Engram"),
    (lambda path: rewrite_state(path, format=0), "damaged"),
    (lambda path: rewrite_state(path, format="1"), "damaged"),
    (lambda path: rewrite_state(path, kind="other"), "damaged"),
    (lambda path: rewrite_state(path, meta={"epoch": 4}), "damaged"),
    (lambda path: rewrite_state(path, forge_checksum=True, kind=None), "damaged"),
    (lambda path: rewrite_state(path, forge_checksum=True, meta=[]), "damaged"),
    (lambda path: rewrite_entry(path, ""), "damaged"),
    (lambda path: rewrite_entry(path, "0 {"), "damaged"),
    (lambda path: rewrite_entry(path, "0 " + "[" * 100_000), "damaged"),
    (lambda path: rewrite_entry(path, "0 " + "9" * 5000), "damaged"),
]


@pytest.mark.parametrize(("forge", "reason"), REFUSED)
def test_a_bad_file_gives_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forge: Forge, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = saved(tmp_path)
    forge(path)
    with pytest.raises(FileError, match=reason) as caught:
        files.load(path, "model")
    assert str(path) in str(caught.value)
    assert str(caught.value).count(". ") == 0
    assert not Path("bomb-went-off").exists()


def test_another_kind_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds a model, and a checkpoint is wanted"):
        files.load(saved(tmp_path), "checkpoint")


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_any_flipped_byte_is_noticed(tmp_path: Path, mask: int) -> None:
    path = saved(tmp_path)
    content = path.read_bytes()
    for position in range(len(content)):
        path.write_bytes(content[:position] + bytes([content[position] ^ mask]) + content[position + 1 :])
        with pytest.raises(FileError):
            files.load(path, "model")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.chmod(0)
    with pytest.raises(FileError, match="cannot be read"):
        files.load(path, "model")


# --- what a failure leaves behind ---


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_the_system_refuses_halfway_keeps_the_old_file(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with largest_file(8192), pytest.raises(FileError, match="free space"):
        files.save(path, {"w": torch.ones(10_000)}, {}, "model")
    assert os.listdir(tmp_path) == [path.name]
    assert files.load(path, "model")[1] == {"epoch": 3}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MB, where the system lets us have one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_keeps_the_old_file(small_disk: Path) -> None:
    path = saved(small_disk)
    with pytest.raises(FileError, match=r"No space left on device.*free space"):
        files.save(path, {"w": torch.ones(2**20)}, {}, "model")
    assert os.listdir(small_disk) == [path.name]
    assert files.load(path, "model")[1] == {"epoch": 3}
    files.save(path, {"w": torch.ones(2**10)}, {"epoch": 4}, "model")
    assert files.load(path, "model")[1] == {"epoch": 4}


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_at_the_last_moment_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    def fail(_: int) -> None:
        raise failure

    path = saved(tmp_path)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((FileError, KeyboardInterrupt)):
        files.save(path, {}, {}, "model")
    assert os.listdir(tmp_path) == [path.name]
    assert files.load(path, "model")[1] == {"epoch": 3}


KILLED_AND_CHECKED = """
    import os, random, signal, sys, time
    from pathlib import Path
    import torch
    from engram import files

    path, rounds = Path(sys.argv[1]), int(sys.argv[2])

    def save(number):
        files.save(path, {"w": torch.full((200_000,), number)}, {"number": number}, "checkpoint")

    def save_for_ever():
        for number in range(10**9):
            save(number)

    torch.set_num_threads(1)
    save(0)
    chance = random.Random(0)
    for _ in range(rounds):
        child = os.fork()
        if child == 0:
            save_for_ever()
        time.sleep(chance.uniform(0.002, 0.08))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        tensors, meta = files.load(path, "checkpoint")
        assert (tensors["w"] == meta["number"]).all()
    print("whole", flush=True)
"""


@pytest.mark.parametrize("rounds", [5, pytest.param(50, marks=pytest.mark.slow)])
def test_a_kill_at_any_moment_leaves_the_old_file_or_the_new_one(tmp_path: Path, rounds: int) -> None:
    command = [sys.executable, "-c", textwrap.dedent(KILLED_AND_CHECKED), str(tmp_path / "state"), str(rounds)]
    alone = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=os.environ | alone, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr


def test_what_a_killed_process_left_is_tidied_up_later(tmp_path: Path) -> None:
    old, young = tmp_path / ".engram-old.tmp", tmp_path / ".engram-young.tmp"
    old.touch()
    young.touch()
    yesterday = time.time() - 24 * 3600
    os.utime(old, (yesterday, yesterday))
    saved(tmp_path)
    assert not old.exists()
    assert young.exists()


# --- text and JSON ---


def test_text_is_utf8_with_its_own_line_ends(tmp_path: Path) -> None:
    files.write_text(tmp_path / "deep" / "page.md", "α\r\nβ\n")
    assert (tmp_path / "deep" / "page.md").read_bytes() == "α\r\nβ\n".encode()


def test_json_keeps_order_and_floats(tmp_path: Path) -> None:
    result = {"z": 0.1 + 0.2, "a": [1, None, True], "名": "\udc80 and 名"}
    files.write_json(tmp_path / "result.json", result)
    text = (tmp_path / "result.json").read_text(encoding="utf-8")
    assert list(json.loads(text)) == ["z", "a", "名"]
    assert json.loads(text) == result
    assert text.endswith("}\n")
    assert "名" in text
