"""A hash of each row's content: the same row always gets the same one, whatever comes before it or with it."""

from __future__ import annotations

import torch
from torch import Tensor

from engram.randomness import generator

ONE_IN = 10
"""of the rows is held out"""
PART = 1024


def row_hashes(x: Tensor) -> Tensor:
    """64 well-mixed bits a row. uint8 and float rows of the same numbers are the same rows."""
    numbers = x[0].numel()
    factors = torch.randint(-(2**63), 2**63 - 1, (numbers,), generator=generator(0, "row hashes")) | 1
    parts = [_hashed(part.flatten(1), factors.to(x.device)) for part in x.split(PART)]
    return torch.cat(parts)


def _hashed(rows: Tensor, factors: Tensor) -> Tensor:
    bits = (rows.float() + 0.0).view(torch.int32).long()  # + 0.0: there are two zeros
    mixed = (bits * factors).sum(1)  # modulo 2^64, so that the order of summation cannot matter
    mixed = (mixed ^ (mixed >> 32)) * -7046029254386353131
    return mixed ^ (mixed >> 29)


def held_out(x: Tensor) -> Tensor:
    """Which rows are kept apart from learning, to choose the regulariser by."""
    return (row_hashes(x) >> 24) % ONE_IN == 0


def fair_sample(x: Tensor, rows: int) -> Tensor:
    """At most so many rows, in an order of their own: the same for every order in which they come."""
    return x[row_hashes(x).argsort(stable=True)[:rows]]
