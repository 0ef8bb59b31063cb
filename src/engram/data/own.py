"""People's own data, read in the form that a model has: what cannot be used is left out and named."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engram.data.folder import ImageForm, images_by_class, images_in
from engram.data.table import ENDINGS, Row, Table, TableForm, need, one_kind_of_labels, read_table
from engram.errors import DataError, InputError

Form = ImageForm | TableForm
Each = Callable[[Sequence[Any], str], Iterable[Any]]
"""goes through a list and shows how far it is"""


@dataclass(frozen=True)
class Choice:
    """What may be chosen of a model's form with its first task."""

    image_size: tuple[int, int] | None = None
    label: str | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A sample before it is read: a file, a row, or the sentence on why there is none."""

    place: str
    item: Path | Row | str
    label: str | None = None


@dataclass(frozen=True, eq=False)
class Samples:
    """What was read, row by row; `labels` is empty where none were asked for."""

    x: Any
    labels: np.ndarray
    places: list[str]
    left_out: list[str]

    def __len__(self) -> int:
        return len(self.places)

    def only(self, rows: np.ndarray) -> Samples:
        x = self.x[rows] if isinstance(self.x, np.ndarray) else [self.x[row] for row in rows]
        return Samples(x, self.labels[rows], [self.places[row] for row in rows], [])


def form_from(state: Mapping[str, Any]) -> Form:
    return TableForm.from_state(state) if "columns" in state else ImageForm(**state)


def read_lesson(path: Path, form: Form | None, choice: Choice, strict: bool, each: Each) -> tuple[Form, Samples]:
    """Labelled samples of a folder or a table; the first ones make the form."""
    if not path.exists():
        raise DataError(f"{path} does not exist: name a folder with a sub-folder of images per class, or a table.")
    if not path.is_dir():
        return _read_labelled_table(read_table(path), form, choice, strict, each)
    if isinstance(form, TableForm):
        raise InputError(f"{path} is a folder, and this model knows {form}: name a table.")
    by_class, left_out = images_by_class(path)
    if left_out and strict:
        raise DataError(f"{left_out[0]}: move it away, or leave --strict out.")
    form = form or ImageForm.of([file for files in by_class.values() for file in files], choice.image_size)
    sources = [Source(str(file), file, name) for name, files in by_class.items() for file in files]
    return form, _read(sources, form, True, strict, each, left_out)


def read_inputs(paths: Sequence[Path], form: Form, strict: bool, each: Each) -> Samples:
    """Samples without labels: images, folders of them, tables."""
    sources = [source for path in paths for source in _sources(path, form)]
    return _read(sources, form, False, strict, each, [])


def held_out(samples: Samples, share: float) -> np.ndarray:
    """Which samples to measure by instead of learning them: of each class those whose content hashes lowest.

    The same content is on the same side wherever it comes again, and one content at least is left to learn.
    """
    hashes = np.array([_content_hash(x) for x in samples.x], np.uint64)
    chosen = np.zeros(len(samples), bool)
    by_class: dict[str, list[int]] = defaultdict(list)
    for row, label in enumerate(samples.labels.tolist()):
        by_class[label].append(row)
    for rows in by_class.values():
        contents = np.unique(hashes[rows])
        count = min(round(len(contents) * share), len(contents) - 1)
        if count:
            chosen[rows] = hashes[rows] <= contents[count - 1]
    return chosen


def _read_labelled_table(
    table: Table, form: Form | None, choice: Choice, strict: bool, each: Each
) -> tuple[Form, Samples]:
    if isinstance(form, ImageForm):
        raise InputError(f"{table.path} is a table, and this model knows {form}: name a folder of images.")
    if form is None:
        form = TableForm.of(table, choice.label or "label", choice.columns)
    elif choice.label is not None:
        form = TableForm(choice.label, form.columns, form.kind)
    need(table, (*form.columns, form.label))
    one_kind_of_labels(table, form.label)
    return form, _read(_rows(table), form, True, strict, each, [])


def _sources(path: Path, form: Form) -> list[Source]:
    if not path.exists():
        raise DataError(f"{path} does not exist: name images, folders of images or tables.")
    if isinstance(form, TableForm):
        if path.is_dir():
            raise InputError(f"{path} is a folder, and this model knows {form}: name a table.")
        table = read_table(path)
        need(table, form.columns)
        return _rows(table)
    if path.suffix.lower() in ENDINGS:
        raise InputError(f"{path} is a table, and this model knows {form}: name images or folders of them.")
    files = list(images_in(path)) if path.is_dir() else [path]
    if not files:
        raise DataError(f"{path} is empty: name a folder that holds images.")
    return [Source(str(file), file) for file in files]


def _rows(table: Table) -> list[Source]:
    return [Source(table.place(number), row) for number, row in table.rows]


def _read(
    sources: Sequence[Source], form: Form, labelled: bool, strict: bool, each: Each, left_out: list[str]
) -> Samples:
    x: list[Any] = []
    labels: list[str] = []
    places: list[str] = []
    for source in each(sources, "reading"):
        try:
            read, label = _one(source, form, labelled)
        except DataError as error:
            if strict:
                raise DataError(f"{source.place} {error}: correct or remove it, or leave --strict out.") from error
            left_out.append(f"{source.place} {error}")
            continue
        x.append(read)
        labels.append(label)
        places.append(source.place)
    if not x:
        raise DataError(f"Nothing there can be used: {left_out[0]}.")
    texts = isinstance(form, TableForm) and form.kind == "text"
    return Samples(x if texts else np.stack(x), np.array(labels), places, left_out)


def _one(source: Source, form: Form, labelled: bool) -> tuple[Any, str]:
    item = source.item
    if isinstance(item, str):
        raise DataError(item)
    if isinstance(form, ImageForm):
        assert isinstance(item, Path)
        return form.read(item), source.label or ""
    assert isinstance(item, dict)
    return form.read(item), form.label_of(item) if labelled else ""


def _content_hash(x: Any) -> int:
    content = x.encode("utf-8", "surrogatepass") if isinstance(x, str) else x.tobytes()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
