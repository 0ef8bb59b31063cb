"""Somebody's own network as a fixed source of features."""

from __future__ import annotations

import copy
import hashlib

import torch
from torch import Tensor, nn

PART = 256


class FrozenFeatures:
    """The outputs of a copy of a module, in evaluation mode, flattened to a row a sample. It is never trained."""

    def __init__(self, module: nn.Module, device: torch.device, low_precision: bool) -> None:
        self.module = copy.deepcopy(module).to(device).eval().requires_grad_(False)
        self.device_type, self.low_precision = device.type, low_precision

    def __call__(self, x: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast(self.device_type, torch.bfloat16, enabled=self.low_precision):
            return torch.cat([self.module(part.float()).flatten(1).float() for part in x.split(PART)])


def fingerprint(module: nn.Module) -> str:
    """A checksum of a module's parameters and buffers: modules of the same one compute the same, code apart."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        plain = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {plain.dtype} {tuple(plain.shape)}".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
