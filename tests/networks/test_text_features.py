from collections import Counter

import numpy as np
import pytest
import torch
from tests.networks.test_text_cnn import encoder, numbers

from engram.networks.text_features import TextFeatures
from engram.randomness import generator
from engram.settings import AnalyticSettings


def made(kind: str, width: int = 6) -> TextFeatures:
    settings = AnalyticSettings(texts=kind, width=width)  # pyright: ignore[reportArgumentType]
    return TextFeatures.make(encoder(), settings, generator(0, "test"))


def test_pooled_vectors_agree_with_a_naive_loop() -> None:
    found, vectors = made("pooled")(numbers()), encoder().vectors.numpy()
    for row, text in zip(found.numpy(), numbers().tolist(), strict=True):
        words = [vectors[number] for number in text if number] or [np.zeros(4)]
        np.testing.assert_allclose(row, np.concatenate([np.mean(words, 0), np.max(words, 0)]), rtol=1e-5, atol=1e-6)


def test_ngrams_are_counts_of_words_and_pairs_hashed() -> None:
    features = made("ngrams", 1 << 12)
    alone = {gram: _column(features, gram) for gram in [(1,), (2,), (1, 2), (2, 1)]}
    assert len({column for column, _ in alone.values()}) == 4
    text = torch.tensor([[1, 2, 1, 2, 0, 0, 0]])
    wanted = np.zeros(1 << 12)
    for gram, count in Counter([(1,), (2,), (1,), (2,), (1, 2), (2, 1), (1, 2)]).items():
        column, sign = alone[gram]
        wanted[column] += count * sign
    np.testing.assert_allclose(features(text)[0], wanted / np.linalg.norm(wanted), atol=1e-6)


def _column(features: TextFeatures, gram: tuple[int, ...]) -> tuple[int, float]:
    """Where a word or a pair falls: what it adds to its words alone."""

    def counts(*text: int) -> np.ndarray:
        row = features(torch.tensor([[*text, *[0] * (7 - len(text))]]))[0].numpy()
        return np.rint(row / np.abs(row[row != 0]).min())

    found = counts(*gram) - sum(counts(word) for word in gram) if len(gram) > 1 else counts(*gram)
    (column,) = np.flatnonzero(found)
    return int(column), float(found[column])


def test_a_random_convolution_is_the_mean_of_what_exceeds_the_threshold_on_either_side() -> None:
    features, vectors = made("convolution"), encoder().vectors
    for row, text in zip(features(numbers()), numbers().tolist(), strict=True):
        words = [0, *[number for number in text if number], 0]
        windows = [vectors[words[place : place + 3]].flatten() for place in range(len(words) - 2)]
        wanted = torch.zeros(6)
        for window in windows:
            answers = features.filters @ window
            wanted += torch.cat([(answers - 0.5).relu(), (-answers - 0.5).relu()]) / len(windows)
        torch.testing.assert_close(row, wanted)


@pytest.mark.parametrize("kind", ["union", "pooled", "ngrams", "convolution"])
def test_padding_changes_nothing_and_the_state_holds_everything(kind: str) -> None:
    features = made(kind)
    found = features(numbers())
    torch.testing.assert_close(features(torch.nn.functional.pad(numbers(), (0, 5))), found)
    twin = TextFeatures.from_state(features.state(), encoder())
    assert torch.equal(twin(numbers()), found)
    assert torch.isfinite(found).all()
