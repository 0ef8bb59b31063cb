import numpy as np
import pytest
import torch
from tests.oracles.owm import RankOneProjector

from engram.errors import FileError, InputError
from engram.projection import PENDING_ROWS, WIDE_DIMENSION, Projector

STEPS = 200


def alphas(steps: int = STEPS) -> list[float]:
    return [1e-5 ** (step / (steps - 1)) for step in range(steps)]


def relative(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-9), (torch.float32, 1e-3)])
@pytest.mark.parametrize(("dim", "rows"), [(12, 289), (256, 81), (300, 1), (1100, 1), (40, 40), (64, 25)])
def test_block_updates_equal_rank_one_updates(dim: int, rows: int, dtype: torch.dtype, limit: float) -> None:
    rng = np.random.default_rng(dim)
    directions = rng.normal(size=(max(2, dim // 2), dim)) * np.geomspace(1, 1e-2, max(2, dim // 2))[:, None]
    oracle, projector = RankOneProjector(dim), Projector(dim, dtype)
    gradient = rng.normal(size=(7, dim))
    for step, alpha in enumerate(alphas(40 if rows > 1 else STEPS)):
        block = rng.normal(size=(rows, len(directions))) @ directions / len(directions) + 0.1 * directions[0]
        block = block.astype(np.float32).astype(np.float64)
        oracle.absorb_rows(block, alpha)
        projector.update(torch.from_numpy(block), alpha)
        if step % 13 == 0:
            projected = projector.project(torch.from_numpy(gradient).to(dtype)).double().numpy()
            assert relative(projected, gradient @ oracle.p) < limit
    assert relative(projector.matrix().double().numpy(), oracle.p) < limit
    assert projector.trace() == pytest.approx(float(np.trace(oracle.p)), rel=limit)


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-9), (torch.float32, 1e-3)])
def test_update_with_mean_is_the_update_and_then_the_product(dtype: torch.dtype, limit: float) -> None:
    rng = np.random.default_rng(1)
    oracle, projector = RankOneProjector(100), Projector(100, dtype)
    for alpha in alphas():
        x = np.abs(rng.normal(size=(16, 100))).astype(np.float32).astype(np.float64)
        oracle.absorb(x.mean(0), alpha)
        projected = projector.update_with_mean(torch.from_numpy(x).to(dtype), alpha)
        assert relative(projected.double().numpy(), x @ oracle.p) < limit
    assert relative(projector.matrix().double().numpy(), oracle.p) < limit


def test_absorbed_rows_vanish_and_orthogonal_ones_stay() -> None:
    projector = Projector(6, torch.float64)
    seen = torch.zeros(1, 6, dtype=torch.float64)
    seen[0, 2] = 1
    projector.update(seen, 1e-6)
    free = torch.eye(6, dtype=torch.float64)[[0, 5]]
    assert projector.project(seen).norm() < 2e-6
    assert torch.allclose(projector.project(free), free)
    assert projector.trace() == pytest.approx(5, abs=1e-5)


@pytest.mark.parametrize(("dim", "alpha"), [(64, 1e-13), (1100, 1e-7)])
def test_nearly_equal_rows_at_a_tiny_alpha_stay_a_projector(dim: int, alpha: float) -> None:
    """Rounding makes the small matrix indefinite here; P must stay between 0 and I all the same."""
    torch.manual_seed(0)
    projector = Projector(dim)
    base = torch.rand(dim) * 30
    for _ in range(20):
        projector.update(base + 1e-4 * torch.randn(50, dim), alpha)
    values = np.linalg.eigvalsh(projector.matrix().double().numpy())
    assert values.min() > -1e-3
    assert values.max() < 1 + 1e-3


@pytest.mark.parametrize("updates", [0, 1, PENDING_ROWS - 1, PENDING_ROWS, PENDING_ROWS + 3])
def test_state_restores_bit_for_bit_at_any_fold_phase(updates: int) -> None:
    torch.manual_seed(3)
    original, copy = Projector(WIDE_DIMENSION + 8), Projector(WIDE_DIMENSION + 8)
    for _ in range(updates):
        original.update(torch.randn(1, WIDE_DIMENSION + 8), 0.1)
    copy.restore({name: tensor.clone() for name, tensor in original.state().items()})
    for _ in range(PENDING_ROWS):
        row = torch.randn(1, WIDE_DIMENSION + 8)
        original.update(row, 0.01)
        copy.update(row, 0.01)
    assert torch.equal(original.matrix(), copy.matrix())
    assert original.used == copy.used


def test_a_state_of_another_size_is_refused() -> None:
    with pytest.raises(FileError, match="does not fit"):
        Projector(5).restore(Projector(6).state())


@pytest.mark.parametrize("rows", [torch.zeros(3), torch.zeros(2, 4)])
def test_rows_of_another_size_are_refused(rows: torch.Tensor) -> None:
    with pytest.raises(InputError, match="rows of 3 numbers"):
        Projector(3).update(rows, 0.1)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan")])
def test_a_senseless_alpha_is_refused(alpha: float) -> None:
    with pytest.raises(InputError, match="alpha"):
        Projector(3).update(torch.ones(1, 3), alpha)
