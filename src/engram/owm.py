"""Orthogonal weight modification of any module's Linear, Conv1d and Conv2d layers, for anybody's training loop.

owm = OWM(model)
for x, y in batches:
    optimizer.zero_grad()
    loss(model(x), y).backward()
    owm.project(progress)      # progress: the part of the task that is done, 0 to 1
    optimizer.step()
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils.hooks import RemovableHandle

from engram.errors import FileError, InputError
from engram.owm_layers import ProtectedConv, ProtectedLayer, ProtectedLinear
from engram.settings import OWMSettings

SUPPORTED = (nn.Linear, nn.Conv1d, nn.Conv2d)


class OWM:
    """Keeps what a model learnt by projecting its gradients away from the inputs that its layers have seen.

    Inputs are recorded in forward passes in training mode outside `paused()`. `project` maps each layer's `.grad`,
    whatever it holds by then, to `.grad @ P`; so clip afterwards. `skip` names layers (or parents of layers) to leave
    free. Parameters of other kinds of layers stay unprotected and are named in one warning.

    A step that is left out (`zero_grad` without `project`) needs `discard()`. One process, one model: copies, replicas
    and passes in evaluation mode are not seen. Save the model's `state_dict`, or call `remove` before pickling it.

    `lazy` saves time where every recorded forward pass has one backward pass and one `project`: the backward pass
    leaves out the gradients of wide linear layers, and `project` forms them, projected, at once. Between the two these
    layers' `.grad` holds only what others have put there.

    `average` is for a model that several processes train together: it is given the layers' mean inputs, and replaces
    them by the means over all processes. Gradients may be averaged after `project`, as projecting is linear.
    """

    def __init__(
        self,
        model: nn.Module,
        settings: OWMSettings | None = None,
        *,
        skip: Iterable[str] = (),
        dtype: torch.dtype | None = None,
        lazy: bool = False,
        average: Callable[[list[Tensor]], None] | None = None,
    ) -> None:
        self.settings = settings or OWMSettings()
        names = _protectable(model)
        skipped = _expand_skip(model, skip)
        alphas = _final_alphas(model, names, self.settings)
        _warn_of_unprotected(model, set(names) | skipped)
        self.layers: dict[str, ProtectedLayer] = {}
        self._final_alpha = {name: alphas[name] for name in names if name not in skipped}
        for name in self._final_alpha:
            self.layers[name] = _protect(model.get_submodule(name), self.settings.patch_stride, dtype, lazy)
        self._average = average
        self._recording, self._warned = True, False
        self._handles = [handle for layer in self.layers.values() for handle in self._hook(layer)]

    def project(self, progress: float | None = None) -> None:
        """Absorb the last batch's inputs (when `online`), then project the gradients; call after `backward()`.

        `progress` is the part of the task that is done: alpha falls from 1 (at 0) to its setting (at 1). None means 1.
        """
        if self._recording:
            self._warn_of_unseen()
        online = self.settings.refresh == "online"
        if online:
            self._average_means()
        for name, layer in self.layers.items():
            layer.project(self._alpha(name, progress) if online else None)

    def absorb(self, progress: float | None = None) -> None:
        """Absorb the inputs of the forward passes since the last call, with no gradient involved."""
        self._average_means()
        for name, layer in self.layers.items():
            layer.absorb(self._alpha(name, progress))

    def discard(self) -> None:
        """Forget the forward passes since the last `project`: for a step that is left out."""
        for layer in self.layers.values():
            layer.records.clear()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Forward passes in here are not recorded: evaluation, replay, importance, feature caching."""
        before, self._recording = self._recording, False
        try:
            yield
        finally:
            self._recording = before

    def traces(self) -> dict[str, float]:
        """For each layer the share of its input space that is still free: trace(P) / dimension."""
        return {name: layer.free_share() for name, layer in self.layers.items()}

    def remove(self) -> None:
        """Take the hooks off the model."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def state(self) -> dict[str, Tensor]:
        return {
            f"{name}.{group}.{key}": tensor
            for name, layer in self.layers.items()
            for group, projector in enumerate(layer.projectors)
            for key, tensor in projector.state().items()
        }

    def restore(self, state: dict[str, Tensor]) -> None:
        if state.keys() != self.state().keys():
            raise FileError("The saved projectors belong to a network with other layers.")
        for name, layer in self.layers.items():
            for group, projector in enumerate(layer.projectors):
                prefix = f"{name}.{group}"
                projector.restore({key: state[f"{prefix}.{key}"] for key in ("base", "pending")})

    def _average_means(self) -> None:
        records = [record for layer in self.layers.values() for record in layer.records]
        if self._average is not None and records:
            self._average([record.mean for record in records])
            for record in records:
                record.averaged = True

    def _warn_of_unseen(self) -> None:
        unseen = [
            name for name, layer in self.layers.items() if not layer.recorded and layer.module.weight.grad is not None
        ]
        if unseen and not self._warned:
            self._warned = True
            message = (
                f"OWM has seen no forward pass in training mode of {', '.join(unseen)}: it protects nothing there."
            )
            warnings.warn(message, stacklevel=3)

    def _alpha(self, name: str, progress: float | None) -> float:
        if progress is not None and not 0 <= progress <= 1:
            raise InputError(f"progress is the part of the task that is done, from 0 to 1, not {progress}.")
        return self._final_alpha[name] ** (1.0 if progress is None else progress)

    def _hook(self, layer: ProtectedLayer) -> list[RemovableHandle]:
        def watched(module: nn.Module) -> bool:
            # a deep copy of the model carries these hooks too, but is another module: a teacher is not recorded
            return self._recording and module.training and module is layer.module

        def before(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
            if watched(module):
                layer.defer(inputs[0] if inputs else named["input"])

        def after(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], output: Tensor | None) -> None:
            if watched(module):
                if output is not None:  # None: the forward pass has failed
                    layer.record(inputs[0] if inputs else named["input"], output)
                layer.after_forward()

        module = layer.module
        return [
            module.register_forward_pre_hook(before, with_kwargs=True),
            module.register_forward_hook(after, with_kwargs=True, always_call=True),
        ]


def _protect(module: nn.Module, patch_stride: int, dtype: torch.dtype | None, lazy: bool) -> ProtectedLayer:
    if any(is_lazy(parameter) for parameter in module.parameters(recurse=False)):
        raise InputError("OWM needs a model whose lazy layers have their sizes: run one batch through it first.")
    if isinstance(module, nn.Linear):
        return ProtectedLinear(module, dtype, lazy)
    assert isinstance(module, nn.Conv1d | nn.Conv2d)
    return ProtectedConv(module, patch_stride, dtype)


def _protectable(model: nn.Module) -> list[str]:
    """Names of the layers whose weight is theirs alone and whose forward is their own, in the model's order."""
    uses = Counter(id(p) for _, p in model.named_parameters(remove_duplicate=False))
    inside_attention = tuple(
        f"{name}." if name else ""
        for name, module in model.named_modules()
        if isinstance(module, nn.MultiheadAttention)
    )

    def own(module: nn.Module) -> bool:
        weight = module._parameters.get("weight")
        return weight is not None and all(uses[id(p)] == 1 for p in module.parameters(recurse=False))

    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, SUPPORTED)
        and own(module)
        and not (inside_attention and name.startswith(inside_attention))
    ]


def _expand_skip(model: nn.Module, skip: Iterable[str]) -> set[str]:
    known = {name for name, _ in model.named_modules()}
    skipped: set[str] = set()
    for wanted in skip:
        if wanted not in known:
            raise InputError(f"OWM cannot skip {wanted!r}: the model has no layer of that name.")
        skipped |= {name for name in known if name == wanted or name.startswith(f"{wanted}.")}
    return skipped


def _final_alphas(model: nn.Module, names: list[str], settings: OWMSettings) -> dict[str, float]:
    linear = [name for name in names if isinstance(model.get_submodule(name), nn.Linear)]
    alphas = dict.fromkeys(names, settings.alpha_conv) | dict.fromkeys(linear, settings.alpha_hidden)
    if linear:
        alphas[linear[0]] = settings.alpha_first
        alphas[linear[-1]] = settings.alpha_last
    return alphas


def _warn_of_unprotected(model: nn.Module, accounted: set[str]) -> None:
    free = [
        f"{name or 'the model itself'} ({type(module).__name__})"
        for name, module in model.named_modules()
        if name not in accounted and any(p.requires_grad for p in module.parameters(recurse=False))
    ]
    if free:
        warnings.warn(f"OWM does not protect {', '.join(free)}: they may forget.", stacklevel=3)
