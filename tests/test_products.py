import pytest
import torch

from engram.memory import keep_freed_memory
from engram.products import MINIMUM, product


@pytest.mark.parametrize("shapes", [((3, 5), (4, 5)), ((64, 1100), (1100, 1100)), ((1000, 64), (1100, 64))])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 2e-6), (torch.float64, 1e-13)])
def test_products_are_those_of_float64(
    shapes: tuple[tuple[int, int], tuple[int, int]], transposed: bool, dtype: torch.dtype, limit: float
) -> None:
    torch.manual_seed(0)
    a, b = (torch.randn(shape, dtype=dtype) for shape in shapes)
    if transposed:
        a, b = a.T.contiguous().T, b.T.contiguous().T
    wanted = a.double() @ b.double().T
    found = product(a, b)
    assert found.dtype == dtype
    assert (found.double() - wanted).norm() <= limit * wanted.norm()


def test_without_onednn_the_product_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = torch.randn(64, 1100), torch.randn(1100, 1100)
    assert a.numel() * len(b) > MINIMUM
    found = product(a, b)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert torch.allclose(found, product(a, b), atol=1e-3)


def test_infinities_stay_infinite() -> None:
    a, b = torch.ones(64, 1100), torch.ones(1100, 1100)
    a[0, 0] = torch.inf
    assert product(a, b)[0].isinf().all()


def test_memory_can_be_kept_more_than_once() -> None:
    keep_freed_memory()
    keep_freed_memory()
    assert torch.ones(10).sum() == 10
