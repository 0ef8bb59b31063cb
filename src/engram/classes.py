"""Which class is which column of the head, and which of them have been learnt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from engram.errors import InputError
from engram.inputs import same_kind


class ClassTable:
    """Labels in the order of their columns. It is never changed: `admit` returns a new one."""

    def __init__(self, announced: Iterable[Any] = (), dtype: np.dtype | None = None) -> None:
        self.columns: dict[Any, int] = {label: column for column, label in enumerate(announced)}
        self.announced = bool(self.columns)
        self.seen: list[Any] = []
        self._dtype = np.asarray(list(self.columns)).dtype if dtype is None and self.announced else dtype

    def admit(self, labels: np.ndarray) -> Self:
        """With the classes of a task: new ones get the next columns, unless all were announced beforehand."""
        found = np.unique(labels).tolist()
        same_kind(list(self.columns)[:1], found)
        unknown = [label for label in found if label not in self.columns]
        if self.announced and unknown:
            raise InputError(
                f"Class {unknown[0]!r} was not among the classes given at the first call: announce it there, "
                "or leave `classes` out and let the head grow."
            )
        table = type(self)([*self.columns, *unknown], self._common(labels.dtype))
        table.announced = self.announced
        known = set(self.seen)
        table.seen = [*self.seen, *(label for label in found if label not in known)]
        return table

    def united(self, other: ClassTable) -> Self:
        """With the classes that another table has seen."""
        return self.admit(np.asarray(other.seen, other._dtype)) if other.seen else self

    def without(self, labels: Iterable[Any]) -> tuple[Self, list[int]]:
        """As if these had not been seen, and which columns stay: announced classes keep theirs."""
        gone = set(labels)
        kept = [label for label in self.columns if self.announced or label not in gone]
        table = type(self)(kept, self._dtype)
        table.announced = self.announced
        table.seen = [label for label in self.seen if label not in gone]
        return table, [self.columns[label] for label in kept]

    def encode(self, labels: np.ndarray) -> np.ndarray:
        """The column of each label."""
        values, inverse = np.unique(labels, return_inverse=True)
        columns = np.array([self.columns[value] for value in values.tolist()], dtype=np.int64)
        return columns[inverse.reshape(-1)]

    def sorted(self) -> np.ndarray:
        """All labels, announced ones included, in their natural order and of the type that they came in."""
        return np.asarray(sorted(self.columns), dtype=self._dtype)

    def sorted_columns(self) -> list[int]:
        return [self.columns[label] for label in sorted(self.columns)]

    def unseen(self) -> np.ndarray:
        """For each label of `sorted` whether it has yet to be learnt."""
        seen = set(self.seen)
        return np.array([label not in seen for label in sorted(self.columns)])

    def state(self) -> dict[str, Any]:
        dtype = None if self._dtype is None else self._dtype.str
        return {"columns": list(self.columns), "seen": self.seen, "announced": self.announced, "dtype": dtype}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        table = cls(state["columns"], None if state["dtype"] is None else np.dtype(state["dtype"]))
        table.announced, table.seen = state["announced"], list(state["seen"])
        return table

    def _common(self, dtype: np.dtype) -> np.dtype:
        return dtype if self._dtype is None else np.result_type(self._dtype, dtype)
