"""THUCNews: the articles of `cnews` (label, tab, text) and the titles (title, tab, number of the class)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from engram.data.cifar import read_names
from engram.data.sets import SetInfo
from engram.data.task import Part
from engram.data.texts import labelled, pooled, read_text
from engram.errors import DataError

CNEWS = {
    "体育": "sports",
    "娱乐": "entertainment",
    "家居": "home",
    "房产": "realty",
    "教育": "education",
    "时尚": "fashion",
    "时政": "politics",
    "游戏": "games",
    "科技": "technology",
    "财经": "finance",
}
"""the labels of the articles, in the order in which the files have them, and their names here"""
TITLES = (
    "finance",
    "realty",
    "stocks",
    "education",
    "science",
    "society",
    "politics",
    "sports",
    "game",
    "entertainment",
)
"""names of the titles' classes, where class.txt is missing"""

Fields = Callable[[list[str]], tuple[str, str]]


def read_thucnews(folder: Path, info: SetInfo, way_out: str) -> tuple[Part, Part, tuple[str, ...]]:
    """Train, the published validation and test parts together as test, and the names of the classes."""
    if info.names_file:
        names = read_names(folder / info.names_file, TITLES, way_out)
        labels, fields = tuple(map(str, range(len(names)))), _title_fields
    else:
        names, labels, fields = tuple(CNEWS.values()), tuple(CNEWS), _article_fields
    train, *tests = [_read(folder / name, labels, fields, way_out) for name in (*info.train_files, *info.test_files)]
    return train, pooled(tests), names


def _read(path: Path, labels: Sequence[str], fields: Fields, way_out: str) -> Part:
    return labelled(path, _rows(path, fields, way_out), labels, way_out)


def _rows(path: Path, fields: Fields, way_out: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(read_text(path, way_out).split("\n"), 1):
        if line.strip():
            parts = line.rstrip("\r").split("\t")
            if len(parts) < 2:
                raise DataError(f"{path} has no tab in line {number}, between label and text: {way_out}")
            yield fields(parts)


def _article_fields(parts: list[str]) -> tuple[str, str]:
    return parts[0], " ".join(parts[1:])


def _title_fields(parts: list[str]) -> tuple[str, str]:
    return parts[-1], " ".join(parts[:-1])
