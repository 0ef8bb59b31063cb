"""`engram serve`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg


@dataclass(frozen=True)
class ServeCommand:
    """Predict and learn over HTTP, with a page to drop images on; learning needs a token."""

    model: Annotated[Positional[str], arg(metavar="MODEL")]
    """file of a model; what is learnt is written to it"""
    host: str = "127.0.0.1"
    """address to listen at: this machine alone unless another is given"""
    port: int = 8000
    """port to listen at; 0 takes a free one"""
    max_mb: float = 20.0
    """largest request, in millions of bytes"""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """where to compute"""

    def __call__(self) -> None:
        from engram.serving.server import serve

        serve(self)
