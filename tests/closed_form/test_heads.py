"""Heads against the same heads computed from the rows themselves, in float64."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch import Tensor

from engram.closed_form import temperature
from engram.closed_form.heads import (
    LEAST,
    MOST,
    START,
    STEP,
    Head,
    _downhill,
    best_strength,
    held_out_error,
    nearest_mean,
    solved_head,
)
from engram.closed_form.sums import Sums
from engram.closed_form.temperature import expected_accuracy, sharpness


def blobs(
    rows: int = 400, width: int = 6, columns: int = 3, seed: int = 0, apart: float = 1.0
) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    y = torch.randint(columns, (rows,), generator=random)
    centres = apart * torch.randn(columns, width, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return centres[y] + torch.randn(rows, width, generator=random, dtype=torch.float64), y


def summed(features: Tensor, y: Tensor, held: Tensor | None = None, columns: int = 3) -> Sums:
    sums = Sums(features.shape[1], 0, torch.device("cpu"))
    sums.widen(columns)
    sums.add(features, y, torch.zeros(len(y), dtype=torch.bool) if held is None else held)
    return sums


def naive_ridge(features: Tensor, y: Tensor, strength: float, columns: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Of one-hot targets on centred features; the intercept is not regularised."""
    F, Y = features.numpy(), np.eye(columns)[y.numpy()]
    centred = F - F.mean(0)
    square = centred.T @ centred
    ridge = strength * np.trace(square) / len(square)
    weights = np.linalg.solve(square + ridge * np.eye(len(square)), centred.T @ Y)
    return weights, Y.mean(0) - F.mean(0) @ weights


def solved(sums: Sums, strength: float, discriminant: bool = False, part: int = 0) -> Head:
    head = solved_head(sums.moments(part), strength, discriminant)
    assert head is not None
    return head


@pytest.mark.parametrize("strength", [1e-6, 1e-2, 1.0])
@pytest.mark.parametrize("rows", [4, 400])
def test_ridge_regression_is_what_the_rows_give(strength: float, rows: int) -> None:
    features, y = blobs(rows)
    head = solved(summed(features, y), strength)
    weights, bias = naive_ridge(features, y, strength)
    np.testing.assert_allclose(head.weights, weights, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(head.bias, bias, rtol=1e-6, atol=1e-9)


def test_the_discriminant_is_scikit_learns_without_a_regulariser() -> None:
    features, y = blobs()
    head = solved(summed(features, y), 1e-12, discriminant=True)
    oracle = LinearDiscriminantAnalysis(solver="lsqr").fit(features.numpy(), y.numpy())
    scores = features @ head.weights + head.bias
    np.testing.assert_allclose(torch.softmax(scores, 1), oracle.predict_proba(features.numpy()), atol=2e-3)


def test_the_discriminants_shortcut_is_the_inverse_that_it_stands_for() -> None:
    features, y = blobs()
    head = solved(summed(features, y), 0.1, discriminant=True)
    means = torch.stack([features[y == column].mean(0) for column in range(3)])
    centred = features - features.mean(0)
    within = (features - means[y]).T @ (features - means[y])
    within += 0.1 * (centred.T @ centred).diagonal().mean() * torch.eye(6)
    inverse = torch.linalg.inv(within / len(y))
    torch.testing.assert_close(head.weights, inverse @ (means - features.mean(0)).T)
    middle = ((means - features.mean(0)) @ inverse * (means + features.mean(0))).sum(1) / 2
    torch.testing.assert_close(head.bias, (torch.bincount(y) / len(y)).double().log() - middle)


def test_the_nearest_mean_is_the_nearest() -> None:
    features, y = blobs()
    means = torch.stack([features[y == column].mean(0) for column in range(3)])
    head = nearest_mean(summed(features, y).moments(2))
    assert torch.equal((features @ head.weights + head.bias).argmax(1), torch.cdist(features, means).argmin(1))


@pytest.mark.parametrize("strength", [1e-4, 0.3])
def test_the_held_out_error_comes_from_sums_alone(strength: float) -> None:
    features, y = blobs()
    held = torch.arange(len(y)) % 4 == 0
    sums = summed(features, y, held)
    head = solved(sums, strength)
    errors = features[held] @ head.weights + head.bias - torch.eye(3)[y[held]]
    assert held_out_error(head, sums) == pytest.approx(float(errors.square().sum()), rel=1e-9)


def test_the_strength_with_the_smallest_held_out_error_is_chosen() -> None:
    features, y = blobs(150, 60, apart=0.3)
    held = torch.arange(len(y)) % 5 == 0
    sums = summed(features, y, held)
    errors = {}
    for power in range(LEAST, MOST + 1):
        weights, bias = naive_ridge(features[~held], y[~held], STEP**power)
        errors[power] = np.square(features[held].numpy() @ weights + bias - np.eye(3)[y[held].numpy()]).sum()
    assert best_strength(sums) == min(errors, key=errors.__getitem__) != START


@pytest.mark.parametrize("goal", [LEAST, -9, START, 0, MOST])
def test_the_way_down_ends_at_the_bottom_and_tries_little_else(goal: int) -> None:
    tried = set()

    def error(power: int) -> float:
        tried.add(power)
        return float("inf") if power < goal - 3 else abs(power - goal)

    assert _downhill(error, START) == goal
    assert len(tried) <= abs(goal - START) + 3


def test_features_that_are_nearly_equal_do_no_harm() -> None:
    features, y = blobs(600, 5)
    random = torch.Generator().manual_seed(3)
    copies = [features + 1e-7 * torch.randn(features.shape, generator=random, dtype=torch.float64) for _ in range(6)]
    sums = summed(torch.cat(copies, 1), y)
    sums.products = sums.products.float()  # as for very many features
    head = solved(sums, 1e-4)
    expected, bias = naive_ridge(features, y, 1e-4 / 6)  # six equal features share their weight
    found = torch.cat(copies, 1) @ head.weights + head.bias
    np.testing.assert_allclose(found, features.numpy() @ expected + bias, atol=2e-3)


def test_a_matrix_beyond_rounding_is_refused_and_never_answered_with_noise() -> None:
    features, y = blobs(50, 4)
    moments = summed(features, y).moments(0)
    moments.square -= 1e3 * torch.eye(4)
    assert solved_head(moments, 1e-9, False) is None


def test_constant_features_and_single_rows_are_solved_for() -> None:
    for rows in (1, 2):
        head = solved(summed(torch.ones(rows, 4, dtype=torch.float64), torch.zeros(rows, dtype=torch.long)), 0.1)
        assert head.weights.abs().max() < 1e-9
        assert head.bias.tolist() == [1, 0, 0]


# --- temperature ---


@pytest.mark.parametrize("discriminant", [False, True])
@pytest.mark.parametrize("apart", [0.3, 0.7, 1.2])
def test_probabilities_are_nearly_as_likely_as_the_best_temperature_makes_them(
    apart: float, discriminant: bool
) -> None:
    features, y = blobs(4000, 8, 4, apart=apart)
    held = torch.arange(len(y)) % 10 == 0
    sums = summed(features, y, held, columns=4)
    head = solved(sums, 1e-3, discriminant)
    fresh, truth = blobs(8000, 8, 4, seed=5, apart=apart)
    scores = (fresh @ head.weights + head.bias).numpy()
    own = scores[np.arange(8000), truth]

    def loss(factor: float) -> float:
        return float((np.asarray(logsumexp(factor * scores, axis=1)) - factor * own).mean())

    best = min(loss(factor) for factor in np.exp(np.linspace(-4, 6, 200)))
    assert loss(sharpness(head, sums)) < 1.2 * best + 0.01
    assert loss(sharpness(head, sums) * 4) > 1.3 * best


def test_the_temperature_does_not_depend_on_the_order_of_the_classes_or_on_empty_ones() -> None:
    features, y = blobs(500, 6, 3)
    held = torch.arange(len(y)) % 4 == 0
    plain = summed(features, y, held)
    turned = summed(features, torch.tensor([4, 0, 2])[y], held, columns=6)
    assert sharpness(solved(turned, 0.01), turned) == pytest.approx(sharpness(solved(plain, 0.01), plain), rel=1e-6)


@pytest.mark.parametrize("labels", [[0], [0, 1], [0, 0, 1], [0, 1, 2]])
def test_few_rows_have_a_temperature_too(labels: list[int]) -> None:
    features, _ = blobs(len(labels))
    sums = summed(features, torch.tensor(labels))
    assert 0 < sharpness(solved(sums, 0.1), sums) < float("inf")


def test_very_many_classes_are_stood_for_by_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 400 classes of which 25 are looked at, the temperature is nearly as good as with all of them."""
    features, y = blobs(8000, 24, 400, apart=0.6)
    sums = summed(features, y, torch.arange(len(y)) % 5 == 0, columns=400)
    head = solved(sums, 1e-3)
    fresh, truth = blobs(3000, 24, 400, seed=5, apart=0.6)
    scores = (fresh @ head.weights + head.bias).numpy()

    def loss(factor: float) -> float:
        return float((np.asarray(logsumexp(factor * scores, axis=1)) - factor * scores[np.arange(3000), truth]).mean())

    monkeypatch.setattr(temperature, "MOST_CLASSES", 400)
    with_all = loss(sharpness(head, sums))
    monkeypatch.setattr(temperature, "MOST_CLASSES", 25)
    found = sharpness(head, sums)
    assert loss(found) < with_all + 0.1
    order = torch.randperm(400, generator=torch.Generator().manual_seed(3))
    turned = summed(features, order[y], torch.arange(len(y)) % 5 == 0, columns=400)
    assert sharpness(solved(turned, 1e-3), turned) == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("apart", [0.5, 1.0, 2.0])
def test_the_accuracy_to_be_expected_is_that_on_fresh_rows(apart: float, monkeypatch: pytest.MonkeyPatch) -> None:
    features, y = blobs(6000, 8, 5, apart=apart)
    sums = summed(features, y, torch.arange(len(y)) % 5 == 0, columns=5)
    head = solved(sums, 1e-3)
    fresh, truth = blobs(10_000, 8, 5, seed=5, apart=apart)
    right = (fresh @ head.weights + head.bias).argmax(1) == truth
    for columns in ([0, 1, 2, 3, 4], [1, 3]):
        real = float(right[torch.isin(truth, torch.tensor(columns))].double().mean())
        assert expected_accuracy(head, sums, columns) == pytest.approx(real, abs=0.06)
    assert expected_accuracy(head, sums, []) is None
    monkeypatch.setattr(temperature, "MOST_CLASSES", 4)
    assert expected_accuracy(head, sums, [0]) is None


def test_the_discriminant_of_more_classes_than_features_is_what_the_rows_give() -> None:
    features, y = blobs(900, 4, 9)
    head = solved(summed(features, y, columns=9), 0.01, discriminant=True)
    F, labels = features.numpy(), y.numpy()
    means = np.stack([F[labels == label].mean(0) for label in range(9)])
    total = (F - F.mean(0)).T @ (F - F.mean(0))
    within = (F - means[labels]).T @ (F - means[labels]) + 0.01 * np.trace(total) / 4 * np.eye(4)
    weights = 900 * np.linalg.solve(within, (means - F.mean(0)).T)
    np.testing.assert_allclose(head.weights.numpy(), weights, rtol=1e-8)
    likely = [
        np.log((labels == c).mean()) - 450 * (m - F.mean(0)) @ np.linalg.solve(within, m - F.mean(0))
        for c, m in enumerate(means)
    ]
    scores = (features @ head.weights + head.bias).numpy()
    np.testing.assert_allclose(scores, (F - F.mean(0)) @ weights + likely, rtol=1e-8, atol=1e-8)
