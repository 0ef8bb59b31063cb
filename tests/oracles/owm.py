"""OWM as its authors wrote it down: one rank-1 update after another, in float64, with explicit loops."""

from __future__ import annotations

import numpy as np


class RankOneProjector:
    def __init__(self, dim: int) -> None:
        self.p = np.eye(dim)

    def absorb(self, row: np.ndarray, alpha: float) -> None:
        k = self.p @ row
        self.p = self.p - np.outer(k, k) / (alpha + row @ k)

    def absorb_rows(self, rows: np.ndarray, alpha: float) -> None:
        for row in rows:
            self.absorb(row, alpha)


def conv_patches(mean: np.ndarray, kernel: int, stride: int) -> np.ndarray:
    """The kernel-sized patches of a (channels × height × width) map, as rows, position after position."""
    _, height, width = mean.shape
    return np.array(
        [
            mean[:, top : top + kernel, left : left + kernel].reshape(-1)
            for top in range(0, height - kernel + 1, stride)
            for left in range(0, width - kernel + 1, stride)
        ]
    )
