"""The projector's algebra: P with P⁻¹ = I + Σ rᵀr/α over all rows r absorbed so far. Knows matrices, no networks."""

from __future__ import annotations

import torch
from torch import Tensor

from engram.errors import FileError, InputError
from engram.products import product

PENDING_ROWS = 64
"""Rows kept beside the dense part before they are folded in: one pass over P every so many steps."""

WIDE_DIMENSION = 512
"""Up to here P is kept in float64: alpha falls to the size of float32's rounding errors, and it costs little."""

LOOKED_AT = {"cpu"}
"""devices on which looking at a number waits for nothing"""
MARGIN = 100.0
"""how far above rounding that must lie which is taken away, where nobody looks"""


class Projector:
    """Orthogonal projector of one layer, kept as P = base - pendingᵀ · pending.

    Rows given to `update` lose (nearly) all their length under `project`; everything orthogonal to them stays.
    The result equals one rank-1 update per row, P ← P - kkᵀ/(α + rᵀk) with k = Pr, in any order.
    """

    def __init__(self, dim: int, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None) -> None:
        if dim < 1:
            raise InputError(f"A projector needs a dimension of at least 1, not {dim}.")
        self.dim = dim
        self.dtype = dtype
        kept = torch.float64 if dim <= WIDE_DIMENSION else dtype
        self.base = torch.eye(dim, dtype=kept, device=device)
        waiting = PENDING_ROWS if dim > WIDE_DIMENSION else 0  # a pass over a small matrix costs nothing
        self.pending = torch.zeros(waiting, dim, dtype=kept, device=device)
        self.used = 0

    def project(self, x: Tensor) -> Tensor:
        """x @ P, for rows x (any number × dim)."""
        return self._product(x.to(self.dtype))

    def update(self, rows: Tensor, alpha: float) -> None:
        """Absorb all rows (m × dim) at once: P ← P - PRᵀ(αI + RPRᵀ)⁻¹RP."""
        self._check(rows, alpha)
        rows = rows.to(self.base.dtype)
        if len(rows) == 0:
            return
        if len(rows) > self.dim:  # RᵀR is all that matters, so dim rows with the same RᵀR do as well
            rows = torch.linalg.qr(rows, mode="r").R
        projected = self._product(rows)
        self._subtract(_whiten(projected, rows, alpha))

    def update_with_mean(self, x: Tensor, alpha: float, mean: Tensor | None = None) -> Tensor:
        """Absorb the mean of the rows of x and return x @ P afterwards, for the price of the product alone.

        `mean` is absorbed in its place where x is only a part of the rows.
        """
        self._check(x, alpha)
        x = x.to(self.base.dtype)
        if mean is None:
            result = self._product(x)
            mean, direction = x.mean(0), result.mean(0)  # P · mean is the mean of the projected rows
        else:
            mean = mean.to(self.base.dtype)
            result, direction = self._product(torch.cat([x, mean[None]])).tensor_split([len(x)])
            direction = direction[0].clone()
        direction = direction / (alpha + (mean @ direction).clamp_min(0)).sqrt()
        result.addr_(x @ direction, direction, alpha=-1)
        self._subtract(direction[None])
        return result.to(self.dtype)

    def remove(self, directions: Tensor) -> None:
        """Take orthonormal rows out of what `project` lets through; they must lie in what was still free."""
        self._subtract(directions.to(self.base.dtype))

    def matrix(self) -> Tensor:
        """P as a dense matrix (a copy)."""
        waiting = self.pending[: self.used]
        return (self.base - waiting.T @ waiting).to(self.dtype)

    def trace(self) -> float:
        """trace(P): how many of the dim directions are still free."""
        return float(self.base.diagonal().sum() - self.pending[: self.used].square().sum())

    def state(self) -> dict[str, Tensor]:
        """Everything that a resumed run needs, the fold phase included."""
        return {"base": self.base, "pending": self.pending[: self.used]}

    def restore(self, state: dict[str, Tensor]) -> None:
        base, pending = state["base"], state["pending"]
        if base.shape != self.base.shape or pending.shape[1:] != (self.dim,) or len(pending) > len(self.pending):
            raise FileError(f"The saved projector does not fit a layer of {self.dim} inputs.")
        self.base.copy_(base)
        self.used = len(pending)
        self.pending[: self.used].copy_(pending)

    def _product(self, x: Tensor) -> Tensor:
        result = product(self.base.to(x.dtype), x)  # P is symmetric, and this order is the faster one for few rows
        if self.used:
            waiting = self.pending[: self.used]
            result.addmm_(waiting.T, waiting @ x.T, alpha=-1)
        return result.T

    def _check(self, rows: Tensor, alpha: float) -> None:
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise InputError(f"The projector takes rows of {self.dim} numbers, not {tuple(rows.shape)}.")
        if not alpha > 0:
            raise InputError(f"OWM's alpha must be above 0, not {alpha}.")

    def _subtract(self, rows: Tensor) -> None:
        """P ← P - rowsᵀ · rows, later and together with others if there is room to wait."""
        if self.used + len(rows) > len(self.pending):
            self._fold()
        if len(rows) > len(self.pending):
            self.base.addmm_(rows.T, rows, alpha=-1)
            return
        self.pending[self.used : self.used + len(rows)] = rows
        self.used += len(rows)

    def _fold(self) -> None:
        waiting = self.pending[: self.used]
        self.base.addmm_(waiting.T, waiting, alpha=-1)
        self.used = 0


def _whiten(projected: Tensor, rows: Tensor, alpha: float) -> Tensor:
    """V with VᵀV = (RP)ᵀ (αI + RPRᵀ)⁻¹ RP, the small factorisation in float64.

    RPRᵀ is positive up to rounding. Where rounding wins (alpha far below the rows' squared length), directions that
    cannot be told from rounding are left out: P has nothing left there to take away. On a device that would have to be
    waited for they count for a hundredth instead.
    """
    wide = (projected @ rows.T).double()
    wide = (wide + wide.T) / 2
    shifted = wide + alpha * torch.eye(len(wide), dtype=wide.dtype, device=wide.device)
    rounding = torch.finfo(projected.dtype).eps * rows.square().sum()
    lower, failed = torch.linalg.cholesky_ex(shifted)
    if wide.device.type not in LOOKED_AT:
        safe = shifted + MARGIN * rounding.double() * torch.eye(len(wide), dtype=wide.dtype, device=wide.device)
        lower = torch.where(failed == 0, lower, torch.linalg.cholesky_ex(safe).L)
    if wide.device.type not in LOOKED_AT or int(failed) == 0:
        whitened = torch.linalg.solve_triangular(lower, projected.double(), upper=False)
    else:
        values, vectors = torch.linalg.eigh(wide)
        weights = torch.where(values > rounding, (values.clamp_min(0) + alpha).rsqrt(), 0)
        whitened = (vectors * weights).T @ projected.double()
    return whitened.to(projected.dtype)
