"""Somebody's own network: copied, and asked for features; here as a fixed source of them."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from engram.errors import InputError

PART = 256


def own_copy(module: nn.Module, device: torch.device) -> nn.Module:
    """What it is now, whatever becomes of the module itself."""
    if any(is_lazy(parameter) for parameter in module.parameters()):
        raise InputError("The network has lazy layers that have not seen inputs yet: call it on some first.")
    return copy.deepcopy(module).to(device)


def check_given(learnt_with: bool, given: bool) -> None:
    """Files hold no code: what was learnt with a network of the user's own needs it again."""
    if learnt_with and not given:
        raise InputError("It was learnt with a network of the user's own: give it again, as `network`.")
    if given and not learnt_with:
        raise InputError("It was learnt without a network of the user's own: leave `network` out.")


def feature_rows(module: nn.Module, x: Tensor) -> Tensor:
    """The module's outputs, flattened to a row a sample."""
    try:
        found = module(x)
    except Exception as error:
        shape, reason = " x ".join(map(str, x.shape)), (str(error).splitlines() or [""])[0]
        message = f"The network failed on inputs of {shape} ({type(error).__name__}: {reason}): check what it takes."
        raise InputError(message) from error
    if not isinstance(found, Tensor) or found.shape[:1] != x.shape[:1] or not found.numel():
        given = f"one of the shape {tuple(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
        raise InputError(f"The network must return a tensor with a row for each of {len(x)} samples, not {given}.")
    return found.flatten(1) if found.ndim > 1 else found[:, None]


class FrozenFeatures:
    """The outputs of a module in evaluation mode, never trained."""

    def __init__(self, module: nn.Module, device: torch.device, low_precision: bool) -> None:
        self.module = module.eval().requires_grad_(False)
        self.fingerprint = fingerprint(module)
        self.device_type, self.low_precision = device.type, low_precision

    def __call__(self, x: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast(self.device_type, torch.bfloat16, enabled=self.low_precision):
            return torch.cat([feature_rows(self.module, part.float()).float() for part in x.split(PART)])

    def plain(self) -> Callable[[Tensor], Tensor]:
        """The same in float32, whatever the precision."""
        return lambda x: feature_rows(self.module, x.float()).float()


def fingerprint(module: nn.Module) -> str:
    """A checksum of a module's parameters and buffers: modules of the same one compute the same, code apart."""
    digest = hashlib.sha256()
    for name, tensor in sorted([*module.named_parameters(), *module.named_buffers()]):
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
