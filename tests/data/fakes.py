"""Small fakes of the official layouts, and a server that can misbehave."""

import io
import tarfile
import time
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np

from engram.data.sets import SETS, SetInfo

TRAIN, TEST = 50, 20


def small(name: str, **changes: Any) -> SetInfo:
    counts = {"cifar10": (TRAIN, TEST), "cifar100": (100, 100), "svhn": (TRAIN, TEST)}[name]
    return replace(SETS[name], train=counts[0], test=counts[1], **changes)


def write_cifar(root: Path, info: SetInfo) -> Path:
    folder = root / info.folder
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for files, count in ((info.train_files, info.train), (info.test_files, info.test)):
        for name in files:
            share = count // len(files)
            fine = (np.arange(share) % info.classes)[:, None]
            labels = np.hstack([fine % 20, fine]) if info.classes == 100 else fine
            images = rng.integers(0, 256, (share, 3072))
            np.hstack([labels, images]).astype(np.uint8).tofile(folder / name)
    return folder


def write_svhn(folder: Path, info: SetInfo, **changes: Any) -> Path:
    from scipy.io import savemat

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    for name, count in ((info.train_files[0], info.train), (info.test_files[0], info.test)):
        x = rng.integers(0, 256, (32, 32, 3, count)).astype(np.uint8)
        y = (np.arange(count) % 10 + 1).astype(np.uint8)[:, None]
        variables = {"X": x, "y": y} | changes
        savemat(folder / name, {key: value for key, value in variables.items() if value is not None})
    return folder


def tar_of(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


@dataclass
class Server:
    """Serves `content`; each of `cuts` and `stalls` is after how many bytes one answer ends."""

    content: bytes = bytes(range(256)) * 2000
    ranges: bool = True
    status: int = 0
    cuts: list[int] = field(default_factory=list)
    stalls: list[int] = field(default_factory=list)
    seen: list[str | None] = field(default_factory=list)
    url: str = ""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.seen.append(request.headers["Range"])
        if self.status:
            return request.send_error(self.status)
        start = int((request.headers["Range"] or "bytes=0-")[6:-1]) if self.ranges else 0
        if start >= len(self.content):
            return self._head(request, 416, f"bytes */{len(self.content)}", 0)
        body = self.content[start:]
        sent_range = f"bytes {start}-{len(self.content) - 1}/{len(self.content)}" if start else ""
        self._head(request, 206 if start else 200, sent_range, len(body))
        self._body(request, body)

    def _head(self, request: BaseHTTPRequestHandler, status: int, sent_range: str, length: int) -> None:
        request.send_response(status)
        if sent_range:
            request.send_header("Content-Range", sent_range)
        request.send_header("Content-Length", str(length))
        request.end_headers()

    def _body(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        if self.stalls:
            request.wfile.write(body[: self.stalls.pop(0)])
            time.sleep(0.6)
            return
        request.wfile.write(body[: self.cuts.pop(0)] if self.cuts else body)
