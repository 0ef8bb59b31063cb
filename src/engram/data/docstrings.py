"""What the documentation of ten Python packages says of their functions and classes: real texts without a download."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from engram.data.sets import SetInfo
from engram.data.task import Part
from engram.errors import DataError

PACKAGES = (
    "numpy.ma",
    "numpy.polynomial",
    "scipy.linalg",
    "scipy.signal",
    "sklearn.linear_model",
    "sklearn.metrics",
    "torch.distributions",
    "torch.nn.modules",
    "matplotlib.axes",
    "PIL",
)
"""all of them are installed with Engram"""
LEAST_WORDS = 12


def read_docstrings(folder: Path, info: SetInfo, way_out: str) -> tuple[Part, Part, tuple[str, ...]]:
    """Train, test and the names of the packages; takes a folder only to be called like the other readers.

    The same number of each package, picked by a hash of the text, so that other versions give nearly the same set.
    """
    each, tested = (info.train + info.test) // info.classes, info.test // info.classes
    train: list[tuple[str, int]] = []
    test: list[tuple[str, int]] = []
    taken: set[str] = set()
    for label, package in enumerate(PACKAGES):
        texts = sorted(set(_docstrings(package)) - taken, key=_hash)[:each]
        if len(texts) < each:
            raise DataError(f"{package} has {len(texts)} docstrings instead of {each}: install it afresh, with sources")
        taken.update(texts)
        test += [(text, label) for text in texts[:tested]]
        train += [(text, label) for text in texts[tested:]]
    return _part(train), _part(test), PACKAGES


def _docstrings(package: str) -> Iterator[str]:
    """Of all functions and classes, as one line each; the sources are read and not run."""
    for path in sorted(_folder(package).rglob("*.py")):
        if any(part.startswith("test") for part in path.parts[-3:]):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                words = (ast.get_docstring(node) or "").split()
                if len(words) >= LEAST_WORDS:
                    yield " ".join(words)


def _folder(package: str) -> Path:
    top, *inner = package.split(".")
    found = importlib.util.find_spec(top)  # of the top alone: that imports nothing
    places = found.submodule_search_locations if found else None
    if not places:
        raise DataError(f"{top} is not installed: install it to use this set")
    return Path(places[0], *inner)


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _part(rows: list[tuple[str, int]]) -> Part:
    texts, labels = zip(*rows, strict=True)
    return Part(np.array(texts, dtype=object), np.array(labels, np.int64))
