import copy
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from engram.networks import Network, build_network
from engram.networks.cnn import ConvBlock
from engram.networks.dropout import Dropout, keep_mask
from engram.settings import NetworkSettings

SMALL = NetworkSettings(filters=(4, 6, 8), hidden=16)


def linear_layers(network: Network) -> list[nn.Linear]:
    return [module for module in network.modules() if isinstance(module, nn.Linear)]


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (2, 1), (5, 12), (8, 8), (9, 7)])
def test_any_image_size_gives_features_and_scores(channels: int, height: int, width: int) -> None:
    network = build_network((channels, height, width), 5, SMALL)
    x = network.prepare(torch.randn(3, channels, height, width))
    features = network.extractor(x)
    assert features.shape == (3, 16)
    assert (features >= 0).all()
    assert network(x).shape == (3, 5)


def test_the_papers_sizes() -> None:
    network = build_network((3, 32, 32), 10, NetworkSettings())
    assert [tuple(layer.weight.shape) for layer in linear_layers(network)] == [(1000, 4096), (1000, 1000), (10, 1000)]
    kernels = [tuple(m.weight.shape) for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert kernels == [(64, 3, 2, 2), (128, 64, 2, 2), (256, 128, 2, 2)]
    assert round(sum(p.numel() for p in network.parameters()) / 1e6, 1) == 5.3
    wide = build_network((3, 8, 8), 10, NetworkSettings(filters=(4, 6, 8), hidden=16, width=2))
    assert [m.out_channels for m in wide.modules() if isinstance(m, nn.Conv2d)] == [8, 12, 16]


@pytest.mark.parametrize("shape", [(3, 8, 8), (7,)])
def test_there_are_no_biases(shape: tuple[int, ...]) -> None:
    network = build_network(shape, 3, SMALL)
    assert all(parameter.ndim > 1 for parameter in network.parameters())
    assert not network(torch.zeros(2, *shape)).any()


def test_linear_layers_have_xavier_normals_spread() -> None:
    torch.manual_seed(0)
    network = build_network((300,), 200, NetworkSettings(hidden=400))
    for layer in linear_layers(network):
        wanted = math.sqrt(2 / (layer.in_features + layer.out_features))
        assert float(layer.weight.detach().std()) == pytest.approx(wanted, rel=0.02)
        assert float(layer.weight.detach().abs().max()) > 3.5 * wanted  # a uniform one ends at 1.73


@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize("size", [(8, 8), (5, 7), (1, 1)])
def test_relu_after_pooling_is_the_textbooks_order(size: tuple[int, int], p: float) -> None:
    """ReLU → dropout → max-pool as the paper has it, with one mask for both: same values, same gradients."""
    torch.manual_seed(0)
    block = ConvBlock(3, 5, p).double()
    conv = copy.deepcopy(block.conv)
    x = torch.randn(4, 3, *size, dtype=torch.float64, requires_grad=True)
    twin = x.detach().clone().requires_grad_()

    torch.manual_seed(1)
    found = block(x)
    inner = nn.Sequential(nn.ReplicationPad2d(1), conv, nn.ReLU())(twin)
    torch.manual_seed(1)
    textbook = nn.MaxPool2d(2)(Dropout(p)(inner) if p else inner)

    assert torch.equal(found, textbook)
    pull = torch.randn_like(found)
    (found * pull).sum().backward()
    (textbook * pull).sum().backward()
    assert x.grad is not None
    assert block.conv.weight.grad is not None
    torch.testing.assert_close(x.grad, twin.grad)
    torch.testing.assert_close(block.conv.weight.grad, conv.weight.grad)
    assert block.conv.weight.grad.any()


def test_the_whole_extractor_is_the_textbooks_network() -> None:
    torch.manual_seed(0)
    network = build_network((3, 9, 7), 4, SMALL).eval()
    blocks = [module for module in network.modules() if isinstance(module, ConvBlock)]
    layers = [layer for b in blocks for layer in (nn.ReplicationPad2d(1), b.conv, nn.ReLU(), nn.MaxPool2d(2))]
    first, second, head = linear_layers(network)
    oracle = nn.Sequential(*layers, nn.Flatten(), first, nn.ReLU(), second, nn.ReLU(), head)
    x = torch.randn(6, 3, 9, 7)
    torch.testing.assert_close(network(x), oracle(x))


def test_growing_keeps_the_rows_there_are() -> None:
    torch.manual_seed(0)
    network = build_network((7,), 0, SMALL)
    x = torch.randn(5, 7)
    assert network(x).shape == (5, 0)
    network.grow(3)
    before, rows = network(x), network.head.weight.detach().clone()
    network.grow(5)
    assert torch.equal(network.head.weight[:3], rows)
    torch.testing.assert_close(network(x)[:, :3], before, rtol=1e-6, atol=1e-6)
    assert network.head.out_features == 5
    assert network.head.weight.requires_grad
    assert network.head.weight[3:].abs().min() > 0
    grown = network.head.weight
    network.grow(4)
    assert network.head.weight is grown


def test_standardising_is_numpys_mean_and_deviation() -> None:
    rng = np.random.default_rng(0)
    table = (rng.normal(size=(2345, 4)) * [1, 1e-3, 1e3, 5] + [0, 7, -1e4, 3]).astype(np.float32)
    network = build_network((4,), 2, SMALL)
    network.standardise(torch.tensor(table))
    wide = table.astype(np.float64)
    wanted = ((wide - wide.mean(0)) / wide.std(0)).clip(-10, 10)
    np.testing.assert_allclose(network.prepare(torch.tensor(table)).numpy(), wanted, atol=2e-3)
    np.testing.assert_allclose(network.shift.numpy(), wide.mean(0, keepdims=True).reshape(network.shift.shape), 1e-6)


def test_images_are_standardised_per_channel() -> None:
    images = np.random.default_rng(0).integers(0, 256, (1203, 3, 4, 5)).astype(np.uint8)
    images[:, 1] //= 4
    network = build_network((3, 4, 5), 2, SMALL)
    network.standardise(torch.tensor(images))
    wide = images.astype(np.float64)
    axes = (0, 2, 3)
    wanted = (wide - wide.mean(axes, keepdims=True)) / wide.std(axes, keepdims=True)
    found = network.prepare(torch.tensor(images))
    assert found.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-5)


def test_constant_columns_stay_finite_and_tables_are_clamped() -> None:
    table = torch.tensor([[5.0, 0.0, 0.1, 1.0], [5.0, 0.0, 0.1, 2.0], [5.0, 0.0, 0.1, 3.0]])
    network = build_network((4,), 2, SMALL)
    network.standardise(table)
    prepared = network.prepare(table)
    assert torch.isfinite(prepared).all()
    assert prepared[:, :3].abs().max() < 1e-6
    far = network.prepare(torch.tensor([[5.0, 0.0, 0.1, 1e6], [5.0, 0.0, 0.1, -1e6]]))
    assert far[:, 3].tolist() == [10, -10]
    network.standardise(table[:1])
    assert torch.isfinite(network.prepare(table)).all()


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 0.9])
def test_dropout_drops_and_rescales(p: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(200_001)
    found = Dropout(p)(x)
    assert float((found == 0).float().mean()) == pytest.approx(p, abs=0.005)
    assert found[found != 0].unique().tolist() == pytest.approx([1 / (1 - p)])
    assert float(found.mean()) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 5, 7, 3), (2, 3, 1, 1), (2, 4, 9, 8)])
def test_dropout_of_any_type_size_and_layout(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = channels_last(torch.rand(shape).to(dtype) + 1).requires_grad_()
    found = Dropout(0.5)(x)
    assert found.shape == x.shape
    assert found.dtype == dtype
    assert found.stride() == x.stride()
    kept = found != 0
    torch.testing.assert_close(found[kept], 2 * x[kept])
    found.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, kept.to(dtype) * 2)


def test_dropout_treats_all_places_alike() -> None:
    torch.manual_seed(0)
    masks = torch.stack([keep_mask(channels_last(torch.empty(2, 3, 5, 5)), 0.3) for _ in range(3000)]).float()
    assert masks.mean(0).sub(0.7).abs().max() < 0.05
    flat = masks.flatten(1) - masks.flatten(1).mean(0)
    together = (flat.T @ flat / len(flat)).fill_diagonal_(0)
    assert together.abs().max() < 0.03  # neighbours are independent


def test_dropout_is_seeded_by_torch() -> None:
    layer, x = Dropout(0.5), torch.ones(1000)
    torch.manual_seed(3)
    first, second = layer(x), layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)
    assert not torch.equal(first, second)


def test_dropout_off_is_the_identity() -> None:
    x = torch.randn(5, 4)
    assert Dropout(0.0)(x) is x
    assert Dropout(0.5).eval()(x) is x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("p", [0.2, 0.37])
def test_what_dropout_keeps_is_multiplied_by_the_same_factor(p: float, dtype: torch.dtype) -> None:
    x = torch.randn(4, 3, 6, 6, dtype=dtype).contiguous(memory_format=torch.channels_last)
    torch.manual_seed(1)
    found = Dropout(p)(x)
    torch.manual_seed(1)
    wanted = x * keep_mask(x, p).to(dtype).mul_(1 / (1 - p))
    assert torch.equal(found, wanted)
    assert found.dtype == dtype
    assert found.is_contiguous(memory_format=torch.channels_last)
