"""Safe state on disk: tensors and JSON in one checked file, written whole or not at all.

A state file is a safetensors file with one entry of metadata: a checksum over everything, then JSON with the
format's number, the kind of state, and all of the state that is not a tensor. Reading one runs no code, since
nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import safetensors
import safetensors.torch
import torch

from engram.errors import FileError

__all__ = ["FORMAT", "load", "make_folder", "save", "write_bytes", "write_json", "write_text"]

FORMAT = 1

PathLike = str | os.PathLike[str]
Tensors = dict[str, torch.Tensor]

_LENGTH_BYTES = 8
_LARGEST_HEADER = 100_000_000  # what the safetensors library itself agrees to read
_LEFTOVER_AGE = 3600.0
_ENTRY = "engram"
_RESERVED_NAME = "__metadata__"
_STORABLE = frozenset(
    {
        *(torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64),
        *(torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64),
    }
)


def save(path: PathLike, tensors: Mapping[str, torch.Tensor], meta: Mapping[str, Any], kind: str) -> None:
    """Writes a state file; whatever happens, ``path`` afterwards holds the old state or the new one, whole.

    ``meta`` is JSON: dictionaries with string keys, lists (tuples become lists), strings, numbers, booleans,
    None. Floats come back exactly; NaN and infinity are refused, since JSON has no word for them, and belong
    in a tensor.
    """
    target = _target(path)
    _check_json(dict(meta), f"the meta of {target}")
    own = {name: _own_copy(target, name, tensor) for name, tensor in tensors.items()}
    text = json.dumps({"format": FORMAT, "kind": kind, "meta": dict(meta)}, allow_nan=False)
    # A single entry, because the library writes several in an order that changes from run to run.
    content = safetensors.torch.save(own, metadata={_ENTRY: f"{_checksum(own, text)} {text}"})
    if _header_length(content) > _LARGEST_HEADER:
        raise FileError(f"The meta of {target} is too large to be read back: keep large things in tensors.")
    _write_whole(target, content)


def load(path: PathLike, kind: str) -> tuple[Tensors, dict[str, Any]]:
    """Reads what :func:`save` wrote with the same ``kind``; anything else is a :class:`FileError`."""
    source = Path(path)
    _check_container(source)
    tensors, entry = _read_container(source)
    checksum, _, text = entry.partition(" ")
    state = _parse_state(source, text)
    if checksum != _checksum(tensors, text):
        _refuse_damaged(source)
    if state["kind"] != kind:
        raise FileError(f"{source} holds a {state['kind']}, and a {kind} is wanted here: name another file.")
    return tensors, state["meta"]


def write_text(path: PathLike, text: str) -> None:
    """Writes UTF-8 text, whole or not at all."""
    # Only lone surrogates (file names that are no UTF-8) need the escape, and JSON reads it back unchanged.
    _write_whole(_target(path), text.encode("utf-8", "backslashreplace"))


def write_bytes(path: PathLike, content: bytes) -> None:
    """Writes these bytes, whole or not at all."""
    _write_whole(_target(path), content)


def write_json(path: PathLike, obj: Any) -> None:
    """Writes ``obj`` as JSON, whole or not at all, keys in their own order; NaN and infinity are refused."""
    _check_json(obj, f"what is to be written to {_target(path)}")
    write_text(path, json.dumps(obj, allow_nan=False, ensure_ascii=False, indent=1) + "\n")


# --- what may be stored ---


def _check_json(value: Any, where: str) -> None:
    match value:
        case None | bool() | int() | str():
            return
        case float():
            if not math.isfinite(value):
                _refuse_value(value, where, "JSON has no such number")
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    _refuse_value(key, where, "only strings can be keys in JSON")
                _check_json(item, f"{where}, under {key!r}")
        case list() | tuple():
            for position, item in enumerate(value):
                _check_json(item, f"{where}, at {position}")
        case _:
            _refuse_value(value, where, f"JSON has no {type(value).__name__}")


def _refuse_value(value: Any, where: str, reason: str) -> NoReturn:
    raise FileError(f"{value!r} cannot be stored in {where}: {reason}, so turn it into plain data first.")


def _own_copy(target: Path, name: str, tensor: torch.Tensor) -> torch.Tensor:
    if name == _RESERVED_NAME:
        raise FileError(f"A tensor of {target} is named {name!r}, which the format reserves: rename it.")
    if tensor.dtype not in _STORABLE or tensor.layout is not torch.strided or tensor.is_meta:
        raise FileError(
            f"Tensor {name!r} of {target} is {tensor.dtype} on {tensor.device}, layout {tensor.layout}, "
            f"which cannot be stored: convert it to a dense tensor of a common type first."
        )
    plain = tensor.detach().resolve_conj().resolve_neg().cpu()
    return plain.clone(memory_format=torch.contiguous_format)


def _checksum(tensors: Mapping[str, torch.Tensor], text: str) -> str:
    names = sorted(tensors)
    layout = [[name, str(tensors[name].dtype), list(tensors[name].shape)] for name in names]
    digest = hashlib.sha256(json.dumps([text, layout]).encode())
    for name in names:
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


# --- reading ---


def _check_container(source: Path) -> None:
    with _system_errors(source, "read"):
        if source.is_dir():
            raise FileError(f"{source} is a folder: name the file in it.")
        if not source.exists():
            raise FileError(f"{source} does not exist: check the path, or save a file there first.")
        if not source.is_file():
            raise FileError(f"{source} is no regular file: name one that Engram saved.")
        size = source.stat().st_size
        with source.open("rb") as file:
            start = file.read(_LENGTH_BYTES)
    # The length is checked before any library sees the file: a forged one must not ask for memory.
    if len(start) < _LENGTH_BYTES or _header_length(start) > min(size - _LENGTH_BYTES, _LARGEST_HEADER):
        _refuse_foreign(source)


def _header_length(content: bytes) -> int:
    return int.from_bytes(content[:_LENGTH_BYTES], "little")


def _read_container(source: Path) -> tuple[Tensors, str]:
    try:
        with safetensors.safe_open(source, framework="pt") as file:
            # Copies, because the originals are views of a file that may change under them.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            return tensors, (file.metadata() or {})[_ENTRY]
    except OSError as error:
        _refuse_system(source, "read", error)
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError, AttributeError, RuntimeError):
        _refuse_foreign(source)


def _parse_state(source: Path, text: str) -> dict[str, Any]:
    try:
        state = json.loads(text)
    except (ValueError, RecursionError):
        _refuse_damaged(source)
    match state:
        case {"format": int(number)} if number > FORMAT:
            raise FileError(
                f"{source} is of format {number}, written by a newer Engram, and this one reads up to "
                f"{FORMAT}: upgrade Engram to read it."
            )
        case {"format": int(number), "kind": str(), "meta": dict()} if number == FORMAT:
            return state
        case _:
            _refuse_damaged(source)


def _refuse_foreign(source: Path) -> NoReturn:
    raise FileError(
        f"{source} is not a file that Engram saved, or it was cut short or damaged; Engram never unpickles, "
        f"so files of torch.save or pickle are refused too: name another file, or save it again."
    ) from None


def _refuse_damaged(source: Path) -> NoReturn:
    raise FileError(
        f"{source} is damaged, since its content does not match its checksum: use another copy, or save it again."
    ) from None


# --- writing ---


def make_folder(path: PathLike) -> None:
    """Makes sure that the folder is there and can be written to."""
    folder = Path(path)
    with _system_errors(folder, "made"):
        folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise FileError(f"{folder} cannot be written to: choose another folder.")


def _target(path: PathLike) -> Path:
    # Renaming onto a symbolic link would replace the link and leave the file it names untouched.
    return Path(os.path.realpath(path))


def _write_whole(target: Path, content: bytes) -> None:
    with _system_errors(target, "written"):
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target.parent)
        aside = target.parent / f".engram-{secrets.token_hex(8)}.tmp"
        try:
            _write_durably(aside, content)
            aside.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                aside.unlink(missing_ok=True)
            raise
        _make_name_durable(target.parent)


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _make_name_durable(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_leftovers(folder: Path) -> None:
    """A killed process cannot tidy up after itself; the age spares files that another is writing now."""
    oldest = time.time() - _LEFTOVER_AGE
    for path in folder.glob(".engram-*.tmp"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()


@contextlib.contextmanager
def _system_errors(path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _refuse_system(path, done, error)


def _refuse_system(path: Path, done: str, error: OSError) -> NoReturn:
    reason = error.strerror or str(error)
    raise FileError(
        f"{path} cannot be {done} ({reason}): check the path, its permissions and the free space."
    ) from error
