"""Downloads through pooch that are checked, and go on where they were cut."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.errors import DownloadError

CHUNK = 1 << 16
WORTH_ANOTHER_TRY = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Patience:
    """How often to try, how long to wait for an answer, and for how long to pause at first (in seconds)."""

    attempts: int = 5
    timeout: float = 30.0
    pause: float = 1.0


class _PassingError(Exception):
    """Something that may pass: worth another try."""


def fetch(url: str, sha256: str, target: Path, quiet: bool = False, patience: Patience | None = None) -> Path:
    """Download `url` to `target` unless it lies there whole; a `.part` file beside it lets it go on."""
    import pooch

    transfer: Any = Transfer(target, quiet, patience or Patience())
    try:
        with _without_log(pooch.get_logger()):
            pooch.retrieve(url, f"sha256:{sha256}", target.name, target.parent, downloader=transfer)
    except DownloadError:
        raise
    except ValueError:
        raise DownloadError(
            f"the file from {url} had a wrong checksum and was deleted: run again to download it afresh"
        ) from None
    except OSError as error:
        raise DownloadError(f"{target} cannot be written ({error}): make room or the folder writable") from None
    return target


class Transfer:
    """A downloader for pooch, which checks what this one wrote and moves it into place."""

    def __init__(self, target: Path, quiet: bool, patience: Patience) -> None:
        self.target = target
        self.part = target.with_name(target.name + ".part")
        self.quiet = quiet
        self.patience = patience

    def __call__(self, url: str, output_file: Any, pooch: Any, check_only: bool | None = False) -> None:
        reason = ""
        for attempt in range(self.patience.attempts):
            if attempt:
                time.sleep(self.patience.pause * 2 ** (attempt - 1))
            try:
                self._go_on(url)
            except _PassingError as fault:
                reason = str(fault)
            else:
                self.part.replace(output_file)
                return
        raise self._give_up(url, reason)

    def _go_on(self, url: str) -> None:
        import requests
        import urllib3

        have = self.part.stat().st_size if self.part.exists() else 0
        # A server that packs what is packed already would hand over other bytes than those of the file.
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        try:
            with requests.get(url, headers=headers, stream=True, timeout=self.patience.timeout) as answer:
                start = self._start(url, answer.status_code, answer.headers.get("Content-Range", ""), have)
                if start is not None:
                    self._write(answer, start)
        except (requests.Timeout, urllib3.exceptions.TimeoutError):
            raise _PassingError(f"no answer in {self.patience.timeout:g} s") from None
        except requests.exceptions.SSLError:
            raise _PassingError("its certificate was refused") from None
        except requests.RequestException:
            raise _PassingError("no connection") from None
        except urllib3.exceptions.HTTPError:
            raise _PassingError("the connection was cut") from None

    def _start(self, url: str, status: int, content_range: str, have: int) -> int | None:
        """From which byte the answer goes on; None where nothing is left to fetch."""
        if status == 200:
            return 0
        if status == 206 and content_range.startswith(f"bytes {have}-"):
            return have
        if status == 416 and content_range == f"bytes */{have}":
            return None
        if status in (206, 416):
            self.part.unlink(missing_ok=True)
            raise _PassingError("the part here does not fit the file there")
        if status in WORTH_ANOTHER_TRY:
            raise _PassingError(f"the server answered {status}")
        raise self._give_up(url, f"the server answered {status}")

    def _write(self, answer: Any, start: int) -> None:
        length = answer.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else None
        with open(self.part, "ab" if start else "wb") as part, self._bar(start, total) as advance:
            while chunk := answer.raw.read(CHUNK):
                part.write(chunk)
                advance(len(chunk))
            if total is not None and part.tell() < total:
                raise _PassingError("the connection was cut")

    @contextmanager
    def _bar(self, start: int, total: int | None) -> Iterator[Any]:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.progress import TransferSpeedColumn as Speed

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            Speed(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), disable=self.quiet) as progress:
            line = progress.add_task(self.target.name, total=total, completed=start)
            yield lambda count: progress.advance(line, count)

    def _give_up(self, url: str, reason: str) -> DownloadError:
        return DownloadError(
            f"{url} could not be downloaded ({reason}): run again to go on where it stopped, or get it by "
            f"hand and put it at {self.target}, or put its unpacked files in a folder that ENGRAM_DATA names"
        )


@contextmanager
def _without_log(logger: Any) -> Iterator[None]:
    level = logger.level
    logger.setLevel("WARNING")
    try:
        yield
    finally:
        logger.setLevel(level)
