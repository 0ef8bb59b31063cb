"""Matrix products in float32 at the speed that the processor has."""

from __future__ import annotations

import torch
from torch import Tensor

MINIMUM = 1 << 20
"""multiplications from which the choice of library counts for more than the way to it"""


def product(a: Tensor, b: Tensor) -> Tensor:
    """a · bᵀ, with no gradient.

    On CPUs torch hands float32 matrices to MKL, which on AMD's runs at less than half of what the processor can do;
    oneDNN, which torch has too, does not look at the maker. Both compute in float32.
    """
    large = a.numel() * len(b) >= MINIMUM
    if large and _single(a) and _single(b) and torch.backends.mkldnn.is_available():
        return torch.ops.mkldnn._linear_pointwise(a.contiguous(), b.contiguous(), None, "none", [], "")
    return a @ b.T


def _single(matrix: Tensor) -> bool:
    return matrix.dtype == torch.float32 and matrix.device.type == "cpu"
