"""Patch features against loops over patches, in float64."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engram.lesson import State
from engram.networks import patches as patches_module
from engram.networks.clusters import cluster_centres
from engram.networks.patches import PatchFeatures, PatchLayer, default_side, shrunk, tells_mirrored, whitening_of
from engram.randomness import generator
from engram.settings import AnalyticSettings


@pytest.fixture(autouse=True)
def few_patches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patches_module, "SAMPLED", 2000)


def images(channels: int = 3, height: int = 9, width: int = 12, rows: int = 20) -> Tensor:
    random = torch.Generator().manual_seed(0)
    return torch.randint(256, (rows, channels, height, width), dtype=torch.uint8, generator=random)


def fitted(x: Tensor, low_precision: bool = False, **settings: Any) -> PatchFeatures:
    values = AnalyticSettings(**({"filters": 5, "flips": "no"} | settings))
    return PatchFeatures.fit(x, values, generator(0, "features"), low_precision)


def naive(layer: PatchLayer, image: np.ndarray) -> np.ndarray:
    """One image's answers, place by place and cell by cell."""
    _, height, width = image.shape
    filters, side = layer.filters.double().numpy(), layer.side
    down, across = height - side + 1, width - side + 1
    answers, patches = np.zeros((filters.shape[1], down, across)), np.zeros((len(filters) - 1, down, across))
    for i in range(down):
        for j in range(across):
            patch = image[:, i : i + side, j : j + side].transpose(1, 2, 0).reshape(-1).astype(float)
            patch = (patch - patch.mean()) / np.sqrt(patch.var() + layer.contrast)
            patches[:, i, j] = patch
            answers[:, i, j] = patch @ filters[:-1] + filters[-1]
    above, below = np.maximum(answers, 0), np.maximum(-answers - 2 * layer.threshold, 0)
    if not layer.both:
        below = patches

    def pooled(maps: np.ndarray) -> np.ndarray:
        lines = layer.grid + 1  # a cell is two of so many strips wide, and two high
        strips = np.zeros((len(maps), lines, lines))
        for i in range(lines):
            for j in range(lines):
                top, bottom = i * down // lines, -((i + 1) * down // -lines)
                left, right = j * across // lines, -((j + 1) * across // -lines)
                strips[:, i, j] = maps[:, top:bottom, left:right].mean((1, 2))
        return (strips[:, :-1, :-1] + strips[:, 1:, :-1] + strips[:, :-1, 1:] + strips[:, 1:, 1:]).reshape(-1) / 4

    return np.concatenate([np.sqrt(pooled(above)), np.sqrt(pooled(below)) if layer.both else pooled(below)])


@pytest.mark.parametrize("sides", ["both", "one"])
@pytest.mark.parametrize("threshold", [0.0, 0.4])
@pytest.mark.parametrize(("channels", "grid"), [(3, 2), (1, 3)])
def test_features_are_what_a_loop_over_patches_gives(sides: str, threshold: float, channels: int, grid: int) -> None:
    x = images(channels)
    features = fitted(x, sides=sides, threshold=threshold, grid=grid, patch=(4,))
    found = features(x[:3])
    expected = np.stack([naive(features.layers[0], image) for image in x[:3].numpy()])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-5)


def test_bfloat16_is_the_same_but_for_rounding() -> None:
    x = images()
    variants: list[dict[str, Any]] = [{"threshold": 0.0}, {"threshold": 0.5}, {"sides": "one"}]
    for settings in variants:
        exact, rounded = fitted(x, **settings)(x), fitted(x, low_precision=True, **settings)(x)
        assert (exact - rounded).abs().max() < 0.03 * exact.abs().max()


def test_several_sizes_of_patches_lie_side_by_side() -> None:
    x = images()
    features = fitted(x, patch=(3, 5), filters=8)
    assert [(layer.side, layer.filters.shape[1]) for layer in features.layers] == [(3, 4), (5, 4)]
    assert features(x).shape == (20, 2 * 4 * 2 * 4)


def test_whitened_patches_are_uncorrelated() -> None:
    random = torch.Generator().manual_seed(0)
    patches = torch.randn(5000, 6, generator=random) @ torch.randn(6, 6, generator=random) + 3
    mean, whiten = whitening_of(patches, 1e-9)
    white = (patches.double() - mean) @ whiten
    np.testing.assert_allclose(np.cov(white.numpy().T, bias=True), np.eye(6), atol=1e-5)
    torch.testing.assert_close(whiten, whiten.T)
    _, damped = whitening_of(patches, 2.0)
    covariance = np.cov(patches.double().numpy().T, bias=True)
    np.testing.assert_allclose(damped @ damped, np.linalg.inv(covariance + 2 * np.eye(6)), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("sides", ["both", "one"])
@pytest.mark.parametrize("threshold", [0.0, 0.5])
@pytest.mark.parametrize("width", [11, 12])
def test_with_flips_an_image_and_its_mirror_image_have_the_same_features(
    sides: str, threshold: float, width: int
) -> None:
    x = images(width=width)
    features = fitted(x, flips="yes", sides=sides, threshold=threshold)
    torch.testing.assert_close(features(x), features(x.flip(3)), rtol=1e-4, atol=1e-5)


def test_features_with_flips_are_those_of_the_image_and_of_its_mirror_image_together() -> None:
    x = images()
    both = fitted(x, flips="yes").layers[0]
    half = both.filters.shape[1] // 2
    straight = replace(both, filters=both.filters[:, :half], mirrored=False)
    image = shrunk(x)
    one, other = straight(image).square(), straight(image.flip(3)).square()
    torch.testing.assert_close(both(image).square(), one + other, rtol=1e-4, atol=1e-5)


def test_flips_are_used_where_mirror_images_look_like_images() -> None:
    random = torch.Generator().manual_seed(1)
    noise = torch.randint(256, (200, 1, 10, 10), dtype=torch.uint8, generator=random)
    corner = noise.clone()
    corner[:, :, :5, :5] //= 8  # all dark at the upper left
    for x, tells in ((noise, False), (corner, True)):
        assert tells_mirrored(shrunk(x), AnalyticSettings(), generator(0)) == tells
        assert fitted(x, flips="auto").layers[0].mirrored != tells


@pytest.mark.parametrize(
    ("shape", "side"), [((32, 32), 6), ((28, 28), 5), ((8, 8), 3), ((2, 9), 2), ((64, 48), 9), ((64, 64), 6)]
)
def test_patches_are_as_large_as_suits_the_image(shape: tuple[int, int], side: int) -> None:
    assert default_side(shrunk(torch.zeros(1, 1, *shape))) == side


def test_large_images_are_averaged_down_and_tiny_ones_are_learnt_from_as_well() -> None:
    assert shrunk(torch.zeros(1, 3, 224, 300)).shape == (1, 3, 32, 42)
    for shape in ((1, 1), (1, 7), (2, 3), (64, 64)):
        x = images(1, *shape, rows=4)
        assert torch.isfinite(fitted(x)(x)).all()


@pytest.mark.parametrize("x", [torch.full((3, 1, 8, 8), 7, dtype=torch.uint8), torch.zeros(1, 3, 8, 8)])
def test_images_without_any_contrast_have_features_too(x: Tensor) -> None:
    assert torch.isfinite(fitted(x, flips="auto")(x)).all()


@pytest.mark.parametrize("pick", ["random", "kmeans"])
def test_the_same_numbers_in_another_unit_give_the_same_features(pick: str) -> None:
    x = images()
    torch.testing.assert_close(fitted(x, pick=pick)(x), fitted(x / 255, pick=pick)(x / 255), rtol=1e-2, atol=1e-3)


def test_the_work_is_done_in_parts_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    x = images()
    features = fitted(x)
    whole = features(x)
    monkeypatch.setattr(patches_module, "CHUNK_BYTES", 1)
    torch.testing.assert_close(features(x), whole)


@pytest.mark.parametrize("low_precision", [False, True])
def test_an_images_features_do_not_depend_on_its_company(low_precision: bool) -> None:
    """Otherwise what is forgotten would not be what was learnt."""
    x = images()
    features = fitted(x, low_precision, flips="yes", filters=40)
    alone = torch.cat([features(image[None]) for image in x])
    torch.testing.assert_close(alone, features(x), rtol=1e-6, atol=1e-6)


def test_features_go_through_their_state() -> None:
    x = images()
    features = fitted(x, patch=(3, 4), flips="yes")
    state = features.state()
    assert torch.equal(PatchFeatures.from_state(State(state.tensors, state.meta))(x), features(x))


def test_cluster_centres_find_the_directions_that_there_are() -> None:
    random = torch.Generator().manual_seed(0)
    directions = torch.linalg.qr(torch.randn(6, 6, generator=random))[0][:3]
    signs = torch.randint(2, (3000, 1), generator=random) * 2.0 - 1
    data = 5 * signs * directions[torch.randint(3, (3000,), generator=random)]
    data += 0.1 * torch.randn(3000, 6, generator=random)
    centres = cluster_centres(data, 12, random)
    torch.testing.assert_close(centres.norm(dim=1), torch.ones(12))
    assert ((directions @ centres.T).abs().amax(1) > 0.99).all()


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e15])
def test_images_of_any_scale_have_the_same_features(scale: float) -> None:
    x = torch.randn(20, 1, 9, 9, generator=torch.Generator().manual_seed(0))
    found, wanted = fitted(x * scale)(x * scale), fitted(x)(x)
    assert torch.isfinite(found).all()
    if scale > 1e-15:  # below, variances are beyond float32
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
