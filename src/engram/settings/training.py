"""The loop over batches, and the network that it trains."""

from __future__ import annotations

from dataclasses import dataclass

from engram.errors import InputError
from engram.settings.checks import check_number, check_whole, is_whole

EPOCHS, TEXT_EPOCHS = 25, 5
"""passes over each task's data where the settings leave them open"""


@dataclass(frozen=True)
class TrainingSettings:
    """The loop over batches, the same for every task."""

    epochs: int | None = None
    """passes over each task's data (None: 25, and 5 over texts)"""
    batch_size: int = 64
    """samples a step"""
    learning_rate: float = 0.02
    """of SGD, constant; the optimiser is made anew for each task"""
    momentum: float = 0.9
    """of SGD"""
    clip_norm: float = 10.0
    """largest norm of the whole gradient, after every ingredient's edit (0: no clipping)"""

    def __post_init__(self) -> None:
        check_whole(self, 1, "batch_size", *(["epochs"] if self.epochs is not None else []))
        check_number(self, "above 0", "learning_rate")
        check_number(self, "at least 0 and below 1", "momentum")
        check_number(self, "at least 0", "clip_norm")


@dataclass(frozen=True)
class NetworkSettings:
    """The paper's network: three convolutions for images, none for tables, then three linear layers."""

    filters: tuple[int, int, int] = (64, 128, 256)
    """channels of the three 2x2 convolutions (images only), times width"""
    width: int = 0
    """multiplies the filters (0: twice on CIFAR-100, as in the paper, and once elsewhere)"""
    hidden: int = 1000
    """width of the two hidden linear layers"""
    dropout: float = 0.2
    """after each convolution (images only)"""

    def __post_init__(self) -> None:
        check_whole(self, 0, "width")
        check_whole(self, 1, "hidden")
        check_number(self, "at least 0 and below 1", "dropout")
        listed = isinstance(self.filters, tuple | list)
        if not listed or len(self.filters) != 3 or not all(is_whole(number, 1) for number in self.filters):
            raise InputError(f"filters must be three whole numbers of at least 1, not {self.filters!r}.")
        object.__setattr__(self, "filters", tuple(int(number) for number in self.filters))
