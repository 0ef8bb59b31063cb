"""The readers of texts, on small files in the official layouts."""

from pathlib import Path

import numpy as np
import pytest

from engram.data import SETS, catalogue, load
from engram.data.dbpedia import NAMES
from engram.data.thucnews import CNEWS, TITLES
from engram.errors import DataError


def write_articles(root: Path) -> Path:
    folder = root / "cnews"
    folder.mkdir()
    for name, each in (("train", 3), ("val", 1), ("test", 2)):
        lines = [f"{label}\t{name}的 文章 {i}" for i in range(each) for label in CNEWS]
        (folder / f"cnews.{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def write_titles(root: Path) -> Path:
    folder = root / "THUCNews-titles"
    folder.mkdir()
    for name, each in (("train", 3), ("dev", 1), ("test", 2)):
        lines = [f"{name}的题目{i}\t{label}" for i in range(each) for label in range(10)]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "class.txt").write_text("\n".join(reversed(TITLES)), encoding="utf-8")
    return folder


def write_dbpedia(root: Path) -> Path:
    folder = root / "dbpedia_csv"
    folder.mkdir()
    for name, each in (("train", 3), ("test", 2)):
        lines = [f'"{label + 1}","Title {i}","It is ""{name}"", and more"' for i in range(each) for label in range(14)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _no_named_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENGRAM_DATA", raising=False)


@pytest.mark.parametrize("below", [True, False])
def test_the_articles_of_thucnews(tmp_path: Path, below: bool) -> None:
    folder = write_articles(tmp_path)
    data = load("thucnews", data_dir=tmp_path if below else folder)
    assert data.classes == tuple(CNEWS.values())
    assert data.train.x[:2].tolist() == ["train的 文章 0"] * 2
    assert data.train.y.tolist() == [*range(10)] * 3
    assert (len(data.validation), len(data.test)) == (9, 21), "val and test are pooled and split again"
    held = [*data.validation.x, *data.test.x]
    assert sum(text.startswith("val") for text in held) == 10


def test_the_titles_of_thucnews(tmp_path: Path) -> None:
    folder = write_titles(tmp_path)
    data = load("thucnews", data_dir=tmp_path)
    assert data.classes == tuple(reversed(TITLES))
    assert data.train.x[0] == "train的题目0"
    assert (len(data.train), len(data.validation), len(data.test)) == (30, 9, 21)
    (folder / "class.txt").unlink()
    assert load("thucnews", data_dir=folder).classes == TITLES


def test_dbpedia(tmp_path: Path) -> None:
    write_dbpedia(tmp_path)
    data = load("dbpedia", data_dir=tmp_path)
    assert data.classes == NAMES
    assert data.train.x[0] == 'Title 0 It is "train", and more'
    assert data.train.y.tolist() == [*range(14)] * 3
    assert data.train.x.dtype == object


WRITERS = {"articles": write_articles, "titles": write_titles, "dbpedia": write_dbpedia}


@pytest.mark.parametrize(
    ("layout", "file", "content", "said"),
    [
        ("articles", "cnews.val.txt", "体育 没有\n", "has no tab in line 1"),
        ("articles", "cnews.test.txt", "体育\t有\n经济\t没有\n", "has the label '经济' in row 2, not 体育 to 财经"),
        ("articles", "cnews.train.txt", "体育\t有\n", "has no text with the label 娱乐"),
        ("articles", "cnews.train.txt", "体育\t \n", "has no text in row 1"),
        ("titles", "dev.txt", "一\t10\n", "has the label '10' in row 1, not 0 to 9"),
        ("titles", "class.txt", "a\nb\n", "does not list 10 different class names"),
        ("dbpedia", "test.csv", '"1","a","b"\n"2","c"\n', "has 2 fields instead of 3 in row 2"),
        ("dbpedia", "test.csv", '"0","a","b"\n', "has the label '0' in row 1, not 1 to 14"),
        ("dbpedia", "train.csv", '"1","",""\n', "has no text in row 1"),
        ("dbpedia", "train.csv", "", "has no text with the label 1"),
    ],
)
def test_damaged_files_are_refused_in_one_sentence(
    tmp_path: Path, layout: str, file: str, content: str, said: str
) -> None:
    folder = WRITERS[layout](tmp_path)
    (folder / file).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=said) as caught:
        load("dbpedia" if layout == "dbpedia" else "thucnews", data_dir=tmp_path)
    assert str(folder / file) in str(caught.value)
    assert "put the official files" in str(caught.value)


def test_missing_and_binary_files(tmp_path: Path, cache: Path) -> None:
    folder = write_titles(tmp_path)
    (folder / "dev.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="no UTF-8 text"):
        load("thucnews", data_dir=tmp_path)
    (folder / "dev.txt").unlink()
    with pytest.raises(DataError, match="is missing"):
        load("thucnews", data_dir=tmp_path)
    with pytest.raises(DataError, match="this set has no download"):
        load("dbpedia", data_dir=tmp_path)
    with pytest.raises(DataError, match="this set has no download"):
        load("dbpedia")


def test_the_catalogue_tells_where_texts_lie(tmp_path: Path, cache: Path) -> None:
    folder = write_titles(tmp_path)
    where = {entry.name: (entry.where, entry.present) for entry in catalogue(tmp_path)}
    assert where["thucnews"] == (str(folder), True)
    assert where["dbpedia"] == (f"not in {tmp_path}", False)
    assert where["docstrings"] == ("built in", True)
    assert {e.name: e.where for e in catalogue()}["dbpedia"] == f"not in {cache}"


def test_docstrings_need_no_download_and_are_the_same_every_time() -> None:
    data, info = load("docstrings"), SETS["docstrings"]
    assert (len(data.train), len(data.validation) + len(data.test)) == (info.train, info.test)
    assert np.bincount(data.train.y).tolist() == [80] * 10
    every = [*data.train.x, *data.validation.x, *data.test.x]
    assert len(set(every)) == len(every), "no text comes twice"
    assert data.train.x.tolist() == load("docstrings").train.x.tolist()
