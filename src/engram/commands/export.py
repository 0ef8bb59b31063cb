"""`engram export`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg


@dataclass(frozen=True)
class ExportCommand:
    """Write a model for other programs, as ONNX or for torch.export: from raw inputs to probabilities."""

    model: Annotated[Positional[str], arg(metavar="MODEL")]
    """file of a model"""
    out: Annotated[Positional[str], arg(metavar="FILE.onnx|FILE.pt2")]
    """file to write; its ending says in which format"""

    def __call__(self) -> None:
        from engram.export import export
        from engram.learner import Learner

        export(Learner.load(self.model, device="cpu"), self.out)
        print(f"Wrote {self.out}.")
