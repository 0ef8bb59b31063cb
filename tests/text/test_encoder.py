import copy
import logging
import pickle  # of tests alone: learners may be copied to other processes by others
from pathlib import Path

import numpy as np
import pytest
import torch

from engram.errors import DataError
from engram.settings import TextSettings
from engram.text.encoder import TextEncoder
from engram.text.tokens import likely_kind, splitter

CPU = torch.device("cpu")
TEXTS = np.array(["The cat sat", "a dog, a DOG", "cats"], dtype=object)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "v.txt"
    path.write_text("the 1 5\ncat 2 5\nDog 3 8\n", encoding="utf-8")
    return str(path)


def test_english_is_cut_into_lower_cased_words_and_chinese_into_characters() -> None:
    assert splitter("words")("It's 5 O'Clock—già!") == ["it", "s", "5", "o", "clock", "già"]
    assert splitter("characters")("东5环 海棠") == ["东", "5", "环", "海", "棠"]
    assert likely_kind(["东5环海棠公社230-290平2居准现房98折优惠", "NBA直播"]) == "characters"
    assert likely_kind(["The word 中国 means China"]) == "words"
    assert likely_kind(["12345"]) == "words"


def test_jieba_cuts_into_chinese_words() -> None:
    pytest.importorskip("jieba")
    assert splitter("jieba")("我来到北京清华大学") == ["我", "来到", "北京", "清华大学"]


def test_words_are_rows_of_the_file_and_others_are_buckets(file: str) -> None:
    texts = TextEncoder.fit(TEXTS, file, TextSettings(length=3, buckets=10), CPU)
    numbers = texts.encode(TEXTS)
    assert numbers.dtype == np.int32
    assert numbers[0, :2].tolist() == [1, 2]
    assert numbers[1, 1] == 3, "the file's words are found in lower case too"
    assert numbers[2, 1:].tolist() == [0, 0], "padding"
    assert ((numbers[[0, 1, 2], [2, 0, 0]] > 3) & (numbers[[0, 1, 2], [2, 0, 0]] <= 13)).all()
    assert numbers[1, 2] == numbers[1, 0], "the same word, the same bucket; the fourth word is cut off"
    wanted = np.array([[1, 5], [2, 5], [3, 8]]) - [2, 6]
    np.testing.assert_allclose(texts.vectors[1:4], wanted / np.sqrt((wanted**2).mean()), rtol=1e-6)
    assert not texts.vectors[0].any()
    assert len(texts.vectors) == 14


def test_buckets_are_the_same_in_every_encoder(file: str) -> None:
    settings = TextSettings(buckets=1000, dimension=2)
    one = TextEncoder.fit(TEXTS, file, settings, CPU)
    other = TextEncoder.fit(np.array(["unrelated texts"], dtype=object), "/", settings, CPU)
    unknown = np.array(["zebra quagga"], dtype=object)
    assert torch.equal(one.vectors[one.encode(unknown)[0, :2]], other.vectors[other.encode(unknown)[0, :2]])


def test_without_a_file_it_says_in_one_line_that_vectors_are_random(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "engram"):
        texts = TextEncoder.fit(TEXTS, str(tmp_path), TextSettings(), CPU)
    assert [record.message.count("\n") for record in caplog.records] == [0]
    assert "random" in caplog.text
    assert texts.describe()["vectors"] == "random"
    assert abs(float(texts.vectors[1:].std()) - 1) < 0.01


def test_a_named_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        TextEncoder.fit(TEXTS, str(tmp_path / "none.txt"), TextSettings(), CPU)


def test_its_state_needs_no_file_and_holds_nothing_of_the_texts(file: str) -> None:
    settings = TextSettings(buckets=10)
    texts = TextEncoder.fit(TEXTS, file, settings, CPU)
    state = texts.state()
    Path(file).unlink()
    twin = TextEncoder.from_state(state, settings, CPU)
    more = np.array(["THE dog and the rest"], dtype=object)
    np.testing.assert_array_equal(twin.encode(more), texts.encode(more))
    assert torch.equal(twin.vectors, texts.vectors)
    assert twin.describe() == texts.describe()
    assert bytes(state.tensors["words"].tolist()).decode() == "the\ncat\nDog"
    assert copy.deepcopy(texts) is texts
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(texts)).encode(more), texts.encode(more))
