from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest
from tests.data.fakes import Server, small

from engram.data.sets import SETS, SetInfo


@pytest.fixture
def server() -> Iterator[Server]:
    behaviour = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            behaviour.answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        thread = Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        behaviour.url = f"http://127.0.0.1:{listener.server_address[1]}/"
        yield behaviour
        listener.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.delenv("ENGRAM_DATA", raising=False)
    for module in ("places", "loading"):
        monkeypatch.setattr(f"engram.data.{module}.cache_folder", lambda: folder)
    return folder


@pytest.fixture
def shrink(monkeypatch: pytest.MonkeyPatch) -> Callable[..., SetInfo]:
    """Make the public functions expect a small set."""

    def use(name: str, **changes: Any) -> SetInfo:
        info = small(name, **changes)
        monkeypatch.setitem(cast(dict[str, SetInfo], SETS), name, info)
        return info

    return use
