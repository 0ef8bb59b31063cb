"""A learner of texts, from outside."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from engram import Learner, Recipe, recipe
from engram.data import load
from engram.errors import InputError
from engram.progress import Progress
from engram.study.options import RunOptions
from engram.study.run import run

TEXTS = ["the cat sat on a mat", "a cat and a kitten", "stocks fell again", "the market and its stocks"]
LABELS = ["pets", "pets", "money", "money"]


def small(name: str = "analytic", **groups: Any) -> Recipe:
    sizes: dict[str, Any] = {"text": {"filters": 8, "length": 12, "buckets": 200, "dimension": 9}}
    found = recipe(name, **sizes)
    return found.changed({group: values for group, values in groups.items() if group in found.groups()})


@pytest.mark.parametrize(
    "texts",
    [
        TEXTS,
        tuple(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        np.array(TEXTS, dtype=np.dtypes.StringDType()),
    ],
    ids=["list", "tuple", "array of str", "array of objects", "array of StringDType"],
)
def test_texts_come_as_lists_or_arrays_of_strings(texts: Any) -> None:
    learner = Learner(small("finetune", network={"hidden": 30}), epochs=60).fit(texts, LABELS)
    assert learner.predict(texts).tolist() == LABELS
    assert learner.predict(["stocks"]).tolist() == ["money"]


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["one", None], "sample 1 is None: give a string for each sample"),
        (["one", 2], "sample 1 is 2"),
        ([float("nan"), "two"], "sample 0 is nan"),
        (["one", " \n"], "an empty text, sample 1"),
        ("one", r"a single text: give a list of texts, \[text\] for one"),
        ([["one"], ["two"]], "X must hold numbers"),
        ([b"one", b"two"], "give one row per sample|must hold numbers"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(texts: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Learner(small()).fit(texts, ["a", "b"])


def test_texts_and_numbers_are_not_mixed() -> None:
    learner = Learner(small()).fit(TEXTS, LABELS)
    with pytest.raises(InputError, match="X holds numbers, but the first task had texts"):
        learner.predict(np.zeros((2, 3)))
    table = Learner(small()).fit(np.eye(4), LABELS)
    with pytest.raises(InputError, match="X holds texts, but the first task had numbers"):
        table.predict(TEXTS)


@pytest.mark.parametrize("name", ["owm+ssl", "owm+ssl+gfr", "dgm"])
def test_recipes_for_images_refuse_texts_in_one_sentence(name: str) -> None:
    with pytest.raises(InputError, match="images") as caught:
        Learner(recipe(name)).fit(TEXTS, LABELS)
    assert str(caught.value).count(". ") == 0


def test_a_network_of_the_users_own_is_refused() -> None:
    with pytest.raises(InputError, match="these are texts"):
        Learner(small(), network=nn.Linear(2, 2)).fit(TEXTS, LABELS)


def test_a_file_of_vectors_is_used_and_saved_with_the_learner(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    words = sorted({word for text in TEXTS for word in text.split()})
    numbers = torch.randn(len(words), 4, generator=torch.Generator().manual_seed(0))
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(words, numbers.tolist(), strict=True)]
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("\n".join(lines))
    with caplog.at_level(logging.WARNING, "engram"):
        learner = Learner(small("finetune"), epochs=1, embeddings=str(vectors)).fit(TEXTS, LABELS)
    assert not caplog.records
    assert learner.texts_ is not None
    assert learner.texts_.describe()["vectors"] == "vectors.txt"
    learner.save(tmp_path / "model")
    vectors.unlink()
    loaded = Learner.load(tmp_path / "model", learner.recipe_)
    np.testing.assert_array_equal(loaded.predict_proba(TEXTS), learner.predict_proba(TEXTS))


def test_learners_with_different_vectors_are_not_merged(tmp_path: Path) -> None:
    ours = Learner(small()).fit(TEXTS, LABELS)
    (tmp_path / "v.txt").write_text("\n".join(f"{w} {' '.join('1' * 8)} {i}" for i, w in enumerate(TEXTS[0].split())))
    theirs = Learner(small(), embeddings=str(tmp_path / "v.txt")).fit(TEXTS, LABELS)
    with pytest.raises(InputError, match="different features"):
        ours.merge(theirs)
    ours.merge(ours.blank().partial_fit(["rain and snow"], ["weather"]))
    assert ours.classes_.tolist() == ["money", "pets", "weather"]
    ours.forget(["rain and snow"], ["weather"])
    assert "weather" not in ours.classes_


def test_epochs_that_are_left_open_are_fewer_over_texts() -> None:
    sizes = {"network": {"hidden": 4}}
    assert Learner(small("finetune", **sizes)).fit(TEXTS, LABELS).recipe_.training.epochs == 5
    table = Learner(small("finetune", **sizes)).fit(np.eye(4), LABELS)
    assert table.recipe_.training.epochs == 25


def test_a_run_on_docstrings_tells_apart_what_chance_does_not(tmp_path: Path) -> None:
    options = RunOptions("docstrings", out=str(tmp_path / "run"), quiet=True, embeddings=str(tmp_path))
    result = run(recipe("analytic", analytic={"width": 400}, head={"rows": 200}), options, Progress("", quiet=True))
    assert result["accuracy"] > 0.7
    assert result["texts"]["vectors"] == "random"
    assert json.loads((tmp_path / "run" / "result.json").read_text())["texts"] == result["texts"]
    assert load("docstrings").classes == tuple(result["class_names"])
