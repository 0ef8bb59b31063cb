"""The temperature that makes scores into honest probabilities, from sums alone."""

from __future__ import annotations

import math
from typing import Any

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from engram.closed_form.heads import Head
from engram.closed_form.sums import Sums
from engram.randomness import generator

DRAWS = 8192
FREEDOM = 6
"""of the t distribution by which all of a sample's noise is stretched: where classes lie far apart, tails are what
counts, and real ones are heavier than a normal distribution's"""
RANGE = (-7.0, 7.0)
"""logarithms of the sharpness, in units of one over the scores' spread, that are looked at"""


def sharpness(head: Head, sums: Sums) -> float:
    """One over the temperature: what to multiply scores with before the softmax.

    Scores are a linear map of features, so that the held-out sums give their mean in each class and their covariance
    within the classes (one for all). Scores are drawn from distributions of these moments, and the sharpness is the one
    that gives them the largest likelihood. The draws are not normal: a class's score for samples of another is low as
    a rule and high now and then, so that the noise is exponential, and heavy-tailed.
    """
    known = (sums.counts.sum(0) > 0).nonzero().flatten()
    part = 1 if int(sums.counts[1].sum()) >= 2 * len(known) else 0
    seen = ((sums.counts[part] > 0) & (sums.counts[0] > 0)).nonzero().flatten()
    if not len(seen):
        return 1.0
    means, within = _score_moments(head, sums, part, seen, known)
    scores, weights = _drawn(means, within, sums.counts[part][seen].cpu())
    own = scores[torch.arange(len(seen)), :, torch.searchsorted(known.cpu(), seen.cpu())]
    spread = float(scores.std()) or 1.0

    def loss(log: float) -> float:
        factor = math.exp(log) / spread
        return float((weights * (torch.logsumexp(factor * scores, 2) - factor * own).mean(1)).sum())

    found: Any = minimize_scalar(loss, bounds=RANGE, method="bounded")
    return math.exp(float(found.x)) / spread


def _score_moments(head: Head, sums: Sums, part: int, seen: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Mean scores for the known classes in each class seen, and the scores' covariance within the classes."""
    counts = sums.counts[part][seen].double()
    weights = head.weights[:, known]
    totals = sums.by_class[part][seen] @ weights
    second = weights.T @ _products(sums, part, weights.to(sums.products.dtype)).double()
    within = (second - totals.T @ (totals / counts[:, None])) / (counts.sum() - len(seen)).clamp_min(1)
    means = totals / counts[:, None] + head.bias[known]
    # so many rows do not tell a smaller spread than this from none
    within += torch.eye(len(within), device=within.device) * means.square().mean() / counts.sum()
    return means.cpu(), within.cpu()


def _products(sums: Sums, part: int, weights: Tensor) -> Tensor:
    if part == 1:
        return sums.held_products(weights)
    square = sums.moments(0).square.tril()
    return square @ weights + square.tril(-1).T @ weights


def _drawn(means: Tensor, within: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Scores around each of the means (means x draws x columns), and the means' weights.

    The noise of a column must not depend on its place, which is that of its class's coming: the columns are taken in
    the order of their variance, and the covariance's root is the symmetric one.
    """
    each, columns = max(16, DRAWS // len(means)), len(within)
    random = generator(0, "temperature")
    noise = -torch.rand(each, columns, generator=random, dtype=torch.float64).clamp_min(1e-300).log() - 1
    strayed = torch.randn(each, FREEDOM, generator=random, dtype=torch.float64).square().sum(1, keepdim=True)
    noise *= ((FREEDOM - 2) / strayed).sqrt()
    values, vectors = torch.linalg.eigh((within + within.T) / 2)
    root = vectors @ (values.clamp_min(0).sqrt()[:, None] * vectors.T)
    around = noise @ root[within.diagonal().argsort()]
    return means[:, None] + around, counts.double() / counts.sum()
