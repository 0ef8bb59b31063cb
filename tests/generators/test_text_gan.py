"""The text generator against what a tiny vocabulary lets one count out, word by word."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from engram.generators.text_gan import (
    TextCritic,
    TextGAN,
    TextGenerator,
    likelihood_loss,
    policy_loss,
    rewards,
    spoken,
)
from engram.randomness import generator as stream
from engram.settings import InputReplaySettings

WORDS, LENGTH = 2, 3


@pytest.fixture
def writer() -> TextGenerator:
    torch.manual_seed(0)
    return TextGenerator(WORDS, 6).double()


@pytest.fixture
def critic() -> TextCritic:
    torch.manual_seed(1)
    return TextCritic(WORDS, 6).double()


def every_text() -> Tensor:
    """All that can be written: after a 0 come only zeros."""
    rows = list(product(range(WORDS + 1), repeat=LENGTH))
    whole = [row for row in rows if not any(a == 0 and b != 0 for a, b in pairwise(row))]
    return torch.tensor(whole)


def probability_by_hand(writer: TextGenerator, text: list[int]) -> Tensor:
    """One word after the other through the cell, up to and with the text's end."""
    state, before, total = None, 0, torch.ones((), dtype=torch.float64)
    for word in text:
        hidden, state = writer.lstm(writer.embedding(torch.tensor([[before]])), state)
        total = total * writer.leave(hidden[0, 0]).softmax(0)[word]
        if word == 0:
            break
        before = word
    return total


def test_the_likelihood_of_a_text_is_that_of_its_words_and_its_end(writer: TextGenerator) -> None:
    texts = every_text()
    logs = writer.double().log_probabilities(texts).sum(1)
    wanted = torch.stack([probability_by_hand(writer, text) for text in texts.tolist()])
    torch.testing.assert_close(logs.exp().double(), wanted, rtol=1e-5, atol=1e-8)
    assert float(wanted.detach().sum()) == pytest.approx(1)
    assert spoken(torch.tensor([[1, 2, 0], [2, 1, 1], [0, 0, 0]])).tolist() == [[1, 1, 1], [1, 1, 1], [1, 0, 0]]
    some = texts[[1, 5]]
    counted = sum(min(LENGTH, 1 + sum(word > 0 for word in text)) for text in some.tolist())
    assert float(likelihood_loss(writer, some).detach()) == pytest.approx(
        -float(wanted[[1, 5]].detach().log().sum()) / counted
    )


def test_texts_are_written_as_often_as_they_are_probable_and_beginnings_are_kept(writer: TextGenerator) -> None:
    texts, many = every_text(), 20_000
    chance = torch.rand(many, LENGTH, generator=torch.Generator().manual_seed(0))
    written = writer.complete(torch.empty(many, 0, dtype=torch.long), chance)
    for text in texts:
        share = float((written == text).all(1).double().mean())
        assert share == pytest.approx(float(probability_by_hand(writer, text.tolist()).detach()), abs=0.012)
    begun = torch.tensor([[2, 1], [1, 0]])
    whole = writer.complete(begun, chance[:2])
    assert torch.equal(whole[:, :2], begun)
    assert whole[1, 2] == 0


def exact_worth(writer: TextGenerator, critic: TextCritic) -> tuple[Tensor, Tensor, Tensor]:
    """Every text, its probability, and for each place what the critic expects after that beginning."""
    texts = every_text()
    with torch.no_grad():
        probability = writer.log_probabilities(texts).double().sum(1).exp()
        judged = critic(texts).sigmoid()
        worth = torch.empty(texts.shape, dtype=torch.float64)
        for row, text in enumerate(texts):
            for place in range(LENGTH):
                alike = (texts[:, : place + 1] == text[: place + 1]).all(1)
                worth[row, place] = (probability * judged)[alike].sum() / probability[alike].sum()
    return texts, probability, worth


def test_roll_outs_estimate_what_a_beginning_is_worth(writer: TextGenerator, critic: TextCritic) -> None:
    texts, _, worth = exact_worth(writer, critic)
    torch.manual_seed(2)
    found = rewards(writer, critic, texts, rollouts=4000).double()
    torch.testing.assert_close(found[:, -1], worth[:, -1], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found, worth, rtol=0, atol=0.02)


def test_the_policy_gradient_is_that_of_the_expected_reward(writer: TextGenerator, critic: TextCritic) -> None:
    """Both are sums over every text there is: no chance is involved."""
    texts, probability, worth = exact_worth(writer, critic)
    weights = list(writer.parameters())
    judged = critic(texts).sigmoid().detach()
    expected = (writer.log_probabilities(texts).double().sum(1).exp() * judged).sum()
    wanted = torch.autograd.grad(-expected, weights)
    parts = [p * policy_loss(writer, text[None], q[None]) for p, text, q in zip(probability, texts, worth, strict=True)]
    found = torch.autograd.grad(torch.stack(parts).sum(), weights)
    for one, two in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-7)


def settings(**changes: int) -> InputReplaySettings:
    small = {"generator_batch": 32, "pretraining_steps": 150, "adversarial_steps": 2, "rollouts": 2}
    return InputReplaySettings(**{**small, "text_length": 5, "text_width": 24, **changes})  # pyright: ignore


def taught(gan: TextGAN, words: list[int], column: int) -> None:
    random = torch.Generator().manual_seed(column)
    texts = torch.tensor(words)[torch.randint(len(words), (200, 4), generator=random)]
    texts = torch.nn.functional.pad(texts, (0, 2))
    gan.learn(texts, torch.full((200,), column), 2, lambda done, total: None)


def test_it_goes_on_writing_what_it_learnt_before() -> None:
    torch.manual_seed(0)
    gan = TextGAN(settings(), 9, torch.device("cpu"), False)
    taught(gan, [1, 2, 3], 0)
    first = gan.sample(torch.zeros(300), stream(0, "test"))
    assert float(torch.isin(first[first > 0], torch.tensor([1, 2, 3])).double().mean()) > 0.9
    taught(gan, [7, 8, 30], 1)  # it has no word 30
    second = gan.sample(torch.zeros(300), stream(0, "test"))
    old = float(torch.isin(second[second > 0], torch.tensor([1, 2, 3])).double().mean())
    new = float(torch.isin(second[second > 0], torch.tensor([7, 8])).double().mean())
    assert 0.3 < old < 0.8
    assert old + new > 0.9
    assert second.shape == (300, 5)
    twin = TextGAN(settings(), 9, torch.device("cpu"), False)
    twin.restore(gan.state())
    assert torch.equal(twin.sample(torch.zeros(300), stream(0, "test")), second)


def test_texts_of_which_it_has_no_word_do_no_harm() -> None:
    gan = TextGAN(settings(pretraining_steps=2), 3, torch.device("cpu"), False)
    curves = gan.learn(torch.full((8, 4), 9), torch.zeros(8, dtype=torch.long), 1, lambda done, total: None)
    assert set(curves) == {"negative_log_likelihood", "reward", "critic_loss"}
