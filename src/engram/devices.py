"""Which device and which precision a run uses."""

from __future__ import annotations

import torch
from torch import Tensor

from engram.errors import InputError
from engram.settings import Precision

SMALLEST_IMAGE = 16 * 16
"""Pixels from which bfloat16 pays on a CPU: below, casting costs more than it saves."""


def resolve_device(device: str) -> torch.device:
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError, ValueError):
        raise InputError(f"There is no device {device!r}: use auto, cpu or cuda.") from None
    if resolved.type not in ("cpu", "cuda"):
        raise InputError(f"Engram runs on cpu and cuda, not on {device!r}.")
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"Device {device!r} was asked for, but torch finds no GPU here: use cpu or auto.")
    if resolved.type == "cuda" and (resolved.index or 0) >= torch.cuda.device_count():
        raise InputError(f"There is no device {device!r}: this machine has {torch.cuda.device_count()} GPU(s).")
    return resolved


def resolve_precision(precision: Precision, device: torch.device, shape: tuple[int, ...]) -> Precision:
    """float32 or bfloat16; "auto" is bfloat16 for images, and for texts (of shape ()), where the hardware has it."""
    if not isinstance(precision, str) or precision not in ("auto", "float32", "bfloat16"):
        raise InputError(f"There is no precision {precision!r}: use auto, float32 or bfloat16.")
    if precision != "auto":
        return precision
    large = not shape or (len(shape) == 3 and shape[1] * shape[2] >= SMALLEST_IMAGE)
    return "bfloat16" if large and _native_bfloat16(device) else "float32"


def upload(drawn: Tensor, device: torch.device) -> Tensor:
    """Numbers drawn on the CPU, where the device needs them; a GPU's queue of work goes on meanwhile."""
    return drawn.to(device, non_blocking=True)


def _native_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
