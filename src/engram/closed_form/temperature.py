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
MOST_CLASSES = 256
"""whose scores are looked at: time and memory go with the square of it"""
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
    columns = _some_of(known, sums)
    drawn = _scores_of(head, sums, columns)
    if drawn is None:
        return 1.0
    scores, own, weights = drawn
    spread = float(scores.std()) or 1.0
    # those that were left out compete too: the others stand for them
    others = torch.full((len(own), 1, len(columns)), math.log(max(1, len(known) - 1) / max(1, len(columns) - 1)))
    others[torch.arange(len(own)), 0, own] = 0.0
    right = scores[torch.arange(len(own)), :, own]

    def loss(log: float) -> float:
        factor = math.exp(log) / spread
        return float((weights * (torch.logsumexp(factor * scores + others, 2) - factor * right).mean(1)).sum())

    found: Any = minimize_scalar(loss, bounds=RANGE, method="bounded")
    return math.exp(float(found.x)) / spread


def expected_accuracy(head: Head, sums: Sums, columns: list[int]) -> float | None:
    """The share of these columns' classes that scores drawn in the same way name rightly, by the classes' numbers.

    None where there are too many classes to draw the scores of all, or no sums of these.
    """
    known = (sums.counts.sum(0) > 0).nonzero().flatten()
    drawn = _scores_of(head, sums, known) if len(known) <= MOST_CLASSES else None
    if drawn is None:
        return None
    scores, own, weights = drawn
    asked = torch.isin(known.cpu()[own], torch.tensor(columns))
    right = (scores.argmax(2) == own[:, None]).double().mean(1)
    total = float(weights[asked].sum())
    return float((weights * right)[asked].sum()) / total if total else None


def _some_of(known: Tensor, sums: Sums) -> Tensor:
    """At most MOST_CLASSES of the columns, evenly spread over the lengths of the classes' sums.

    What is chosen must not depend on the columns' order, which is that of the classes' coming.
    """
    if len(known) <= MOST_CLASSES:
        return known
    lengths = sums.by_class.sum(0)[known].norm(dim=1)
    spread = torch.linspace(0, len(known) - 1, MOST_CLASSES, device=known.device).long()
    return known[lengths.argsort()[spread]].sort().values


def _scores_of(head: Head, sums: Sums, columns: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """Scores for these columns of samples of their classes (classes x draws x columns), which column is each class's
    own, and the classes' weights; None without sums."""
    part = 1 if int(sums.counts[1].sum()) >= 2 * int((sums.counts.sum(0) > 0).sum()) else 0
    seen = columns[(sums.counts[part][columns] > 0) & (sums.counts[0][columns] > 0)]
    if not len(seen):
        return None
    means, within = _score_moments(head, sums, part, seen, columns)
    scores, weights = _drawn(means, within, sums.counts[part][seen].cpu())
    return scores, torch.searchsorted(columns.cpu(), seen.cpu()), weights


def _score_moments(head: Head, sums: Sums, part: int, seen: Tensor, known: Tensor) -> tuple[Tensor, Tensor]:
    """Mean scores for the known classes in each class seen, and the scores' covariance within the classes."""
    counts = sums.counts[part].double()
    weights = head.weights[:, known]
    totals = sums.by_class[part] @ weights
    second = weights.T @ _products(sums, part, weights.to(sums.products.dtype)).double()
    between = totals.T @ (totals / counts.clamp_min(1)[:, None])
    within = (second - between) / (counts.sum() - (counts > 0).sum()).clamp_min(1)
    means = (totals / counts.clamp_min(1)[:, None])[seen] + head.bias[known]
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
