"""DBPedia's ontology in the layout of `dbpedia_csv`: number of the class, title, first lines of the article."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from engram.data.cifar import read_names
from engram.data.sets import SetInfo
from engram.data.task import Part
from engram.data.texts import labelled, read_text
from engram.errors import DataError

NAMES = (
    "Company",
    "EducationalInstitution",
    "Artist",
    "Athlete",
    "OfficeHolder",
    "MeanOfTransportation",
    "Building",
    "NaturalPlace",
    "Village",
    "Animal",
    "Plant",
    "Album",
    "Film",
    "WrittenWork",
)


def read_dbpedia(folder: Path, info: SetInfo, way_out: str) -> tuple[Part, Part, tuple[str, ...]]:
    """Train, test and the names of the classes, which the files number from 1."""
    labels = [str(number) for number in range(1, len(NAMES) + 1)]
    train, test = (
        labelled(folder / name, _rows(folder / name, way_out), labels, way_out)
        for name in (*info.train_files, *info.test_files)
    )
    return train, test, read_names(folder / info.names_file, NAMES, way_out)


def _rows(path: Path, way_out: str) -> Iterator[tuple[str, str]]:
    try:
        for number, fields in enumerate(csv.reader(io.StringIO(read_text(path, way_out))), 1):
            if len(fields) != 3:
                raise DataError(f"{path} has {len(fields)} fields instead of 3 in row {number}: {way_out}")
            yield fields[0], f"{fields[1]} {fields[2]}"
    except csv.Error as error:
        raise DataError(f"{path} is no .csv file ({error}): {way_out}") from None
