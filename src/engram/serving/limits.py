"""Requests that are too large are refused while they are read, whatever they say of themselves."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """At most so many bytes of a request come in."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self.app, self.most = app, most
        self.sentence = f"The request is larger than {most / 1e6:g} MB: send less at a time, or raise --max-mb."

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if told.isdigit() and int(told) > self.most:
            refusal = JSONResponse({"error": self.sentence}, 413, {"Connection": "close"})
            return await refusal(scope, receive, send)
        come = 0

        async def counted() -> Message:
            nonlocal come
            message = await receive()
            come += len(message.get("body", b""))
            if come > self.most:
                raise HTTPException(413, self.sentence, {"Connection": "close"})
            return message

        return await self.app(scope, counted, send)
