"""`engram serve`: the model, the token and the port."""

from __future__ import annotations

import gc
import os
import secrets
import socket
from typing import TYPE_CHECKING

from engram.commands.model import open_model
from engram.errors import InputError

if TYPE_CHECKING:
    from engram.commands.asked import ServeCommand

TOKEN = "ENGRAM_TOKEN"
CONNECTIONS = 256
"""at a time; further ones are turned away"""


def serve(asked: ServeCommand) -> None:
    try:
        import python_multipart  # noqa: F401 (fastapi needs it)
        import uvicorn

        from engram.serving.app import create_app
        from engram.serving.model import ServedModel
    except ImportError:
        raise InputError("serve needs packages that are not installed: pip install 'engram[serve]'.") from None
    if not asked.max_mb > 0:
        raise InputError(f"--max-mb must be above 0, not {asked.max_mb}.")
    listening = _listen(asked.host, asked.port)
    model = ServedModel(asked.model, open_model(asked.model, asked.device))
    token = os.environ.get(TOKEN) or secrets.token_urlsafe(16)
    app = create_app(model, token, int(asked.max_mb * 1e6))
    print(f"Serving {asked.model} at {_address(asked.host, listening)} until Ctrl-C.")
    print(f"Learning needs the token {f'in {TOKEN}' if os.environ.get(TOKEN) else token}.", flush=True)
    gc.freeze()  # what is here to stay need not be looked through while somebody waits for an answer
    config = uvicorn.Config(app, log_level="warning", limit_concurrency=CONNECTIONS)
    uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 1 << 16:
        raise InputError(f"--port must be a number from 0 to 65535, not {port}.")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"Port {port} of {host} cannot be used ({reason}): choose another --port or --host.") from None


def _address(host: str, listening: socket.socket) -> str:
    port = listening.getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
