"""A learner as other programs run it: an ONNX file, or a program of torch.export; from raw inputs to probabilities."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import engram
from engram import files
from engram.errors import EngramError, InputError
from engram.learner import Learner

ENTRY = "engram"
"""name of the metadata"""
TRACED = 3
"""samples that the graph is traced with; it takes any number of them"""


class Predictor(nn.Module):
    """From a batch of inputs as the learner takes them to what `predict_proba` gives, as float32."""

    def __init__(self, learner: Learner, scores: nn.Module) -> None:
        super().__init__()
        self.layout = learner.form_.layout
        self.scores = scores
        self.columns = torch.tensor(learner.table_.sorted_columns())
        self.unseen = torch.tensor(learner.table_.unseen())

    def forward(self, x: Tensor) -> Tensor:
        if self.layout == "grey":
            x = x[:, None]
        elif self.layout == "channels last":
            x = x.permute(0, 3, 1, 2)
        scores = self.scores(x).double()[:, self.columns]
        return scores.masked_fill(self.unseen, -torch.inf).softmax(1).float()


def export(learner: Learner, path: str | Path) -> None:
    """Write a learner for other programs: as ONNX to a name that ends in .onnx, for torch.export to one in .pt2."""
    writers = {".onnx": as_onnx, ".pt2": as_program}
    ending = Path(path).suffix
    if ending not in writers:
        raise InputError(f"{path} must end in .onnx or .pt2, which say what to write.")
    files.write_bytes(path, writers[ending](learner))


def as_onnx(learner: Learner) -> bytes:
    """The input is called x, the output probabilities; both have a row a sample."""
    try:
        import onnx
        import onnxscript  # noqa: F401 (torch needs it)
    except ImportError:
        raise InputError("Export to ONNX needs packages that are not installed: pip install 'engram[onnx]'.") from None
    program = traced(learner)
    with _one_sentence():
        made = torch.onnx.export(program, input_names=["x"], output_names=["probabilities"], verbose=False)
    assert made is not None
    model = made.model_proto
    onnx.helper.set_model_props(model, {ENTRY: json.dumps(about(learner))})
    return model.SerializeToString()


def as_program(learner: Learner) -> bytes:
    """For torch.export.load."""
    content = io.BytesIO()
    with _one_sentence():
        torch.export.save(traced(learner), content, extra_files={ENTRY: json.dumps(about(learner))})
    return content.getvalue()


def traced(learner: Learner) -> ExportedProgram:
    """The learner's prediction as a graph of plain operations."""
    predictor = Predictor(learner, learner.exportable()).to(learner.device_).eval()
    kind = getattr(torch, learner.form_.kind)
    example = torch.zeros(TRACED, *learner.form_.given, dtype=kind, device=learner.device_)
    with _one_sentence(), torch.no_grad():
        program = torch.export.export(predictor, (example,), dynamic_shapes={"x": {0: Dim("batch")}})
        return program.run_decompositions(_plain_operations())


def about(learner: Learner) -> dict[str, Any]:
    """What whoever runs the file must know."""
    return {
        "engram": engram.__version__,
        "recipe": learner.recipe_.name,
        "classes": learner.classes_.tolist(),
        "learnt": (~learner.table_.unseen()).tolist(),
        "input": {"layout": learner.form_.layout, "shape": list(learner.form_.given), "type": learner.form_.kind},
        "output": "probabilities, a column for each of the classes",
    }


def _plain_operations() -> dict[Any, Any]:
    """torch's own decompositions, and one of distances, which ONNX has not."""

    def distances(a: Tensor, b: Tensor, p: float, mode: int | None) -> Tensor:
        return torch.linalg.vector_norm(a[:, None] - b, p, dim=2)

    table = torch.export.default_decompositions()
    table[torch.ops.aten._cdist_forward.default] = distances
    return table


@contextmanager
def _one_sentence() -> Iterator[None]:
    """torch's exporter warns of its own insides, and tells in many ways what it cannot do with somebody's network."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        message = f"The network cannot be exported ({type(error).__name__}: {reason}): build it of plain operations."
        raise EngramError(message) from error
    finally:
        logger.setLevel(before)
