"""What readers of texts have in common: lines and labels, checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from engram.data.task import Part
from engram.errors import DataError


def read_text(path: Path, way_out: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"{path} is missing: {way_out}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is truncated or no UTF-8 text: {way_out}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error}): {way_out}") from None


def labelled(path: Path, rows: Iterable[tuple[str, str]], labels: Sequence[str], way_out: str) -> Part:
    """A part from pairs of label and text; each label must come, and no other."""
    columns = {label: column for column, label in enumerate(labels)}
    texts: list[str] = []
    found: list[int] = []
    for number, (label, text) in enumerate(rows, 1):
        if label not in columns:
            raise DataError(f"{path} has the label {label[:40]!r} in row {number}, not {_some(labels)}: {way_out}")
        if not text.strip():
            raise DataError(f"{path} has no text in row {number}: {way_out}")
        texts.append(text.strip())
        found.append(columns[label])
    absent = [label for column, label in enumerate(labels) if column not in set(found)]
    if absent:
        raise DataError(f"{path} has no text with the label {absent[0]}: {way_out}")
    return Part(np.array(texts, dtype=object), np.array(found, np.int64))


def pooled(parts: Sequence[Part]) -> Part:
    return Part(np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts]))


def _some(labels: Sequence[str]) -> str:
    return f"{labels[0]} to {labels[-1]}"
