"""Linear heads from sums of features: ridge regression, linear discriminant analysis and nearest class mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import scipy.linalg
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from engram.closed_form.sums import Moments, Sums

STEP = math.sqrt(10)
START, LEAST, MOST = -5, -14, 6
"""strengths of the regulariser that are tried, as powers of STEP; they are shares of the features' mean variance"""


@dataclass(frozen=True)
class Head:
    """scores = features · weights + bias"""

    weights: Tensor
    bias: Tensor


def nearest_mean(moments: Moments) -> Head:
    """Minus the squared distance to each class's mean, but for what all classes have in common."""
    means = moments.by_class / moments.counts.clamp_min(1)[:, None]
    return Head(2 * means.T, -means.square().sum(1))


def solved_head(moments: Moments, strength: float, discriminant: bool) -> Head | None:
    """Ridge regression on one-hot targets, or the discriminant; None where rounding makes the matrix indefinite.

    `moments.square` is used up. With A = sum of (f - m)(f - m)ᵀ + ridge over all rows, ridge regression is A⁻¹ times
    the centred class sums. The discriminant wants the inverse of A less what the class means account for, which is
    a matrix of as many rows as classes away (Woodbury); where there are more classes than features, it is formed.
    """
    counts = moments.counts.double()
    total = counts.sum().clamp_min(1)
    mean = moments.by_class.sum(0) / total
    centred = (moments.by_class - counts[:, None] * mean).T
    matrix = moments.square
    diagonal = matrix.diagonal()
    squares = float(diagonal.double().mean())
    matrix.addr_(mean.to(matrix.dtype), mean.to(matrix.dtype), alpha=-float(total))
    variance = float(diagonal.double().mean())
    # of equal rows, or of one that is left of many, there is no variance but that of rounding
    varies = variance > torch.finfo(matrix.dtype).eps ** 0.5 * squares
    diagonal += strength * variance if varies else max(squares, 1.0)
    if not discriminant:
        solution = _solved(matrix, centred)
        return None if solution is None else Head(solution, counts / total - mean @ solution)
    weights = _discriminant(matrix, centred, counts)
    if weights is None:
        return None
    weights *= total
    means = mean + _divided(centred, counts).T
    middle = (weights.T * (means + mean)).sum(1) / 2
    return Head(weights, (counts / total).clamp_min(1e-12).log() - middle)


def _discriminant(matrix: Tensor, centred: Tensor, counts: Tensor) -> Tensor | None:
    """(A - sum over classes of n·(m_c - m)(m_c - m)ᵀ)⁻¹ times the centred class means."""
    if len(counts) > len(matrix):
        matrix -= (_divided(centred, counts) @ centred.T).to(matrix.dtype)
        return _solved(matrix, _divided(centred, counts))
    solution = _solved(matrix, centred)
    if solution is None:
        return None
    beyond = torch.eye(len(counts), device=centred.device) - _divided(centred.T @ solution, counts)
    return torch.linalg.solve(beyond, _divided(solution, counts), left=False)


def _divided(columns: Tensor, counts: Tensor) -> Tensor:
    return columns / counts.clamp_min(1)


def _solved(matrix: Tensor, right: Tensor) -> Tensor | None:
    """By Cholesky in place, of the lower triangle. On a CPU SciPy's needs no second matrix, as torch's does."""
    if matrix.is_cuda:
        factor, failed = torch.linalg.cholesky_ex(matrix)
        return None if failed else torch.cholesky_solve(right.to(matrix.dtype), factor).double()
    factorise, solve = scipy.linalg.get_lapack_funcs(("potrf", "potrs"), dtype=matrix.numpy().dtype)
    with threadpool_limits(torch.get_num_threads(), user_api="blas"):
        factor, failed = factorise(matrix.numpy().T, lower=0, overwrite_a=1, clean=0)
        if failed:
            return None
        return torch.from_numpy(solve(factor, right.to(matrix.dtype).numpy(), lower=0)[0]).double()


def held_out_error(head: Head, sums: Sums) -> float:
    """Sum of squared errors on the held-out rows, one-hot targets, from their sums alone."""
    weights, by_class, counts = head.weights, sums.by_class[1], sums.counts[1].double()
    squares = (weights * sums.held_products(weights.to(sums.products.dtype)).double()).sum()
    crossed = 2 * (head.bias * (by_class.sum(0) @ weights)).sum()
    explained = (by_class * weights.T).sum() + (counts * head.bias).sum()
    return float(squares + crossed + counts.sum() * (head.bias.square().sum() + 1) - 2 * explained)


def best_strength(sums: Sums) -> int:
    """The power of STEP with the smallest held-out error of ridge regression.

    Each is a factorisation, so the errors are followed downhill from a fixed start; what lies beyond the first rise is
    not tried. It depends on the sums alone, and so not on how they came about.
    """
    if not sums.counts[1].any() or not sums.counts[0].any():
        return START
    found: dict[int, float] = {}

    def error(power: int) -> float:
        if power not in found:
            head = solved_head(sums.moments(0), STEP**power, False)
            found[power] = math.inf if head is None else held_out_error(head, sums)
        return found[power]

    return _downhill(error, START)


def _downhill(error: Callable[[int], float], start: int) -> int:
    best = start
    for step in (1, -1):
        while LEAST <= best + step <= MOST and (error(best + step) < error(best) or math.isinf(error(best))):
            best += step
    return best
