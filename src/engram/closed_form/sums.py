"""Running sums of features: all that a closed-form head needs to know of the data."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engram.closed_form.triangles import add_products, clear, lower, upper_product
from engram.errors import InputError
from engram.lesson import State

EXACT_WIDTH = 4096
"""Up to so many features the products are summed in float64, above in float32: there memory is what is short."""


@dataclass
class Moments:
    """Sums over one part of the rows; `square` is the matrix of products, of which the lower triangle counts."""

    square: Tensor
    by_class: Tensor
    counts: Tensor


class Sums:
    """Products and class sums of the rows learnt from and of those held out, apart from each other.

    `products` has one pair of triangles for each class if all of them fit the memory set for this, which lets whole
    classes be forgotten, and otherwise a single one for all. `by_class` and `counts` are [part, column, ...] with
    part 0 learnt from and part 1 held out.
    """

    def __init__(self, width: int, limit: int, device: torch.device) -> None:
        self.width, self.limit = width, limit
        exact = width <= EXACT_WIDTH
        self.products = torch.zeros(0, width, width + 1, dtype=torch.float64 if exact else torch.float32, device=device)
        self.by_class = torch.zeros(2, 0, width, dtype=torch.float64, device=device)
        self.counts = torch.zeros(2, 0, dtype=torch.int64, device=device)
        self.apart = True
        self.widen(0)

    @property
    def columns(self) -> int:
        return self.by_class.shape[1]

    def widen(self, columns: int) -> None:
        """Make room for so many classes."""
        new = columns - self.columns
        if new > 0:
            self.by_class = torch.cat([self.by_class, self.by_class.new_zeros(2, new, self.width)], 1)
            self.counts = torch.cat([self.counts, self.counts.new_zeros(2, new)], 1)
        needed = columns * self.width * (self.width + 1) * self.products.itemsize
        if self.apart and needed > self.limit:
            self.apart = False
            self.products = self.products.sum(0, keepdim=True)
        if self.apart and columns > len(self.products):
            empty = self.products.new_zeros(columns - len(self.products), self.width, self.width + 1)
            self.products = torch.cat([self.products, empty])

    def add(self, features: Tensor, y: Tensor, held: Tensor, sign: int = 1) -> None:
        """Rows of features and their columns; with sign -1 they are taken out again."""
        present, places = y.unique(return_inverse=True)  # of very many classes few are in one batch
        one_hot = torch.nn.functional.one_hot(places, len(present))
        parts = torch.stack([one_hot * ~held[:, None], one_hot * held[:, None]])
        counts = self.counts.clone()
        counts[:, present] += sign * parts.sum(1)
        if (counts < 0).any():
            raise InputError("These samples were not all learnt, so that they cannot be forgotten: check X and y.")
        self.counts = counts
        self.by_class[:, present] += sign * (parts.transpose(1, 2).to(features.dtype) @ features)
        groups = [(column, y == column) for column in present.tolist()] if self.apart else [(0, torch.ones_like(held))]
        for index, rows in groups:
            add_products(self.products[index], features[rows & ~held], features[rows & held], sign)
        if sign < 0:
            self._clear_the_empty()

    def forget(self, columns: list[int]) -> None:
        """Take out whole classes; their products too, where each class has its own."""
        self.by_class[:, columns] = 0
        self.counts[:, columns] = 0
        self._clear_the_empty()

    def _clear_the_empty(self) -> None:
        """What nothing is left of is zero, and not the rounding of having been something."""
        empty = self.counts == 0
        self.by_class[empty] = 0
        learnt, held = empty if self.apart else empty.all(1, keepdim=True)
        for index in (learnt | held).nonzero().flatten().tolist():
            clear(self.products[index], bool(learnt[index]), bool(held[index]))

    def keep(self, columns: list[int]) -> None:
        """Only these columns, in this order."""
        self.by_class, self.counts = self.by_class[:, columns], self.counts[:, columns]
        if self.apart:
            self.products = self.products[columns]

    def merge(self, other: Sums, columns: dict[int, int]) -> None:
        """Add another's sums; `columns` says which of ours its columns are, those without rows left out."""
        theirs, ours = list(columns), list(columns.values())
        self.by_class[:, ours] += other.by_class[:, theirs]
        self.counts[:, ours] += other.counts[:, theirs]
        if self.apart and other.apart:
            self.products[ours] += other.products[theirs]
            return
        if self.apart:
            self.apart, self.products = False, self.products.sum(0, keepdim=True)
        self.products += other.products.sum(0, keepdim=True)

    def moments(self, part: int) -> Moments:
        """Of the rows learnt from (0) or of all rows (2), ready to be worked on; the sums stay as they are."""
        pair = self.products[0] if len(self.products) == 1 else self.products.sum(0)
        if part == 2:
            return Moments(lower(pair, both=True), self.by_class.sum(0), self.counts.sum(0))
        return Moments(lower(pair, both=False), self.by_class[0], self.counts[0])

    def held_products(self, weights: Tensor) -> Tensor:
        """The held-out rows' matrix of products, times weights."""
        pair = self.products[0] if len(self.products) == 1 else self.products.sum(0)
        return upper_product(pair, weights)

    def state(self) -> State:
        tensors = {"products": self.products, "by_class": self.by_class, "counts": self.counts}
        return State(tensors, {"width": self.width, "limit": self.limit, "apart": self.apart})

    @classmethod
    def from_state(cls, state: State) -> Sums:
        sums = cls.__new__(cls)
        sums.width, sums.limit, sums.apart = (state.meta[name] for name in ("width", "limit", "apart"))
        # copies: whoever hands over a state may go on with it
        sums.products, sums.by_class, sums.counts = (
            state.tensors[name].clone() for name in ("products", "by_class", "counts")
        )
        columns, width = sums.by_class.shape[1:]
        fits = width == sums.width and sums.counts.shape == sums.by_class.shape[:2] == (2, columns)
        if not fits or sums.products.shape != (columns if sums.apart else 1, width, width + 1):
            raise InputError("Its sums do not fit each other.")
        return sums
