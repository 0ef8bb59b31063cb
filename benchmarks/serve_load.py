"""Asks a server for predictions at a fixed rate while it learns, and reports errors and how long answers took.

python benchmarks/serve_load.py --rate 200 --seconds 30

The model has learnt the digits 0 to 4 as images of 8 x 8 pixels; all the while it is taught the others, over and over.
Requests are sent when they are due, whether or not earlier ones have been answered, and their time counts from then.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

from engram import Learner, recipe

CONNECTIONS = 32
TOKEN = "load"


def request(path: str, kind: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
    return f"{head}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def picture(pixels: np.ndarray) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    start = b'--x\r\nContent-Disposition: form-data; name="images"; filename="a.png"\r\n\r\n'
    return request(
        "/api/predict/images", "multipart/form-data; boundary=x", start + content.getvalue() + b"\r\n--x--\r\n"
    )


class Connection:
    """One at a time; the server keeps it open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: Any = None

    async def ask(self, content: bytes) -> tuple[int, dict[str, Any]]:
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        try:
            writer.write(content)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            found = re.search(r"content-length: (\d+)", head)
            body = await reader.readexactly(int(found[1]) if found else 0)
        except BaseException:
            writer.close()
            self.streams = None
            raise
        return int(head.split()[1]), json.loads(body)


class Load:
    def __init__(self, port: int, rate: float, seconds: float) -> None:
        self.port, self.rate, self.seconds = port, rate, seconds
        self.times: list[float] = []
        self.errors: list[str] = []
        self.lessons: list[float] = []
        self.late = 0.0

    async def run(self, pictures: list[bytes], lesson: bytes) -> None:
        free: asyncio.Queue[Connection] = asyncio.Queue()
        for _ in range(CONNECTIONS):
            free.put_nowait(Connection(self.port))
        await asyncio.gather(*[self._warm(free, content) for content in pictures[:CONNECTIONS]])
        teaching = asyncio.create_task(self._teach(lesson))
        start, asked = time.perf_counter(), []
        for number in range(int(self.rate * self.seconds)):
            due = start + number / self.rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self.late = max(self.late, time.perf_counter() - due)
            asked.append(asyncio.create_task(self._ask(free, pictures[number % len(pictures)], due)))
        await asyncio.gather(*asked)
        teaching.cancel()
        await asyncio.gather(teaching, return_exceptions=True)

    async def _warm(self, free: asyncio.Queue[Connection], content: bytes) -> None:
        connection = await free.get()
        await connection.ask(content)
        free.put_nowait(connection)

    async def _ask(self, free: asyncio.Queue[Connection], content: bytes, due: float) -> None:
        connection = await free.get()
        try:
            status, answer = await connection.ask(content)
            if status != 200 or "classes" not in answer["answers"][0]:
                self.errors.append(f"{status} {answer}")
        except Exception as error:
            self.errors.append(repr(error))
        finally:
            free.put_nowait(connection)
        self.times.append(time.perf_counter() - due)

    async def _teach(self, lesson: bytes) -> None:
        connection = Connection(self.port)
        while True:
            start = time.perf_counter()
            status, answer = await connection.ask(lesson)
            if status != 200:
                self.errors.append(f"learn: {status} {answer}")
            self.lessons.append(time.perf_counter() - start)

    def report(self) -> dict[str, Any]:
        milliseconds = np.array(self.times) * 1000
        return {
            "rate": self.rate,
            "seconds": self.seconds,
            "requests": len(self.times),
            "errors": len(self.errors),
            "first_error": self.errors[0] if self.errors else None,
            "milliseconds": {f"{q}th percentile": round(float(np.percentile(milliseconds, q)), 1) for q in (50, 95, 99)}
            | {"longest": round(float(milliseconds.max()), 1)},
            "lessons_learnt_meanwhile": len(self.lessons),
            "seconds_a_lesson": round(float(np.mean(self.lessons)), 2) if self.lessons else None,
            "sent_late_by_at_most_ms": round(1000 * self.late, 1),
            "cores": os.cpu_count(),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=200, help="requests a second")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--filters", type=int, default=32, help="of the model")
    parser.add_argument("--out", help="file for the numbers, as JSON")
    given = parser.parse_args()
    table, digits = load_digits(return_X_y=True)
    images = (np.asarray(table).reshape(-1, 8, 8) * 15.9).astype(np.uint8)
    first, others = digits < 5, digits >= 5
    lesson = json.dumps({"inputs": images[others].tolist(), "labels": digits[others].tolist()}).encode()
    with TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        chosen = recipe("analytic", analytic={"filters": given.filters})
        Learner(chosen, device="cpu").fit(images[first], digits[first]).save(model)
        words = [sys.executable, "-m", "engram", "serve", str(model), "--port", "0", "--device", "cpu"]
        environment = os.environ | {"ENGRAM_TOKEN": TOKEN}
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as server:
            try:
                assert server.stdout is not None
                port = re.search(r":(\d+) ", server.stdout.readline())
                assert port is not None, "the server has not started"
                load = Load(int(port[1]), given.rate, given.seconds)
                pictures = [picture(pixels) for pixels in images[:500]]
                asyncio.run(load.run(pictures, request("/api/learn", "application/json", lesson)))
            finally:
                server.terminate()
    found = json.dumps(load.report(), indent=1)
    print(found)
    if given.out:
        Path(given.out).write_text(found + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
