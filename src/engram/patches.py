"""A layer's inputs as rows: what each of its outputs is a product of the weight with."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn


def input_rows(module: nn.Linear | nn.Conv1d | nn.Conv2d, x: Tensor) -> Tensor:
    """samples × places × inputs: a linear layer's inputs, a convolution's patches at its own stride."""
    if isinstance(module, nn.Linear):
        return x.reshape(len(x), -1, x.shape[-1])
    return conv_patches(module, x, pair(module.stride))


def conv_patches(module: nn.Conv1d | nn.Conv2d, x: Tensor, stride: tuple[int, int]) -> Tensor:
    """samples × places × inputs: the patches that a convolution sees, at any stride."""
    padded = F.pad(x, _padding(module), mode="constant" if module.padding_mode == "zeros" else module.padding_mode)
    if padded.ndim == 3:
        padded = padded[:, :, None]
    columns = F.unfold(padded, pair(module.kernel_size), dilation=pair(module.dilation), stride=stride)
    return columns.transpose(1, 2)


def pair(size: tuple[int, ...]) -> tuple[int, int]:
    return (size[0], size[1]) if len(size) == 2 else (1, size[0])


def _padding(module: nn.Conv1d | nn.Conv2d) -> list[int]:
    """(before, after) of each spatial dimension, the last dimension first, as F.pad wants it."""
    pairs: list[int] = []
    for axis in reversed(range(len(module.kernel_size))):
        if module.padding == "valid":
            pairs += [0, 0]
        elif module.padding == "same":
            total = module.dilation[axis] * (module.kernel_size[axis] - 1)
            pairs += [total // 2, total - total // 2]
        else:
            amount = module.padding[axis]
            assert isinstance(amount, int)
            pairs += [amount, amount]
    return pairs
