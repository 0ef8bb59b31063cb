"""Notices the first step whose loss is no finite number, without making every step wait for the device."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

LOOK_EVERY = 20
"""steps between two looks: a look waits for the device"""


class FiniteLoss:
    """Keeps, on the device, the first bad step of an epoch and which part of the loss was bad first."""

    def __init__(self, device: torch.device) -> None:
        self._steps = torch.zeros((), dtype=torch.long, device=device)
        self._first = torch.full((2,), -1, device=device)
        self._from = 0

    def begin_epoch(self, step: int) -> None:
        self._steps.zero_()
        self._first.fill_(-1)
        self._from = step

    def see(self, parts: Sequence[Tensor]) -> None:
        """The loss of one step as it grew: the cross-entropy, then after each ingredient."""
        bad = ~torch.stack([part.detach().float() for part in parts]).isfinite()
        now = torch.stack([self._steps, bad.int().argmax()])
        self._first = torch.where(bad.any() & (self._first[0] < 0), now, self._first)
        self._steps += 1

    def first_bad(self) -> tuple[int, int] | None:
        """The step within the epoch and the part of the loss; None while all were finite. Waits for the device."""
        step, part = self._first.tolist()
        return None if step < 0 else (self._from + step, part)


def all_finite(tensors: Iterable[Tensor]) -> bool:
    return bool(torch.stack([tensor.detach().isfinite().all() for tensor in tensors]).all())
