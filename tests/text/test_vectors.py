from pathlib import Path

import numpy as np
import pytest

from engram.errors import DataError
from engram.text.vectors import best_of, read_vectors

GLOVE = "the 1 2.5 -3\nof 0.25 0 1e-2\n. . 7 8 9\n"


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("header", ["", "3 3\n"])
def test_both_formats_give_the_same_words_and_numbers(tmp_path: Path, header: str) -> None:
    words, rows = read_vectors(written(tmp_path / "v.txt", header + GLOVE), 100)
    assert words == ["the", "of", ". ."]
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, np.array([[1, 2.5, -3], [0.25, 0, 0.01], [7, 8, 9]], np.float32))


def test_trailing_spaces_of_word2vec_and_line_ends_of_windows_do_no_harm(tmp_path: Path) -> None:
    words, rows = read_vectors(written(tmp_path / "v.vec", "2 2\r\na 1 2 \r\nb 3 4 \r\n"), 100)
    assert (words, rows.tolist()) == (["a", "b"], [[1, 2], [3, 4]])


def test_the_first_of_a_repeated_word_counts_and_no_more_than_asked_for_are_read(tmp_path: Path) -> None:
    words, rows = read_vectors(written(tmp_path / "v.txt", "a 1 2\nb 3 4\na 5 6\nc 7 8\n"), 3)
    assert (words, rows.tolist()) == (["a", "b"], [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a 1 2\nb 3\n", r"no word with 2 numbers as its entry 2 \('b 3'\)"),
        ("a 1 2\nb 3 x\n", r"entry 2 \('b 3 x'\)"),
        ("a 1 2\nb 3 nan\n", "entry 2"),
        ("a\nb\n", "entry 1"),
        ("", "holds no word vectors"),
        ("5 300\n", "holds no word vectors"),
    ],
)
def test_a_damaged_file_is_refused_by_its_entry(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_vectors(written(tmp_path / "v.txt", text), 100)


def test_a_binary_or_absent_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.bin").write_bytes(b"a \xff\xfe\x00")
    with pytest.raises(DataError, match="is not UTF-8 text"):
        read_vectors(tmp_path / "v.bin", 100)
    with pytest.raises(DataError, match="cannot be read"):
        read_vectors(tmp_path / "none.txt", 100)


def test_of_several_files_the_one_that_knows_most_words_is_taken(tmp_path: Path) -> None:
    written(tmp_path / "some.txt", "one 1\ntwo 2\n")
    best = written(tmp_path / "most.vec", "3 1\nOne 1\ntwo 2\nthree 3\n")
    written(tmp_path / "notes.md", "one\ntwo\nthree\nfour\n")
    assert best_of(tmp_path, {"one", "two", "three", "four"}) == best
    assert best_of(tmp_path, {"one", *"abcdef"}) is None
    assert best_of(tmp_path / "none", {"one"}) is None
