import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engram.data.table import Table, TableForm, one_kind_of_labels, read_table
from engram.errors import DataError, EngramError, InputError


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def rows(table: Table) -> list[Any]:
    return [row for _, row in table.rows]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", 'a,b,label\n1,2.5,x\n3,-4,"y, z"\n'),
        ("t.CSV", '\ufeffa,b,label\r\n1,2.5,x\r\n\r\n3,-4,"y, z"'),
        ("t.csv", "a;b;label\n1;2.5;x\n3;-4;y, z\n"),
        ("t.tsv", "a\tb\tlabel\n1\t2.5\tx\n3\t-4\ty, z\n"),
        ("t.jsonl", '{"a": 1, "b": 2.5, "label": "x"}\n\n{"label": "y, z", "b": -4, "a": 3}\n'),
    ],
)
def test_the_same_table_in_several_formats(tmp_path: Path, name: str, content: str) -> None:
    table = read_table(written(tmp_path / name, content))
    form = TableForm.of(table, "label", ())
    assert form == TableForm("label", ("a", "b"), "numbers")
    assert [list(form.read(row)) for row in rows(table)] == [[1, 2.5], [3, -4]]
    assert [form.label_of(row) for row in rows(table)] == ["x", "y, z"]


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"a": [1, 2], "b": [0.5, None], "label": [3, 4]}), path)
    table = read_table(path)
    form = TableForm.of(table, "label", ())
    assert form == TableForm("label", ("a", "b"), "numbers")
    assert list(form.read(rows(table)[0])) == [1, 0.5]
    assert form.label_of(rows(table)[1]) == "4"
    with pytest.raises(DataError, match="has nothing in column 'b'"):
        form.read(rows(table)[1])


@pytest.mark.parametrize("harm", [lambda content: content[:-20], lambda content: b"", lambda content: b"a,b\n1,2\n"])
def test_a_damaged_parquet_file(tmp_path: Path, harm: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"a": [1, 2]}), path)
    path.write_bytes(harm(path.read_bytes()))
    with pytest.raises(DataError, match=r"t\.parquet cannot be read") as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


def test_one_column_of_text_is_text(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "t.csv", "words,n,label\ngood day,1,x\nname \U0001f600,2,y\n"))
    form = TableForm.of(table, "label", ("words",))
    assert form == TableForm("label", ("words",), "text")
    assert [form.read(row) for row in rows(table)] == ["good day", "name \U0001f600"]
    assert TableForm.from_state(json.loads(json.dumps(form.state()))) == form


@pytest.mark.parametrize(
    ("content", "columns", "said"),
    [
        ("a,b\n1,2\n", (), "has no column 'label'; there are 'a', 'b'"),
        ("a,label\n1,2\n", ("b",), "has no column 'b'"),
        ("label\nx\n", (), "No column of .* is left to learn from"),
        ("a,label\n1,x\n", ("a", "label"), "No column of .* is left"),
        (",a,label\n0,1,x\n", (), "has no name"),
        ("a,b,label\n1,cold,x\n", (), r"Column 'b' .* holds text \('cold' in row 2\)"),
    ],
)
def test_columns_that_cannot_be_learnt_from(tmp_path: Path, content: str, columns: tuple[str, ...], said: str) -> None:
    with pytest.raises(EngramError, match=said):
        TableForm.of(read_table(written(tmp_path / "t.csv", content)), "label", columns)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.txt", "a,label\n1,x\n", "neither a folder nor a table"),
        ("t.csv", "", "holds no rows"),
        ("t.csv", "a,label\n", "holds no rows"),
        ("t.jsonl", "\n\n", "holds no rows"),
        ("t.csv", "a,label\n1,caf\xe9\n".encode("latin-1"), "is no UTF-8 text .see line 2.: save it as UTF-8"),
        ("t.jsonl", "\ufeff".encode("utf-16"), "is no UTF-8 text"),
        ("t.csv", "a,a,label\n1,2,x\n", "several columns named 'a'"),
        ("t.csv", 'a,label\n1,"' + "x" * 200_000, "cannot be read as CSV"),
    ],
)
def test_files_that_are_no_tables(tmp_path: Path, name: str, content: str | bytes, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        read_table(written(tmp_path / name, content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "nothing in column 'a'"),
        ("", "nothing in column 'a'"),
        ("  ", "nothing in column 'a'"),
        ("nan", "'nan' in column 'a', which is no finite number"),
        ("inf", "no finite number"),
        (math.nan, "no finite number"),
        (-math.inf, "no finite number"),
        ("1e300", "no finite number"),
        (10**400, "no finite number"),
        ("warm", "'warm' in column 'a', which is no finite number"),
        ([1, 2], "no finite number"),
        ({}, "no finite number"),
        (b"1x", "no finite number"),
    ],
)
def test_values_that_are_no_numbers(value: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        TableForm("label", ("a",), "numbers").read({"a": value})


@pytest.mark.parametrize("value", [None, "", " \n ", 3, ["x"]])
def test_values_that_are_no_text(value: Any) -> None:
    with pytest.raises(DataError, match="has no text in column 'a'"):
        TableForm("label", ("a",), "text").read({"a": value})


@pytest.mark.parametrize(
    ("value", "name"), [("x", "x"), ("../x", "../x"), (3, "3"), (3.0, "3"), (True, "True"), (" x ", " x ")]
)
def test_labels_become_names(value: Any, name: str) -> None:
    assert TableForm("label", ("a",), "numbers").label_of({"label": value}) == name


@pytest.mark.parametrize("value", [None, "", "  ", 0.5, math.nan, math.inf, [], {}])
def test_values_that_are_no_labels(value: Any) -> None:
    with pytest.raises(DataError, match="in column 'label'"):
        TableForm("label", ("a",), "numbers").label_of({"label": value})


@pytest.mark.parametrize(
    ("labels", "mixed"), [([1, "1"], True), ([True, 1], True), ([1, 2.0], False), (["a", None], False), ([None], False)]
)
def test_labels_of_mixed_types_are_refused(labels: list[Any], mixed: bool) -> None:
    table = Table(Path("t.jsonl"), ["a", "label"], [(n, {"a": 1, "label": v}) for n, v in enumerate(labels)])
    if not mixed:
        return one_kind_of_labels(table, "label")
    with pytest.raises(DataError, match="mix types"):
        one_kind_of_labels(table, "label")


def test_rows_that_cannot_be_read_are_sentences(tmp_path: Path) -> None:
    lines = ['{"a": 1, "label": "x"}', "{", "[1]", "[" * 100_000, '{"a": NaN, "label": "x"}']
    table = read_table(written(tmp_path / "t.jsonl", "\n".join(lines)))
    assert [row if isinstance(row, str) else "read" for row in rows(table)] == [
        "read",
        "is no JSON",
        "is no JSON object with a name for each value",
        "is no JSON",
        "read",
    ]
    table = read_table(written(tmp_path / "t.csv", "a,label\n1,x\n2\n3,y,z\n"))
    assert rows(table)[1:] == ["has 1 values, and the header 2 names", "has 3 values, and the header 2 names"]
    assert [number for number, _ in table.rows] == [2, 3, 4]


def test_without_pyarrow_the_way_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install 'engram\[parquet\]'"):
        read_table(written(tmp_path / "t.parquet", "x"))


def test_numbers_are_float32() -> None:
    assert TableForm("label", ("a",), "numbers").read({"a": "0.1"}).dtype == np.float32  # pyright: ignore


def test_no_column_is_left_at_all() -> None:
    with pytest.raises(InputError):
        TableForm.of(Table(Path("t.csv"), ["label"], [(1, {"label": "x"})]), "label", ())
