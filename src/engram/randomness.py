"""One random stream per purpose, so that nothing that is added changes the numbers of something else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def seed_for(seed: int, *purpose: object) -> int:
    """A seed of its own for (seed, purpose): the same on every machine, unrelated to its neighbours'."""
    words = repr((seed, *purpose)).encode()
    return int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "little") >> 2


def generator(seed: int, *purpose: object) -> torch.Generator:
    return torch.Generator().manual_seed(seed_for(seed, *purpose))


def seed_default(seed: int, device: torch.device) -> None:
    """Seed torch's default generators of the CPU and the device.

    `torch.manual_seed` also tells GPUs that may be asked for one day, and notes the whole call stack each time.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)


@contextmanager
def isolated(device: torch.device) -> Iterator[None]:
    """torch's default generators may be seeded freely in here; outside nothing of it is seen."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield
