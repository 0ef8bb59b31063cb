"""Two symmetric matrices in the room of one: a pair of triangles of d x (d + 1) numbers.

The lower triangle, diagonal included, holds one at [i, j] for j <= i, and the upper triangle the other at [i, j + 1]
for j >= i.
"""

from __future__ import annotations

import torch
from torch import Tensor

BLOCK = 1024


def add_products(pair: Tensor, low: Tensor, high: Tensor, sign: int = 1) -> None:
    """Add lowᵀ·low to the lower triangle and highᵀ·high to the upper one."""
    for start, end in _blocks(len(pair)):
        square = slice(start, end)
        if len(low):
            products = low[:, start:].T @ low[:, square]
            pair[square, square] += sign * products[: end - start].tril()
            pair[end:, square].add_(products[end - start :], alpha=sign)
        if len(high):
            products = high[:, square].T @ high[:, start:]
            pair[square, start + 1 : end + 1] += sign * products[:, : end - start].triu()
            pair[square, end + 1 :].add_(products[:, end - start :], alpha=sign)


def clear(pair: Tensor, low: bool, high: bool) -> None:
    """Set the lower triangle, the upper one or both to zero."""
    if low and high:
        pair.zero_()
    elif low:
        pair.triu_(1)
    elif high:
        pair.tril_()


def lower(pair: Tensor, both: bool) -> Tensor:
    """A matrix of its own whose lower triangle is the lower one, or with `both` the sum of the two matrices."""
    matrix = pair[:, :-1].clone(memory_format=torch.contiguous_format)
    if both:
        for start, end in _blocks(len(pair)):
            square = slice(start, end)
            matrix[square, square] = pair[square, square].tril() + pair[square, start + 1 : end + 1].triu().T
            matrix[end:, square] += pair[square, end + 1 :].T
    return matrix


def upper_product(pair: Tensor, weights: Tensor) -> Tensor:
    """The upper triangle's symmetric matrix, times weights."""
    result = torch.zeros_like(weights)
    for start, end in _blocks(len(pair)):
        square = slice(start, end)
        corner = pair[square, start + 1 : end + 1].triu()
        beside = pair[square, end + 1 :]
        result[square] += (corner + corner.triu(1).T) @ weights[square] + beside @ weights[end:]
        result[end:] += beside.T @ weights[square]
    return result


def _blocks(size: int) -> list[tuple[int, int]]:
    return [(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK)]
