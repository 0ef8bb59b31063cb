"""A run's curves for TensorBoard, which is an extra: `pip install 'engram[tensorboard]'`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engram.errors import InputError

FOLDER = "tensorboard"


class Scalars:
    """Writes numbers that are known anyway, after an epoch or a task; without TensorBoard asked for, nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._writer = None if folder is None else _writer(folder / FOLDER)

    def add(self, name: str, value: float, at: int) -> None:
        if self._writer is not None:
            self._writer.add_scalar(name, value, at)

    def add_all(self, name: str, values: Mapping[str, Any], at: int) -> None:
        """The numbers of nested dictionaries; lists, such as a generator's own curve, are left out."""
        for path, value in _flat(name, values):
            self.add(path, value, at)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError:
        raise InputError(
            "--tensorboard needs TensorBoard, which is not installed: pip install 'engram[tensorboard]'."
        ) from None
    return SummaryWriter(folder)


def _flat(name: str, values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{name}/{key}", value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{name}/{key}", float(value)
