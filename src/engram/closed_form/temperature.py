"""The temperature that makes scores into honest probabilities, from sums alone."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from engram.closed_form.heads import Head
from engram.closed_form.sums import Sums
from engram.randomness import generator

DRAWS = 4096
RANGE = (-7.0, 7.0)
"""logarithms of the sharpness, in units of one over the scores' spread, that are looked at"""


def sharpness(head: Head, sums: Sums) -> float:
    """One over the temperature: what to multiply scores with before the softmax.

    Scores are a linear map of features, so that the held-out sums give their mean in each class and their covariance
    within the classes (one for all). Scores are drawn from these normal distributions, and the sharpness is the one
    that gives them the largest likelihood.
    """
    part = 1 if int(sums.counts[1].sum()) >= 2 * int((sums.counts.sum(0) > 0).sum()) else 0
    seen = ((sums.counts[part] > 0) & (sums.counts[0] > 0)).nonzero().flatten()
    if not len(seen):
        return 1.0
    scores, labels, weights = _drawn(*_score_moments(head, sums, part, seen), sums.counts[part][seen])
    known = (sums.counts.sum(0) > 0).nonzero().flatten()
    scores = scores[:, known]
    own = scores[torch.arange(len(scores)), torch.searchsorted(known.cpu(), seen.cpu())[labels]]
    spread = float(scores.std()) or 1.0

    def loss(log: float) -> float:
        factor = math.exp(log) / spread
        return float((weights * (torch.logsumexp(factor * scores, 1) - factor * own)).sum())

    found = minimize_scalar(loss, bounds=RANGE, method="bounded")
    return math.exp(float(np.asarray(found.x))) / spread


def _score_moments(head: Head, sums: Sums, part: int, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Mean scores of each class with rows, and the scores' covariance within the classes."""
    counts = sums.counts[part][seen].double()
    totals = sums.by_class[part][seen] @ head.weights
    low_precision = head.weights.to(sums.products.dtype)
    if part == 1:
        products = sums.held_products(low_precision)
    else:
        square = sums.moments(0).square.tril()
        products = square @ low_precision + square.tril(-1).T @ low_precision
    second = head.weights.T @ products.double()
    spare = (counts.sum() - len(seen)).clamp_min(1)
    within = (second - totals.T @ (totals / counts[:, None])) / spare
    means = totals / counts[:, None] + head.bias
    # so many rows do not tell a smaller spread than this from none
    within += torch.eye(len(within), device=within.device) * means.square().mean() / counts.sum()
    return means.cpu(), within.cpu()


def _drawn(means: Tensor, within: Tensor, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Scores from the normal distributions around the means, the row of `means` of each, and its weight."""
    each = max(16, DRAWS // len(means))
    values, vectors = torch.linalg.eigh((within + within.T) / 2)
    noise = torch.randn(each, len(within), generator=generator(0, "temperature"), dtype=torch.float64)
    around = noise * values.clamp_min(0).sqrt() @ vectors.T
    scores = (means[:, None] + around).flatten(0, 1)
    shares = counts.double().cpu() / counts.sum().cpu() / each
    return scores, torch.arange(len(means)).repeat_interleave(each), shares.repeat_interleave(each)
