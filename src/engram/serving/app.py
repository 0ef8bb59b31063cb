"""What is answered to which request; every error is one sentence as JSON."""

from __future__ import annotations

import asyncio
import secrets
from importlib.resources import files
from typing import Annotated, Any

from fastapi import Depends, FastAPI, File, Form, HTTPException, Query, Request, UploadFile
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException as AnyHTTPException

import engram
from engram.errors import EngramError, FileError
from engram.serving.limits import BodyLimit
from engram.serving.model import BusyError, ServedModel, Upload

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src blob:; connect-src 'self'"
"""nothing from elsewhere, and nothing to elsewhere"""


class Question(BaseModel):
    inputs: list[Any] = Field(min_length=1)
    """samples as `Learner.predict` takes them"""
    top: int = Field(3, ge=1)


class Lesson(BaseModel):
    inputs: list[Any] = Field(min_length=1)
    labels: list[int | str] = Field(min_length=1)


def create_app(model: ServedModel, token: str, most_bytes: int) -> FastAPI:
    app = FastAPI(title="Engram", version=engram.__version__, docs_url=None, redoc_url=None)
    app.add_middleware(BodyLimit, most=most_bytes)  # pyright: ignore[reportArgumentType]
    for kind, answer in ERRORS.items():
        app.add_exception_handler(kind, answer)

    def holder(request: Request) -> None:
        given = request.headers.get("authorization", "").encode()
        if not secrets.compare_digest(given, f"Bearer {token}".encode()):
            sentence = "Learning needs the token that the server has printed: send it as Authorization: Bearer TOKEN."
            raise HTTPException(401, sentence, {"WWW-Authenticate": "Bearer"})

    @app.get("/", response_class=HTMLResponse)
    async def page() -> Response:
        content = (files("engram.serving") / "page.html").read_text(encoding="utf-8")
        return HTMLResponse(content, headers={"Content-Security-Policy": POLICY})

    @app.get("/api/model")
    async def about() -> dict[str, Any]:
        return model.about()

    @app.post("/api/predict")
    async def predict(question: Question) -> dict[str, Any]:
        return {"answers": await asked(model.answers, question.inputs, question.top)}

    @app.post("/api/predict/images")
    async def predict_images(
        images: Annotated[list[UploadFile], File()], top: Annotated[int, Query(ge=1)] = 3
    ) -> dict[str, Any]:
        return {"answers": await asked(model.answers_to_images, await uploads(images), top)}

    @app.post("/api/learn", dependencies=[Depends(holder)])
    async def learn(lesson: Lesson) -> dict[str, Any]:
        return await run_in_threadpool(model.learn, lesson.inputs, lesson.labels)

    @app.post("/api/learn/images", dependencies=[Depends(holder)])
    async def learn_images(
        images: Annotated[list[UploadFile], File()], label: Annotated[list[str], Form()]
    ) -> dict[str, Any]:
        return await run_in_threadpool(model.learn_images, await uploads(images), label)

    async def asked(function: Any, *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(model.asking, function, *given)

    async def uploads(images: list[UploadFile]) -> list[Upload]:
        return [Upload(image.filename or "image", await image.read()) for image in images]

    return app


async def _own(request: Request, error: Any) -> Response:
    return _told(409 if isinstance(error, BusyError) else 500 if isinstance(error, FileError) else 422, str(error))


async def _misread(request: Request, error: Any) -> Response:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    return _told(422, f"{where or 'The request'}: {first['msg']}.")


async def _http(request: Request, error: Any) -> Response:
    return _told(error.status_code, str(error.detail), error.headers)


async def _unforeseen(request: Request, error: Any) -> Response:
    return _told(500, "Something went wrong in the server; its console says what.")


def _told(status: int, sentence: str, headers: Any = None) -> Response:
    return JSONResponse({"error": sentence}, status, headers)


ERRORS: dict[Any, Any] = {
    EngramError: _own,
    RequestValidationError: _misread,
    AnyHTTPException: _http,
    Exception: _unforeseen,
}
