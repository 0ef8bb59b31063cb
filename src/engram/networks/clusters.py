"""Spherical k-means: directions around which data gathers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

ROUNDS = 10
PART = 8192


def cluster_centres(data: Tensor, count: int, random: torch.Generator) -> Tensor:
    """`count` directions of length 1, so that each row of data lies along one of them or against it."""
    rows = torch.randint(len(data), (count,), generator=random).to(data.device)
    centres = F.normalize(data[rows])
    for _ in range(ROUNDS):
        # the old centre counts as one row, so that a centre without rows stays
        sums = centres.clone()
        for part in data.split(PART):
            agreement = part @ centres.T
            best = agreement.abs().argmax(1, keepdim=True)
            weight = torch.zeros_like(agreement).scatter_(1, best, agreement.gather(1, best))
            sums += weight.T @ part
        centres = F.normalize(sums)
    return centres
