"""One SQLite file of everything that a study has measured; made anew from the result.json files, whole or not at all.

pandas, duckdb and polars read it directly. The schema is in docs/studies.md.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from engram.errors import FileError
from engram.study.folder import Contents, Found

STORE = "store.sqlite"

KEY = {"cell": "TEXT", "column_name": "TEXT", "recipe_row": "TEXT", "seed": "INTEGER", "class_order_seed": "INTEGER"}
RESULTS = {
    **{"cell": "TEXT PRIMARY KEY", "column_name": "TEXT", "recipe_row": "TEXT", "recipe": "TEXT", "dataset": "TEXT"},
    **{"tasks": "INTEGER", "seed": "INTEGER", "class_order_seed": "INTEGER", "epochs": "INTEGER"},
    **{"selection": "TEXT", "precision": "TEXT", "device": "TEXT", "threads": "INTEGER", "accuracy": "REAL"},
    **{"validation_accuracy": "REAL", "inter_task_error": "REAL", "inner_task_error": "REAL"},
    **{"average_incremental_accuracy": "REAL", "forgetting": "REAL", "seconds": "REAL", "settings": "TEXT"},
    **{"engram": "TEXT", "commit_id": "TEXT", "python": "TEXT", "torch": "TEXT", "numpy": "TEXT"},
    **{"processor": "TEXT", "gpu": "TEXT"},
}
TABLES = {
    "results": RESULTS,
    "after_task": KEY | {"after_task": "INTEGER", "accuracy": "REAL", "drift": "REAL"},
    "matrix": KEY | {"after_task": "INTEGER", "task": "INTEGER", "accuracy": "REAL"},
    "traces": KEY | {"after_task": "INTEGER", "layer": "TEXT", "share": "REAL"},
    "failures": {"cell": "TEXT PRIMARY KEY", "error": "TEXT"},
}


def write_store(folder: Path, contents: Contents) -> None:
    """Written aside, then renamed: whoever reads it meanwhile sees the old one or the new one."""
    aside = folder / f".engram-{secrets.token_hex(8)}.tmp"
    try:
        with closing(sqlite3.connect(aside)) as connection:
            for name, columns in TABLES.items():
                described = ", ".join(f"{column} {kind}" for column, kind in columns.items())
                connection.execute(f"CREATE TABLE {name} ({described})")
                marks = ", ".join("?" * len(columns))
                connection.executemany(f"INSERT INTO {name} VALUES ({marks})", _rows(name, contents))
            connection.commit()
        os.replace(aside, folder / STORE)
    except (sqlite3.Error, OSError) as error:
        raise FileError(f"{folder / STORE} cannot be written ({error}): check the free space.") from error
    finally:
        aside.unlink(missing_ok=True)


def _rows(table: str, contents: Contents) -> Iterator[list[Any]]:
    if table == "failures":
        yield from ([place, reason] for place, reason in contents.failures.items())
        return
    many = {"results": _result, "after_task": _after_task, "matrix": _matrix, "traces": _traces}[table]
    for found in contents.results:
        yield from many(found)


def _result(found: Found) -> Iterator[list[Any]]:
    versions, machine = found.result.get("versions", {}), found.result.get("machine", {})
    named = {
        **found.result,
        **versions,
        **machine,
        "cell": found.place,
        "column_name": found.column,
        "recipe_row": found.row,
        "commit_id": versions.get("commit"),
        "settings": json.dumps(found.result.get("settings", {}), sort_keys=True),
    }
    yield [named.get(column) for column in RESULTS]


def _after_task(found: Found) -> Iterator[list[Any]]:
    drift = [None, *found.result.get("drift", [])]
    for index, accuracy in enumerate(found.result.get("accuracy_after_task", [])):
        yield [*_key(found), _task(found, index), accuracy, drift[index] if index < len(drift) else None]


def _matrix(found: Found) -> Iterator[list[Any]]:
    for index, row in enumerate(found.result["matrix"]):
        for task, accuracy in enumerate(row):
            yield [*_key(found), _task(found, index), task + 1, accuracy]


def _traces(found: Found) -> Iterator[list[Any]]:
    for index, traces in enumerate(found.result.get("projector_traces", [])):
        for layer, share in traces.items():
            yield [*_key(found), _task(found, index), layer, share]


def _key(found: Found) -> list[Any]:
    return [found.place, found.column, found.row, found.seed, found.class_order]


def _task(found: Found, index: int) -> int:
    """Counted from 1; joint training, measured once, is after the last."""
    return found.result["tasks"] if len(found.result["matrix"]) == 1 else index + 1
