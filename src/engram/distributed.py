"""One model on several processes, as `torchrun` starts them: each sees its share of every batch.

Every process holds all data and does everything but the training by itself, and so the same; what the shares gave is
averaged. The first process alone writes files and shows progress.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from engram.errors import EngramError


@dataclass(frozen=True)
class World:
    """All processes of a run; `rank` is this one's number."""

    rank: int = 0
    size: int = 1

    def share(self, rows: Tensor) -> tuple[Tensor, float]:
        """This process's part of a batch's rows, and the weight of what it gives; the weights' sum is 1.

        A batch that is too small to be shared is everyone's.
        """
        if len(rows) < self.size:
            return rows, 1 / self.size
        part = rows[self.rank :: self.size]
        return part, len(part) / len(rows)

    def sum(self, tensors: Sequence[Tensor], weight: float = 1.0) -> None:
        """Replace each by the sum of all processes' own, times their weights; one message for all of them."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        if weight != 1:
            flat.mul_(weight)
        _all_here(lambda: dist.all_reduce(flat))
        for tensor, part in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.detach().copy_(part.view_as(tensor))

    def agree(self, tensors: Iterable[Tensor]) -> None:
        """Take the first process's: other machines may round otherwise."""
        if self.size > 1:
            for tensor in tensors:
                whole = tensor.detach().contiguous()
                _all_here(lambda whole=whole: dist.broadcast(whole, 0))
                tensor.detach().copy_(whole)


_world = World()


def world() -> World:
    return _world


def first_process() -> bool:
    """Whether this is the only process or the first one; known before the others are met."""
    return int(os.environ.get("RANK", "0")) == 0


@contextmanager
def joined(device: torch.device) -> Iterator[World]:
    """Together with the processes that `torchrun` has started with this one; alone without it."""
    global _world
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield _world
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    _world = World(dist.get_rank(), dist.get_world_size())
    try:
        yield _world
        _all_here(dist.barrier)  # the first one holds the line, and must not be the first to hang up
    finally:
        _world = World()
        dist.destroy_process_group()


def _all_here(talk: Callable[[], object]) -> None:
    try:
        talk()
    except RuntimeError as error:
        raise EngramError(
            "Another process of this run has ended or does not answer: see what it says, "
            "then give the same command again with --resume."
        ) from error
