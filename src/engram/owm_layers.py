"""How one layer's inputs become a projector's rows, and how its gradient is projected."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engram.patches import conv_patches, pair
from engram.products import product
from engram.projection import Projector

PROBE_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 1e-2}


@dataclass
class Record:
    """One forward pass through a layer; `rows` and `delta` only where the cheap projection can use them."""

    mean: Tensor
    count: int
    rows: Tensor | None
    delta: Tensor | None = None
    deferred: bool = False
    """whether the weight's gradient was left out of the backward pass"""
    averaged: bool = False
    """whether `mean` is that of several processes' rows, of which `rows` are a part"""
    reached: bool = False
    """whether the backward pass came by: forward passes without one teach the weights nothing"""


class ProtectedLayer(ABC):
    """A layer, its projectors (one per group) and the passes recorded since the last step."""

    module: nn.Linear | nn.Conv1d | nn.Conv2d

    def __init__(self, dim: int, groups: int, weight: Tensor, dtype: torch.dtype | None) -> None:
        dtype = dtype or (torch.float64 if weight.dtype == torch.float64 else torch.float32)
        self.projectors = [Projector(dim, dtype, weight.device) for _ in range(groups)]
        self.records: list[Record] = []
        self.recorded = False
        """whether any forward pass has been seen"""

    @abstractmethod
    def project(self, alpha: float | None) -> None:
        """Project the weight's (and bias's) gradient; with an alpha, absorb the recorded inputs first."""

    @abstractmethod
    def rows(self, mean: Tensor) -> list[Tensor]:
        """For each projector the rows that a batch's mean input means to it."""

    def record(self, x: Tensor, output: Tensor) -> None:
        """Remember what a forward pass in training has seen."""
        self.recorded = True
        if x.numel():
            self._record(x.detach(), output)

    @abstractmethod
    def _record(self, x: Tensor, output: Tensor) -> None: ...

    def defer(self, x: Tensor) -> None:  # noqa: B027 (a convolution has nothing to do here)
        """Called before a recorded forward pass."""

    def after_forward(self) -> None:  # noqa: B027
        """Called after every recorded forward pass, whether or not it failed."""

    def absorb(self, alpha: float) -> None:
        """Absorb every recorded pass, whether or not a backward pass came by."""
        self._absorb(self._take(), alpha)

    def free_share(self) -> float:
        return sum(p.trace() for p in self.projectors) / sum(p.dim for p in self.projectors)

    def _remember(self, record: Record, output: Tensor) -> None:
        self.records.append(record)
        if output.requires_grad:

            def arrive(delta: Tensor) -> None:
                record.reached = True
                if record.rows is not None:
                    record.delta = delta.detach() if record.delta is None else record.delta + delta.detach()

            output.register_hook(arrive)

    def _take(self) -> list[Record]:
        taken, self.records = self.records, []
        return taken

    def _absorb(self, records: list[Record], alpha: float) -> None:
        """Passes of equal shape count as one larger batch, as with accumulated gradients."""
        by_shape: dict[torch.Size, list[Record]] = {}
        for record in records:
            by_shape.setdefault(record.mean.shape, []).append(record)
        for alike in by_shape.values():
            for projector, rows in zip(self.projectors, self.rows(_mean_of(alike)), strict=True):
                projector.update(rows, alpha)

    def _gradient(self) -> Tensor | None:
        """The weight's gradient as out × inputs, the bias's as a last column; None where there is none."""
        weight, bias = self.module.weight, self.module.bias
        if weight.grad is None and (bias is None or bias.grad is None):
            return None
        flat = _or_zeros(weight).reshape(len(weight), -1)
        flat = flat if bias is None else torch.cat([flat, _or_zeros(bias)[:, None]], 1)
        return flat.to(self.projectors[0].dtype)

    def _set_gradient(self, flat: Tensor) -> None:
        weight, bias = self.module.weight, self.module.bias
        if bias is not None:
            flat, column = flat[:, :-1], flat[:, -1]
            if bias.requires_grad:
                _assign(bias, column)
        _assign(weight, flat.reshape(weight.shape))


class ProtectedLinear(ProtectedLayer):
    """Projects δᵀX as δᵀ(XP) where the batch is smaller than the layer: exact, and far cheaper than (δᵀX)P."""

    def __init__(self, module: nn.Linear, dtype: torch.dtype | None, lazy: bool) -> None:
        dim = module.in_features + (module.bias is not None)
        super().__init__(dim, 1, module.weight, dtype)
        self.module = module
        self.lazy = lazy
        probe = torch.randn(dim, generator=torch.Generator().manual_seed(dim), dtype=self.projectors[0].dtype)
        self._probe = probe.to(module.weight.device)
        self._deferred = False

    def defer(self, x: Tensor) -> None:
        """Before a forward pass: have the backward pass leave out the gradient that `project` will form anyway."""
        self._deferred = (
            self.lazy
            and x.numel() > 0
            and self._few(x)
            and x.requires_grad
            and torch.is_grad_enabled()
            and all(parameter.requires_grad for parameter in self.module.parameters(recurse=False))
        )
        if self._deferred:
            self._require_gradients(False)

    def _record(self, x: Tensor, output: Tensor) -> None:
        rows = x.reshape(-1, x.shape[-1])
        mean = rows.mean(0, dtype=self.projectors[0].dtype)
        useful = output.requires_grad and self._few(x)
        self._remember(Record(mean, len(rows), rows if useful else None, deferred=self._deferred), output)

    def after_forward(self) -> None:
        if self._deferred:
            self._require_gradients(True)
            self._deferred = False

    def rows(self, mean: Tensor) -> list[Tensor]:
        return [self._with_one(mean[None])]

    def project(self, alpha: float | None) -> None:
        records = [record for record in self._take() if record.reached]
        if not self.module.weight.requires_grad:
            return
        gradient = self._gradient()
        deferred = [record for record in records if record.deferred]
        if self._is_product(gradient, records, deferred):
            x, delta = self._factors(records)
            projector = self.projectors[0]
            projected = (
                projector.project(x) if alpha is None else projector.update_with_mean(x, alpha, self._mean(records))
            )
            return self._set_gradient(product(delta.T, projected.T))
        if alpha is not None:
            self._absorb(records, alpha)
        if gradient is not None:
            gradient = self.projectors[0].project(gradient)
        if deferred:
            x, delta = self._factors(deferred)
            formed = product(delta.T, self.projectors[0].project(x).T)
            gradient = formed if gradient is None else gradient + formed
        if gradient is not None:
            self._set_gradient(gradient)

    def _is_product(self, gradient: Tensor | None, records: list[Record], deferred: list[Record]) -> bool:
        """Whether the whole gradient is Σ δᵀX of the recorded passes: no penalty, clipping or mask has touched it."""
        if any(record.delta is None for record in records):
            return False
        if gradient is None:
            return len(deferred) == len(records) > 0
        if deferred or not records:
            return False
        # one product with a fixed vector tells, at the price of one pass over the gradient
        x, delta = self._factors(records)
        seen = gradient.to(x.dtype) @ self._probe
        expected = delta.T @ (x @ self._probe)
        tolerance = max(PROBE_TOLERANCE[r.delta.dtype] for r in records if r.delta is not None)
        return bool((seen - expected).norm() <= tolerance * seen.norm())

    def _mean(self, records: list[Record]) -> Tensor | None:
        """Of all processes' rows; None where all rows are here."""
        return self.rows(_mean_of(records))[0][0] if records[0].averaged else None

    def _factors(self, records: list[Record]) -> tuple[Tensor, Tensor]:
        dtype = self.projectors[0].dtype
        rows = [r.rows.to(dtype) for r in records if r.rows is not None]
        delta = [r.delta.reshape(r.count, -1).to(dtype) for r in records if r.delta is not None]
        return self._with_one(_joined(rows)), _joined(delta)

    def _few(self, x: Tensor) -> bool:
        return x.numel() // x.shape[-1] < len(self.module.weight)

    def _require_gradients(self, yes: bool) -> None:
        for parameter in self.module.parameters(recurse=False):
            parameter.requires_grad_(yes)

    def _with_one(self, rows: Tensor) -> Tensor:
        return rows if self.module.bias is None else torch.cat([rows, rows.new_ones(len(rows), 1)], 1)


class ProtectedConv(ProtectedLayer):
    def __init__(self, module: nn.Conv1d | nn.Conv2d, patch_stride: int, dtype: torch.dtype | None) -> None:
        dim = module.weight[0].numel() + (module.bias is not None)
        super().__init__(dim, module.groups, module.weight, dtype)
        self.module = module
        self.groups = module.groups
        self.stride = (patch_stride, patch_stride) if patch_stride else pair(module.kernel_size)

    def _record(self, x: Tensor, output: Tensor) -> None:
        batched = x if x.ndim == self.module.weight.ndim else x[None]
        mean = _batch_mean(batched, self.projectors[0].dtype)
        self._remember(Record(mean, len(batched), None), output)

    def rows(self, mean: Tensor) -> list[Tensor]:
        assert not isinstance(self.module, nn.Linear)
        found = conv_patches(self.module, mean[None], self.stride)[0]
        patches = found.reshape(len(found), self.groups, -1)
        if self.module.bias is not None:
            patches = torch.cat([patches, patches.new_ones(*patches.shape[:2], 1)], 2)
        return list(patches.unbind(1))

    def project(self, alpha: float | None) -> None:
        records = [record for record in self._take() if record.reached]
        if not self.module.weight.requires_grad:
            return
        gradient = self._gradient()
        if gradient is None:
            return
        if alpha is not None:
            self._absorb(records, alpha)
        parts = gradient.chunk(self.groups)
        self._set_gradient(torch.cat([p.project(part) for p, part in zip(self.projectors, parts, strict=True)]))


def _mean_of(records: list[Record]) -> Tensor:
    total = sum(record.count for record in records)
    first, *others = (record.mean * (record.count / total) for record in records)
    return sum(others, first)


def _batch_mean(x: Tensor, dtype: torch.dtype) -> Tensor:
    if x.ndim != 4 or not x.is_contiguous(memory_format=torch.channels_last):
        return x.mean(0, dtype=dtype)
    last = x.permute(0, 2, 3, 1)  # as it lies in memory: seven times as fast
    return last.flatten(1).mean(0, dtype=dtype).view(last.shape[1:]).permute(2, 0, 1)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _assign(parameter: Tensor, gradient: Tensor) -> None:
    if parameter.grad is None:
        parameter.grad = gradient.to(parameter.dtype).contiguous()
    else:
        parameter.grad.copy_(gradient)


def _or_zeros(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
