"""One SQLite file of everything that a study has measured; made anew from the result.json files, whole or not at all.

pandas, duckdb and polars read it directly; docs/studies.md says what each column means.
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
SCHEMA = """
CREATE TABLE results (
    cell TEXT PRIMARY KEY, column_name TEXT, row_name TEXT, recipe TEXT, dataset TEXT, tasks INTEGER,
    seed INTEGER, class_order_seed INTEGER, epochs INTEGER, selection TEXT, precision TEXT, device TEXT,
    threads INTEGER, accuracy REAL, validation_accuracy REAL, inter_task_error REAL, inner_task_error REAL,
    average_incremental_accuracy REAL, forgetting REAL, seconds REAL, settings TEXT,
    engram TEXT, commit_id TEXT, python TEXT, torch TEXT, numpy TEXT, processor TEXT, gpu TEXT
);
CREATE TABLE after_task (cell TEXT, after_task INTEGER, accuracy REAL, drift REAL);
CREATE TABLE matrix (cell TEXT, after_task INTEGER, task INTEGER, accuracy REAL);
CREATE TABLE traces (cell TEXT, after_task INTEGER, layer TEXT, share REAL);
CREATE TABLE failures (cell TEXT PRIMARY KEY, error TEXT);
"""


def write_store(folder: Path, contents: Contents) -> None:
    """Written aside, then renamed: whoever reads it meanwhile sees the old one or the new one."""
    aside = folder / f".engram-{secrets.token_hex(8)}.tmp"
    try:
        with closing(sqlite3.connect(aside)) as connection:
            connection.executescript(SCHEMA)
            for found in contents.results:
                for table, row in _rows(found):
                    _insert(connection, table, row)
            for cell, error in contents.failures.items():
                _insert(connection, "failures", [cell, error])
            connection.commit()
        os.replace(aside, folder / STORE)
    except (sqlite3.Error, OSError) as error:
        raise FileError(f"{folder / STORE} cannot be written ({error}): check the free space.") from error
    finally:
        aside.unlink(missing_ok=True)


def _insert(connection: sqlite3.Connection, table: str, row: list[Any]) -> None:
    connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)


def _rows(found: Found) -> Iterator[tuple[str, list[Any]]]:
    """One of `results`, then those of the tables that have one for each task, or for each layer."""
    result, cell = found.result, found.place
    yield "results", _summary(found)
    drift = [None, *result.get("drift", [])]
    for index, accuracy in enumerate(result.get("accuracy_after_task", [])):
        yield "after_task", [cell, _task(found, index), accuracy, drift[index] if index < len(drift) else None]
    for index, row in enumerate(result["matrix"]):
        for task, accuracy in enumerate(row):
            yield "matrix", [cell, _task(found, index), task + 1, accuracy]
    for index, traces in enumerate(result.get("projector_traces", [])):
        for layer, share in traces.items():
            yield "traces", [cell, _task(found, index), layer, share]


def _summary(found: Found) -> list[Any]:
    result, versions, machine = found.result, found.result.get("versions", {}), found.result.get("machine", {})
    protocol = "recipe dataset tasks seed class_order_seed epochs selection precision device threads accuracy"
    measures = "validation_accuracy inter_task_error inner_task_error average_incremental_accuracy forgetting seconds"
    return [
        *(found.place, found.column, found.row),
        *(result.get(name) for name in protocol.split()),
        *(result.get(name) for name in measures.split()),
        json.dumps(result.get("settings", {}), sort_keys=True),
        *(versions.get(name) for name in ("engram", "commit", "python", "torch", "numpy")),
        *(machine.get(name) for name in ("processor", "gpu")),
    ]


def _task(found: Found, index: int) -> int:
    """Counted from 1; joint training, measured once, is after the last."""
    return found.result["tasks"] if len(found.result["matrix"]) == 1 else index + 1
