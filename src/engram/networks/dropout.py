"""Dropout whose mask costs a few milliseconds where torch's own takes most of a training step on a CPU."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 1 << 16
"""A mask entry is a 16-bit number below a threshold, so the probability is exact to 1 in 65,536."""


class Dropout(nn.Module):
    """Like nn.Dropout, seeded by torch's default generator; the bits themselves come from NumPy's SFC64."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        return x * _factors(keep_mask(x, self.p), 1 / (1 - self.p), x.dtype)


def _factors(mask: Tensor, value: float, dtype: torch.dtype) -> Tensor:
    """`value` where the mask is true, else 0. By way of integers, as torch casts booleans to bfloat16 one by one."""
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    bits = torch.tensor(value, dtype=dtype).view(whole)
    return mask.view(torch.uint8).to(whole).mul_(bits).view(dtype)


def keep_mask(like: Tensor, p: float) -> Tensor:
    """A random boolean mask of like's shape and memory layout, False with probability p."""
    seed = int(torch.randint(2**62, ()))
    words = np.random.Generator(np.random.SFC64(seed)).integers(0, 2**64, size=-(-like.numel() // 4), dtype=np.uint64)
    bits = torch.from_numpy(words.view(np.int16)[: like.numel()])
    mask = torch.empty_like(like, dtype=torch.bool)
    # filled in memory order: a channels-last mask is a view of the same flat storage
    torch.ge(bits, round(p * LEVELS) - LEVELS // 2, out=mask.as_strided((like.numel(),), (1,)))
    return mask
