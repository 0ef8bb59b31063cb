"""Files of word vectors in the text formats of word2vec (a first line with the sizes) and of GloVe (none)."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from engram.errors import DataError

BLOCK = 10_000
SUFFIXES = (".txt", ".vec")


def read_vectors(path: Path, most: int) -> tuple[list[str], np.ndarray]:
    """The first `most` words and their vectors (float32), each word once."""
    words: list[str] = []
    parts: list[np.ndarray] = []
    with _lines(path) as lines:
        dimension = 0
        while block := list(islice(lines, min(BLOCK, most - len(words)))):
            dimension = dimension or len(block[0].split()) - 1
            cut = [line.rsplit(" ", dimension) for line in block]  # a word may hold spaces
            parts.append(_numbers(path, len(words), cut, dimension))
            words += [fields[0] for fields in cut]
    if not words:
        raise DataError(f"{path} holds no word vectors: name another file")
    rows = {word: row for row, word in reversed(list(enumerate(words)))}
    kept = sorted(rows.values())
    return [words[row] for row in kept], np.concatenate(parts)[kept]


def best_of(folder: Path, words: Collection[str]) -> Path | None:
    """The folder's file that knows the most of these words; None if none knows half of them."""
    files = sorted(path for path in folder.glob("*") if path.suffix in SUFFIXES) if folder.is_dir() else []
    known = {path: _known(path, words) for path in files}
    best = max(files, key=lambda path: known[path], default=None)
    return best if best is not None and 2 * known[best] >= len(words) else None


def _known(path: Path, words: Collection[str]) -> int:
    with _lines(path) as lines:
        found = {line.partition(" ")[0].lower() for line in lines}
    return sum(word.lower() in found for word in words)


class _lines:  # noqa: N801 (it is used like a function)
    """The lines that hold a word each, and errors that name the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> Iterator[str]:
        try:
            self.file = open(self.path, encoding="utf-8", newline="\n")
        except OSError as error:
            raise DataError(f"{self.path} cannot be read ({error.strerror}): name a file of word vectors") from None
        return self._checked()

    def _checked(self) -> Iterator[str]:
        try:
            for number, line in enumerate(self.file):
                line = line.rstrip(" \r\n")
                if line and not (number == 0 and _is_header(line)):
                    yield line
        except UnicodeDecodeError:
            raise DataError(f"{self.path} is not UTF-8 text: give word vectors in their text format") from None

    def __exit__(self, *error: object) -> None:
        self.file.close()


def _is_header(line: str) -> bool:
    fields = line.split(" ")
    return len(fields) == 2 and all(field.isdecimal() for field in fields)


def _numbers(path: Path, before: int, cut: list[list[str]], dimension: int) -> np.ndarray:
    whole = dimension > 0 and all(len(fields) == dimension + 1 for fields in cut)
    numbers = _parsed(" ".join(" ".join(fields[1:]) for fields in cut))
    if not whole or numbers.size != len(cut) * dimension or not np.isfinite(numbers).all():
        row = next((row for row, fields in enumerate(cut) if not _is_vector(fields, dimension)), 0)
        raise DataError(
            f"{path} has no word with {max(dimension, 1)} numbers as its entry {before + row + 1} "
            f"({' '.join(cut[row])[:40]!r}): give word vectors in the text format of word2vec or GloVe"
        )
    return numbers.reshape(len(cut), dimension)


def _parsed(text: str) -> np.ndarray:
    """All numbers of a text, far faster than one by one; none where something is no number."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # older versions of NumPy go no further
            return np.fromstring(text, np.float32, sep=" ")
    except (ValueError, DeprecationWarning):
        return np.empty(0, np.float32)


def _is_vector(fields: list[str], dimension: int) -> bool:
    try:
        return len(fields) == dimension + 1 and all(np.isfinite(float(field)) for field in fields[1:])
    except ValueError:
        return False
