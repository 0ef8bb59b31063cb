"""Notices the first step whose loss is no finite number, without making every step wait for the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

LOOK_EVERY = 20
"""steps between two looks: a look waits for the device"""


class FiniteLoss:
    """Keeps the losses of the last steps, on the device, until somebody looks."""

    def __init__(self) -> None:
        self._step = 0
        self._seen: deque[tuple[int, list[Tensor]]] = deque(maxlen=LOOK_EVERY)

    def begin_epoch(self, step: int) -> None:
        self._step = step
        self._seen.clear()

    def see(self, parts: Sequence[Tensor]) -> None:
        """The loss of one step as it grew: the cross-entropy, then after each ingredient."""
        self._seen.append((self._step, [part.detach() for part in parts]))
        self._step += 1

    def first_bad(self) -> tuple[int, int] | None:
        """The step within the epoch and the part of the loss; None while all were finite. Waits for the device."""
        if not self._seen:
            return None
        parts = len(self._seen[0][1])
        bad = ~torch.stack([part.float() for _, losses in self._seen for part in losses]).isfinite()
        if not bad.any():
            self._seen.clear()
            return None
        place, part = divmod(int(bad.int().argmax()), parts)
        return self._seen[place][0], part


def all_finite(tensors: Iterable[Tensor]) -> bool:
    return bool(torch.stack([tensor.detach().isfinite().all() for tensor in tensors]).all())
