import numpy as np
import pytest
import torch
from torch import Tensor

from engram import Learner, recipe
from engram.networks import text_cnn
from engram.networks.text_cnn import TextConvolution, build_text_network
from engram.owm import OWM
from engram.settings import NetworkSettings, TextSettings
from engram.text.encoder import TextEncoder

CPU = torch.device("cpu")


def encoder(window: int = 3, length: int = 7) -> TextEncoder:
    settings = TextSettings(tokens="words", window=window, length=length, buckets=20, filters=5)
    words = [f"w{i}" for i in range(9)]
    known = torch.randn(9, 4, generator=torch.Generator().manual_seed(1))
    return TextEncoder(settings, words, known, "", CPU)


def numbers() -> Tensor:
    return torch.tensor([[1, 2, 3, 4, 5, 0, 0], [6, 0, 0, 0, 0, 0, 0], [7, 8, 9, 1, 0, 0, 0], [0] * 7])


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5])
def test_convolution_and_pooling_agree_with_a_naive_loop(window: int) -> None:
    texts = encoder(window)
    layer = TextConvolution(texts, 5)
    weight = layer.conv.weight.detach().numpy().reshape(5, window, 4)
    vectors = texts.vectors.numpy()
    wanted = np.zeros((4, 5))
    for row, text in enumerate(numbers().tolist()):
        words = [number for number in text if number]
        for place in range(len(words)):
            for filter_ in range(5):
                total = 0.0
                for offset in range(window):
                    at = place + offset - (window - 1) // 2
                    if 0 <= at < len(words):
                        total += float(weight[filter_, offset] @ vectors[words[at]])
                wanted[row, filter_] = max(wanted[row, filter_], total)
    np.testing.assert_allclose(layer(numbers()).detach(), wanted, rtol=1e-4, atol=1e-6)


def test_more_padding_changes_neither_scores_nor_projector(monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without the cropping that a CPU does."""
    padded = torch.nn.functional.pad(numbers(), (0, 6))
    found = []
    for x, crop in ((numbers(), True), (padded, True), (padded, False)):
        if not crop:
            monkeypatch.setattr(text_cnn, "cropped", lambda ids: ids)
        torch.manual_seed(0)
        network = build_text_network(encoder(), 3, NetworkSettings(hidden=6))
        owm = OWM(network)
        scores = network(x)
        torch.nn.functional.cross_entropy(scores, torch.tensor([0, 1, 2, 0])).backward()
        owm.project(0.7)
        gradient = network.get_parameter("extractor.0.conv.weight").grad
        assert gradient is not None
        found.append((scores.detach(), owm.layers["extractor.0.conv"].projectors[0].matrix(), gradient))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-7)


def test_the_projector_learns_of_the_real_windows_alone() -> None:
    """P⁻¹ = I + Σ rrᵀ/α over the windows' means over the batch, those around padding left out."""
    texts = encoder(3, 7)
    network = build_text_network(texts, 3, NetworkSettings(hidden=6))
    owm = OWM(network)
    network(numbers()).sum().backward()
    owm.project(0.5)
    vectors, alpha = texts.vectors.double().numpy(), 1e-5**0.5
    inverse = np.eye(12)
    for place in range(7):
        row = np.zeros(12)
        for text in numbers().tolist():
            around = [0, *text, 0][place : place + 3]
            if text[place]:
                row += np.concatenate([vectors[number] for number in around]) / len(numbers())
        inverse += np.outer(row, row) / alpha
    found = owm.layers["extractor.0.conv"].projectors[0].matrix()
    np.testing.assert_allclose(found, np.linalg.inv(inverse), rtol=1e-3, atol=1e-4)


def test_the_vectors_are_frozen_and_no_part_of_the_weights() -> None:
    network = build_text_network(encoder(), 3, NetworkSettings(hidden=6))
    names = [name for name, _ in network.named_parameters()]
    assert names == ["extractor.0.conv.weight", "extractor.1.weight", "extractor.3.weight", "head.weight"]
    assert not [name for name, tensor in network.state_dict().items() if tensor.shape == encoder().vectors.shape]
    assert network.get_parameter("extractor.0.conv.weight").shape == (5, 12, 1)


def test_a_text_without_a_known_word_or_without_any_is_predicted_too() -> None:
    small = recipe("finetune", text={"filters": 4, "length": 5, "buckets": 9}, network={"hidden": 6})
    learner = Learner(small, epochs=1).fit(["one two", "three four"], ["a", "b"])
    assert np.isfinite(learner.predict_proba(["zzz", "!!!"])).all()
