"""What goes wrong with one's own data, and what is said: a test for each row of the table in docs/own_data.md."""

import os
import pickle
import re
import resource
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.commands.conftest import Ask, photographs, rows

from engram import Learner, recipe
from engram.commands.learn import Lesson
from engram.data.own import Form
from engram.errors import InputError

Prepare = Callable[[Path], object]
DOCS = Path(__file__).parents[2] / "docs" / "own_data.md"


def single_image(folder: Path) -> None:
    photographs(folder / "data", "ant", 1)


def flat(folder: Path) -> None:
    photographs(folder / "data", "ant")
    for path in (folder / "data" / "ant").iterdir():
        path.rename(folder / "data" / path.name)
    (folder / "data" / "ant").rmdir()


def nested(folder: Path) -> None:
    photographs(folder / "data" / "train", "ant bee")


def text(name: str, content: str | bytes) -> Prepare:
    return lambda folder: (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def only_empty_images(folder: Path) -> None:
    (folder / "data" / "ant").mkdir(parents=True)
    (folder / "data" / "ant" / "1.png").touch()


ROWS: list[tuple[str, Prepare, str, str]] = [
    ("a path that does not exist", lambda folder: None, "learn m data", "data does not exist: name a folder with"),
    ("an empty folder", lambda folder: (folder / "data").mkdir(), "learn m data", "data is empty: put the images"),
    ("a folder without sub-folders", flat, "learn m data", "data has no sub-folders: put the images of each class"),
    ("a folder of folders of classes", nested, "learn m data", "name the folder whose sub-folders are the classes"),
    ("one image instead of a folder", single_image, "learn m data/ant/0.png", "is neither a folder nor a table"),
    ("only broken images", only_empty_images, "learn m data", "None of the files is an image"),
    ("a table without the label's column", text("t.csv", "a,class\n1,x\n"), "learn m t.csv", "has no column 'label'"),
    ("a table of only its label", text("t.csv", "label\nx\n"), "learn m t.csv", "No column of t.csv is left"),
    ("a column without a name", text("t.csv", ",a,label\n0,1,x\n"), "learn m t.csv", "has no name: name those"),
    (
        "text among columns of numbers",
        text("t.csv", "a,b,label\n1,x,y\n"),
        "learn m t.csv",
        "Column 'b' of t.csv holds",
    ),
    ("only rows of NaN or infinity", text("t.csv", "a,label\nnan,x\ninf,y\n"), "learn m t.csv", "'nan' in column 'a'"),
    (
        "only empty strings",
        text("t.jsonl", '{"a": "", "label": "x"}\n'),
        "learn m t.jsonl",
        "has nothing in column 'a'",
    ),
    (
        "labels of mixed types",
        text("t.jsonl", '{"a":1,"label":1}\n{"a":2,"label":"x"}'),
        "learn m t.jsonl",
        "mix types",
    ),
    ("labels that are fractions", text("t.jsonl", '{"a":1,"label":0.5}'), "learn m t.jsonl", "0.5 in column 'label'"),
    ("text that is no UTF-8", text("t.csv", b"a,label\n1,caf\xe9\n"), "learn m t.csv", "is no UTF-8 text (see line 2)"),
    ("a table without rows", text("t.csv", "a,label\n"), "learn m t.csv", "holds no rows"),
    ("no model to predict with", text("t.csv", "a,label\n1,x\n"), "predict m t.csv", "`engram learn m PATH` makes it"),
    ("a model that is none", text("m", "hello"), "show m", "m is not a file that Engram saved"),
    ("an unknown recipe", lambda f: rows(f / "t.csv", "a b"), "learn m t.csv --recipe owmm", "did you mean 'owm'"),
    ("an unknown setting", lambda f: rows(f / "t.csv", "a b"), "learn m t.csv --set head.x=1", "have no 'x'"),
    (
        "a setting out of range",
        lambda f: rows(f / "t.csv", "a b"),
        "learn m t.csv --set head.ridge=-1",
        "ridge must be",
    ),
    ("a setting without a value", lambda f: rows(f / "t.csv", "a b"), "learn m t.csv --set ridge", "GROUP.NAME=VALUE"),
    ("a share that is none", lambda f: rows(f / "t.csv", "a b"), "learn m t.csv --held-out 1", "--held-out must be"),
    ("images too small or too large", single_image, "learn m data --image-size 2 2", "--image-size must be two sides"),
    (
        "a table for a recipe of images",
        lambda f: rows(f / "t.csv", "a b"),
        "learn m t.csv --recipe dgm",
        "these are none",
    ),
    ("more tasks than classes", lambda folder: None, "run analytic digits --tasks 11 --quiet", "choose 1 to 10 tasks"),
]


@pytest.mark.parametrize(("what", "prepare", "line", "said"), ROWS, ids=[row[0] for row in ROWS])
def test_one_sentence_and_exit_status_2(
    ask: Ask, tmp_path: Path, what: str, prepare: Prepare, line: str, said: str
) -> None:
    prepare(tmp_path)
    before = sorted(os.listdir(tmp_path))
    error = ask(line, 2)
    assert said in error
    assert error.startswith("engram: ")
    assert sorted(os.listdir(tmp_path)) == before


LATER: list[tuple[str, str, str]] = [
    ("a table for a model of images", "predict images t.csv", "this model knows grey images of 10 x 10 pixels"),
    ("a folder for a model of tables", "learn table data", "this model knows tables of 2 columns: a, b"),
    ("a table that lacks a column", "predict table other.csv", "has no column 'a'"),
    ("a class that was not learnt", "evaluate table strangers.csv", "No class of this data has been learnt"),
    ("nothing to predict", "predict table", "There is nothing to predict"),
    ("a top that makes no sense", "predict table t.csv --top 0", "--top must be at least 1"),
    ("a probability that is none", "predict table t.csv --reject-below 2", "--reject-below must be a probability"),
    ("two formats at once", "predict table t.csv --csv --json", "--csv and --json exclude each other"),
    (
        "a picture of no known kind",
        "evaluate table t.csv --picture x.abc --json",
        "x.abc cannot be written as a picture",
    ),
]


@pytest.mark.parametrize(("what", "line", "said"), LATER, ids=[row[0] for row in LATER])
def test_what_does_not_fit_the_model(ask: Ask, tmp_path: Path, what: str, line: str, said: str) -> None:
    photographs(tmp_path / "data", "ant bee")
    rows(tmp_path / "t.csv", "a b")
    (tmp_path / "other.csv").write_text("b,label\n1,a\n")
    (tmp_path / "strangers.csv").write_text("a,b,label\n1,2,nobody\n")
    ask("learn table t.csv")
    if "images" in line:
        ask("learn images data --set analytic.filters=16")
    before = Path("table").read_bytes()
    assert said in ask(line, 2)
    assert Path("table").read_bytes() == before


def test_every_row_of_the_docs_has_a_test_and_the_other_way_round() -> None:
    table = DOCS.read_text(encoding="utf-8").partition("## What goes wrong")[2]
    named = [name for name in re.findall(r"^\| ([^|]+?) +\|", table, re.MULTILINE) if name != "what"]
    assert sorted(named) == sorted([row[0] for row in ROWS] + [row[0] for row in LATER] + OTHERS)


# --- what is learnt all the same ---

OTHERS = [
    "a single image",
    "a few NaN, infinite or empty values",
    "a class name that is a path",
    "100,000 classes",
    "a wrong number of channels",
    "a model that another changes meanwhile",
]


def test_a_model_that_another_changes_meanwhile_keeps_the_others_change(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        rows(tmp_path / f"{name}.csv", f"{name}1 {name}2")
    ask("learn m one.csv")
    note = Lesson.note

    def meanwhile(self: Lesson, form: Form) -> None:
        monkeypatch.undo()
        subprocess.run([sys.executable, "-m", "engram", "learn", "m", "three.csv"], cwd=tmp_path, check=True)
        monkeypatch.chdir(tmp_path)
        note(self, form)

    monkeypatch.setattr(Lesson, "note", meanwhile)
    assert "m was changed by another while this learnt" in ask("learn m two.csv", 2)
    assert Learner.load(tmp_path / "m").classes_.tolist() == ["one1", "one2", "three1", "three2"]


def test_a_single_image_is_learnt_and_nothing_is_measured(ask: Ask, tmp_path: Path) -> None:
    single_image(tmp_path)
    said = ask("learn m data --set analytic.filters=16")
    assert "learnt 1 sample" in said
    assert "accuracy: not measured" in said
    assert "ant 100.0%" in ask("predict m data/ant/0.png")


def test_rows_that_cannot_be_used_are_left_out_named_and_counted(ask: Ask, tmp_path: Path) -> None:
    good = rows(tmp_path / "t.csv", "a b").read_text()
    bad = ["nan,1,a", "1,inf,a", ",1,b", "1,1,", "1,1", "1e99,1,a"]
    (tmp_path / "t.csv").write_text(good + "\n".join(bad) + "\n")
    said = ask("learn m t.csv")
    assert "learnt 22 samples" in said
    assert "t.csv:26 has 'nan' in column 'a', which is no finite number" in said
    assert "6 files or rows left out" in said
    assert "t.csv:26 has 'nan'" in ask("learn m t.csv --strict", 2)


def test_a_class_name_that_is_a_path_is_only_a_name(ask: Ask, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    rows(inner / "t.csv", "../x /etc/passwd $HOME")
    before = sorted(os.listdir(tmp_path))
    ask("learn inner/m inner/t.csv")
    assert "../x 100.0%" in ask("predict inner/m inner/t.csv")
    ask("evaluate inner/m inner/t.csv --picture inner/x.png")
    assert "forgotten: ../x" in ask("forget inner/m ../x")
    assert sorted(os.listdir(tmp_path)) == before
    assert sorted(os.listdir(inner)) == ["m", "t.csv", "x.png"]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_wrong_number_of_channels_is_converted_in_files_and_refused_in_python(
    ask: Ask, tmp_path: Path, channels: int
) -> None:
    photographs(tmp_path / "data", "ant bee", colour=True)
    ask("learn m data --set analytic.filters=16")
    pixels = np.full((10, 10, channels), 90, np.uint8)
    Image.fromarray(pixels[..., 0] if channels == 1 else pixels).save(tmp_path / "x.png")
    assert "x.png: " in ask("predict m x.png")
    if channels != 3:
        with pytest.raises(InputError, match="the first task had channels last inputs of 10 x 10 x 3"):
            Learner.load("m").predict(pixels[None])


MANY_CLASSES = """
    import resource, sys
    import numpy as np
    from engram import Learner

    count = int(sys.argv[1])
    x = np.random.default_rng(0).normal(size=(count, 4))
    learner = Learner().partial_fit(x, np.arange(count))
    assert len(learner.predict(x[:300])) == 300
    assert learner.predict_proba(x[:2]).shape == (2, count)
    learner.save("m")
    Learner.load("m")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def megabytes_of(count: int, folder: Path) -> int:
    command = [sys.executable, "-c", textwrap.dedent(MANY_CLASSES), str(count)]
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_the_memory_for_very_many_classes_grows_with_their_number_and_not_its_square(tmp_path: Path) -> None:
    """Scores between all pairs of 8,000 classes alone would be 512 MB."""
    few, many = megabytes_of(1000, tmp_path), megabytes_of(8000, tmp_path)
    assert many - few < 400


@pytest.mark.slow
def test_100_000_classes_are_learnt(tmp_path: Path) -> None:
    assert megabytes_of(100_000, tmp_path) < 6000


def test_more_tasks_than_classes_are_more_samples_of_them() -> None:
    x = np.arange(40.0)[:, None] + np.zeros((1, 2))
    learner = Learner(recipe("analytic", analytic={"width": 16}))
    for task in range(10):
        learner.partial_fit(x[task::10], np.arange(4) % 2)
    assert learner.classes_.tolist() == [0, 1]
    assert learner.tasks_ == 10


# --- files that are no models, or damaged ---


def ten_gigabytes(path: Path) -> None:
    path.write_bytes((10 * 2**30).to_bytes(8, "little") + path.read_bytes()[8:])


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(bytes(content))


def reshaped(path: Path) -> None:
    """A class's sums said to be those of others: as many bytes in another shape."""
    content = path.read_bytes()
    found = re.search(rb'"sums.counts":\{"dtype":"I64","shape":\[2,(\d+)\]', content)
    assert found is not None
    other = found[0].replace(b"[2," + found[1] + b"]", b"[" + found[1] + b",2]")
    path.write_bytes(content.replace(found[0], other))


def newer(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(rb"{\"format\": 1,", rb"{\"format\": 9,"))


DAMAGE: list[tuple[Prepare, str]] = [
    (lambda path: path.write_bytes(pickle.dumps({"a": 1})), "never unpickles"),
    (lambda path: torch.save({"a": torch.ones(2)}, path), "never unpickles"),
    (lambda path: path.write_bytes(path.read_bytes()[:-1]), "cut short"),
    (flipped, "damaged"),
    (reshaped, "damaged"),
    (ten_gigabytes, "cut short"),
    (newer, "format 9, written by a newer Engram"),
]


@pytest.mark.parametrize(("harm", "said"), DAMAGE)
def test_a_damaged_model_is_one_sentence_in_every_command(ask: Ask, tmp_path: Path, harm: Prepare, said: str) -> None:
    rows(tmp_path / "t.csv", "a b c")
    ask("learn m t.csv")
    harm(tmp_path / "m")
    before = Path("m").read_bytes()
    for command in ("learn m t.csv", "predict m t.csv", "evaluate m t.csv", "show m", "forget m a"):
        assert said in ask(command, 2)
    assert Path("m").read_bytes() == before


def test_a_forged_file_asks_for_no_memory(ask: Ask, tmp_path: Path) -> None:
    rows(tmp_path / "t.csv", "a b")
    ask("learn m t.csv")
    ten_gigabytes(tmp_path / "m")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ask("show m", 2)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KB
