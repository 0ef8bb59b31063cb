import math

import numpy as np
import torch

from engram.lesson import State
from engram.networks.random_features import RandomFeatures
from engram.randomness import generator
from engram.settings import AnalyticSettings


def fitted(x: torch.Tensor, width: int = 20) -> RandomFeatures:
    return RandomFeatures.fit(x, AnalyticSettings(width=width), generator(0, "features"))


def rows(count: int = 200) -> torch.Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 10, 0.1, 0]) + 5


def test_the_columns_come_first_at_mean_0_and_deviation_1() -> None:
    x = rows()
    columns = fitted(x)(x)[:, :4]
    torch.testing.assert_close(columns[:, :3].mean(0), torch.zeros(3, dtype=torch.float64), atol=1e-6, rtol=0)
    torch.testing.assert_close(columns[:, :3].std(0, correction=0), torch.ones(3, dtype=torch.float64))
    assert not columns[:, 3].any(), "constant"
    assert fitted(x)(x * 1e6)[:, :4].abs().max() <= 10


def test_the_waves_stand_for_a_gaussian_kernel_as_wide_as_rows_are_apart() -> None:
    x = rows()
    features = fitted(x, 40_000)
    columns, waves = features(x[:20])[:, :4], features(x[:20])[:, 4:]
    distances = torch.cdist(columns, columns)
    everywhere = features(x)[:, :4]
    width = (everywhere[1:] - everywhere[:-1]).norm(dim=1).median()
    expected = (-(distances**2) / (2 * width**2)).exp()
    np.testing.assert_allclose(2 * waves @ waves.T / 40_000, expected, atol=0.04)


def test_one_row_is_enough_and_the_state_is_everything() -> None:
    x = rows()
    assert torch.isfinite(fitted(x[:1])(x)).all()
    features = fitted(x)
    assert torch.equal(RandomFeatures.from_state(State(dict(features.state().tensors)))(x), features(x))
    assert float(features.phases.max()) <= 2 * math.pi
