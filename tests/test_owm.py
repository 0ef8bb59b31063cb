import copy
import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.oracles.owm import RankOneProjector, conv_patches
from torch import Tensor, nn

from engram import OWM
from engram.errors import FileError, InputError
from engram.networks import build_network
from engram.settings import NetworkSettings, OWMSettings

LIMITS = {torch.float64: 1e-9, torch.float32: 1e-3}


def relative(found: Tensor, wanted: np.ndarray) -> float:
    scale = float(np.linalg.norm(wanted))
    return float(np.linalg.norm(found.detach().double().numpy().reshape(wanted.shape) - wanted)) / scale


def small_cnn(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.ReplicationPad2d(1), nn.Conv2d(3, 5, 2, bias=False), nn.ReLU(), nn.MaxPool2d(2)]
    head = [nn.Flatten(), nn.Linear(5 * 16, 30, bias=False), nn.ReLU(), nn.Linear(30, 20, bias=False)]
    return nn.Sequential(*layers, *head, nn.ReLU(), nn.Linear(20, 4, bias=False)).to(dtype)


def layer_at(model: nn.Module, name: str) -> nn.Linear:
    layer = model.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    return layer


def gradient(model: nn.Module, name: str) -> Tensor:
    found = model.get_parameter(f"{name}.weight").grad
    assert found is not None
    return found


def inputs_of(model: nn.Sequential, x: Tensor) -> list[Tensor]:
    """What each layer of a sequential model sees."""
    seen = []
    with torch.no_grad():
        for layer in model:
            seen.append(x)
            x = layer(x)
    return seen


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_two_hundred_steps_equal_the_double_loop_of_rank_one_updates(dtype: torch.dtype, lazy: bool) -> None:
    model = small_cnn(dtype)
    reference = copy.deepcopy(model).double()
    owm = OWM(model, OWMSettings(), lazy=lazy)
    oracle = {
        "1": RankOneProjector(12),
        "5": RankOneProjector(80),
        "7": RankOneProjector(30),
        "9": RankOneProjector(20),
    }
    finals = {"1": 1e-5, "5": 1e-4, "7": 1e-2, "9": 1e-1}
    torch.manual_seed(1)
    for step in range(200):
        x, y = torch.randn(8, 3, 8, 8, dtype=dtype), torch.randint(0, 4, (8,))
        progress = step / 199
        for net in (model, reference):
            net.zero_grad()
            F.cross_entropy(net(x.to(next(net.parameters()).dtype)), y).backward()
        owm.project(progress)
        for name, layer_input in enumerate(inputs_of(reference, x.double())):
            if (projector := oracle.get(str(name))) is None:
                continue
            mean = layer_input.numpy().mean(0)
            rows = conv_patches(mean, 2, 2) if mean.ndim == 3 else mean[None]
            projector.absorb_rows(rows, finals[str(name)] ** progress)
        for name, projector in oracle.items():
            wanted = gradient(reference, name).flatten(1).numpy() @ projector.p
            assert relative(gradient(model, name), wanted) < LIMITS[dtype], (step, name)
        with torch.no_grad():  # both move alike, so that the comparison stays at one point
            for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
                assert ours.grad is not None
                theirs -= 0.02 * ours.grad.double()
                ours.copy_(theirs)
    for name, projector in oracle.items():
        assert relative(owm.layers[name].projectors[0].matrix(), projector.p) < LIMITS[dtype]


CONVOLUTIONS = [
    nn.Conv2d(4, 6, 3, stride=2, padding=1),
    nn.Conv2d(4, 6, (2, 3), padding=(1, 0), dilation=(1, 2), bias=False),
    nn.Conv2d(4, 6, 3, padding="same", groups=2),
    nn.Conv2d(4, 8, 3, groups=4, padding_mode="reflect", padding=1),
    nn.Conv2d(4, 3, 1, bias=False),
]


@pytest.mark.parametrize("conv", CONVOLUTIONS, ids=str)
def test_any_convolution_forgets_nothing_of_a_constant_batch(conv: nn.Conv2d) -> None:
    """The patches absorbed are those that the convolution multiplies: after absorbing every one of them, a projected
    step leaves its outputs as they were."""
    torch.manual_seed(0)
    conv = copy.deepcopy(conv).double()
    x = torch.randn(1, 4, 7, 9, dtype=torch.float64).expand(3, -1, -1, -1)
    owm = OWM(conv, OWMSettings(alpha_conv=1e-12, patch_stride=1))
    before = conv(x)
    (before * torch.randn_like(before)).sum().backward()
    free = conv.weight.grad
    assert free is not None
    free = free.clone()
    owm.project()
    with torch.no_grad():
        for parameter in conv.parameters():
            assert parameter.grad is not None
            parameter -= parameter.grad
        assert torch.allclose(conv(x), before, atol=1e-6)
    assert free.norm() > 1


@pytest.mark.parametrize("bias", [False, True])
def test_conv1d_protects_as_a_conv2d_of_height_one(bias: bool) -> None:
    torch.manual_seed(0)
    flat, tall = nn.Conv1d(3, 4, 3, bias=bias).double(), nn.Conv2d(3, 4, (1, 3), bias=bias).double()
    tall.load_state_dict(
        {name: value.reshape(tall.state_dict()[name].shape) for name, value in flat.state_dict().items()}
    )
    x = torch.randn(5, 3, 11, dtype=torch.float64)
    for module, batch in ((flat, x), (tall, x[:, :, None])):
        owm = OWM(module)
        module(batch).square().sum().backward()
        owm.project(0.5)
    assert flat.weight.grad is not None
    assert tall.weight.grad is not None
    assert torch.allclose(flat.weight.grad, tall.weight.grad[:, :, 0])


@pytest.mark.parametrize("lazy", [False, True])
def test_a_bias_is_a_constant_one_input(lazy: bool) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(6, 40).double()
    owm = OWM(layer, OWMSettings(alpha_last=1e-12), lazy=lazy)
    old = torch.randn(1, 6, dtype=torch.float64).expand(3, -1)
    before = layer(old)
    owm.absorb()
    layer(torch.randn(5, 6, dtype=torch.float64).requires_grad_()).square().sum().backward()
    owm.project()
    assert layer.bias.grad is not None
    assert layer.bias.grad.norm() > 0.1
    with torch.no_grad():
        for parameter in layer.parameters():
            assert parameter.grad is not None
            parameter -= parameter.grad
        assert torch.allclose(layer(old), before, atol=1e-6)


def gradients_through(touch: str, lazy: bool) -> tuple[Tensor, Tensor, Tensor]:
    """A wide layer's raw gradient after some edit, its projection by OWM, and P."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 30, bias=False), nn.ReLU(), nn.Linear(30, 50, bias=False)).double()
    reference = copy.deepcopy(model)
    owm = OWM(model, lazy=lazy)
    x = torch.randn(4, 10, dtype=torch.float64)
    for net in (model, reference):
        net.zero_grad()
        loss = net(x).square().sum()
        if touch == "penalty":
            loss = loss + net.get_parameter("2.weight").square().sum()
        if touch == "two passes":
            loss = loss + net(2 * x).sum()
        loss.backward()
        weight = net.get_parameter("2.weight")
        assert weight.grad is not None or lazy
        if touch == "mask":
            assert weight.grad is not None
            weight.grad[:7] = 0
        if touch == "added":
            extra = torch.ones_like(weight)
            weight.grad = extra if weight.grad is None else weight.grad + extra
    raw = reference.get_parameter("2.weight").grad
    owm.project(0.7)
    found = model.get_parameter("2.weight").grad
    assert raw is not None
    assert found is not None
    return raw, found, owm.layers["2"].projectors[0].matrix()


@pytest.mark.parametrize(
    ("touch", "lazy"),
    [
        ("none", False),
        ("none", True),
        ("penalty", False),
        ("penalty", True),
        ("mask", False),
        ("added", False),
        ("added", True),
        ("two passes", False),
        ("two passes", True),
    ],
)
def test_whatever_the_gradient_holds_is_projected(touch: str, lazy: bool) -> None:
    raw, found, p = gradients_through(touch, lazy)
    assert torch.allclose(found, raw @ p, atol=1e-12)
    assert not torch.allclose(found, raw)


def test_the_wide_layer_takes_the_cheap_way_unless_its_gradient_was_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from engram import owm_layers

    products = []
    original = owm_layers.product
    monkeypatch.setattr(owm_layers, "product", lambda a, b: (products.append(1), original(a, b))[1])
    gradients_through("none", lazy=False)
    cheap = len(products)
    gradients_through("penalty", lazy=False)
    assert (cheap, len(products) - cheap) == (2, 1)


def test_passes_in_pause_in_evaluation_and_of_copies_leave_no_trace() -> None:
    torch.manual_seed(0)
    model = build_network((3, 8, 8), 4, NetworkSettings(filters=(2, 3, 4), hidden=8))
    owm = OWM(model)
    twin = copy.deepcopy(model)
    x = torch.randn(5, 3, 8, 8)
    with owm.paused():
        model(x).sum().backward()
    model.eval()
    model(x).sum().backward()
    model.train()
    twin(x).sum().backward()
    with torch.no_grad():
        model(x)  # a pass that teaches nothing
    owm.project(0.5)
    assert all(share == pytest.approx(1) for share in owm.traces().values())
    model(x).sum().backward()
    owm.project(0.5)
    assert all(share < 1 for share in owm.traces().values())


def test_a_failed_forward_pass_leaves_the_layer_trainable() -> None:
    layer = nn.Linear(4, 30)
    OWM(layer, lazy=True)
    with pytest.raises(RuntimeError):
        layer(torch.randn(3, 5, requires_grad=True))
    assert layer.weight.requires_grad
    assert layer.bias.requires_grad


def test_skipped_and_frozen_layers_are_left_alone() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 30), nn.ReLU(), nn.Linear(30, 40), nn.Linear(40, 2))
    model[2].requires_grad_(False)
    owm = OWM(model, skip=["3"])
    model(torch.randn(6, 4)).square().sum().backward()
    head = gradient(model, "3").clone()
    owm.project()
    assert set(owm.layers) == {"0", "2"}
    assert layer_at(model, "2").weight.grad is None
    assert torch.equal(gradient(model, "3"), head)


def test_an_unknown_name_to_skip_is_refused() -> None:
    with pytest.raises(InputError, match="'nothing'"):
        OWM(nn.Linear(2, 2), skip=["nothing"])


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 8)
        self.attention = nn.MultiheadAttention(8, 2)
        self.norm = nn.LayerNorm(8)
        self.free = nn.Linear(8, 8)
        self.tied = nn.Linear(8, 9, bias=False)
        self.tied.weight = self.embedding.weight
        self.head = nn.Linear(8, 3)


def test_layers_that_are_not_protected_are_named_in_one_warning() -> None:
    with pytest.warns(UserWarning, match="does not protect") as caught:
        owm = OWM(Mixed(), skip=["free"])
    assert len(caught) == 1
    text = str(caught[0].message)
    for name in ("embedding (Embedding)", "attention (Multi", "norm (LayerNorm)", "tied (Linear)"):
        assert name in text
    assert "free" not in text
    assert set(owm.layers) == {"head"}


def test_alpha_follows_the_kind_of_layer_and_the_progress() -> None:
    model = small_cnn()
    owm = OWM(model)
    assert [owm._alpha(name, 1.0) for name in ("1", "5", "7", "9")] == [1e-5, 1e-4, 1e-2, 1e-1]
    assert owm._alpha("1", 0.0) == 1
    assert owm._alpha("5", 0.5) == pytest.approx(1e-2)
    assert owm._alpha("5", None) == 1e-4


def test_task_end_projects_with_what_was_absorbed_and_absorbs_nothing_itself() -> None:
    torch.manual_seed(0)
    model = small_cnn()
    owm = OWM(model, OWMSettings(refresh="task_end"))
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    model(x).square().sum().backward()
    raw = gradient(model, "5").clone()
    owm.project(0.5)
    assert torch.allclose(gradient(model, "5"), raw)
    with torch.no_grad():
        model(x)
        owm.absorb(1.0)
    model.zero_grad()
    model(x).square().sum().backward()
    owm.project(0.5)
    assert gradient(model, "5").norm() < 0.5 * raw.norm()
    before = owm.traces()
    owm.project(0.5)
    assert owm.traces() == before


def test_accumulated_gradients_count_as_one_larger_batch() -> None:
    torch.manual_seed(0)
    model = small_cnn()
    twin = copy.deepcopy(model)
    x = torch.randn(6, 3, 8, 8, dtype=torch.float64)
    owm, twin_owm = OWM(model), OWM(twin)
    for part in (x[:2], x[2:]):
        model(part).square().sum().backward()
    twin(x).square().sum().backward()
    owm.project(0.3)
    twin_owm.project(0.3)
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        assert torch.allclose(ours.grad, theirs.grad)


def test_state_restores_and_another_networks_state_is_refused() -> None:
    torch.manual_seed(0)
    model = small_cnn()
    owm = OWM(model)
    model(torch.randn(4, 3, 8, 8, dtype=torch.float64)).sum().backward()
    owm.project(0.5)
    fresh = OWM(small_cnn())
    fresh.restore(owm.state())
    assert fresh.traces() == owm.traces()
    with pytest.raises(FileError, match="other layers"):
        OWM(nn.Linear(3, 3)).restore(owm.state())


def test_removed_hooks_record_nothing() -> None:
    layer = nn.Linear(3, 3)
    owm = OWM(layer)
    owm.remove()
    layer(torch.randn(2, 3)).sum().backward()
    assert not owm.layers[""].records


def test_our_own_networks_need_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OWM(build_network((1, 8, 8), 3, NetworkSettings(hidden=5)))


@pytest.mark.parametrize("lazy", [False, True])
def test_bfloat16_autocast_projects_within_its_rounding(lazy: bool) -> None:
    torch.manual_seed(0)
    model = build_network((20,), 4, NetworkSettings(hidden=64))
    owm = OWM(model, lazy=lazy)
    x = torch.rand(16, 20)
    for _ in range(30):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            features = model.extractor(x)
            loss = F.cross_entropy(model.head(features).float(), torch.arange(16) % 4)
        loss.backward()
        owm.project()
    projected = gradient(model, "extractor.2")
    seen = layer_at(model, "extractor.0")(x).relu().mean(0)
    assert projected.dtype == torch.float32
    assert (projected @ seen).norm() < 0.02 * projected.norm() * seen.norm()


def test_a_small_addition_is_not_taken_for_rounding_under_bfloat16() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(200, 100, bias=False)
    owm = OWM(layer)
    for scale in (0.03, 0.1, 1.0):
        layer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = layer(torch.rand(16, 200)).float().square().mean()
        loss.backward()
        assert layer.weight.grad is not None
        penalty = torch.randn_like(layer.weight)
        layer.weight.grad += scale * penalty * layer.weight.grad.norm() / penalty.norm()
        raw = layer.weight.grad.clone()
        owm.project(0.5)
        assert torch.allclose(layer.weight.grad, raw @ owm.layers[""].projectors[0].matrix(), atol=1e-6)


def test_empty_batches_teach_nothing_and_break_nothing() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 2), nn.Flatten(), nn.Linear(8, 30))
    owm = OWM(model)
    for rows in (0, 3):
        model(torch.randn(rows, 1, 3, 3)).sum().backward()
    owm.project(0.5)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_a_frozen_convolution_stays_frozen_though_its_bias_learns() -> None:
    conv = nn.Conv2d(1, 2, 2)
    conv.weight.requires_grad_(False)
    owm = OWM(conv)
    conv(torch.randn(2, 1, 3, 3)).sum().backward()
    owm.project(0.5)
    assert conv.weight.grad is None
    assert conv.bias is not None
    assert conv.bias.grad is not None


def test_inputs_may_come_by_name() -> None:
    layer = nn.Linear(3, 5)
    owm = OWM(layer)
    layer(input=torch.randn(2, 3)).sum().backward()
    owm.project(0.5)
    assert owm.traces()[""] < 1


@pytest.mark.parametrize("lazy", [False, True])
def test_two_backward_passes_over_one_forward_pass_add_up(lazy: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 30, bias=False), nn.ReLU(), nn.Linear(30, 40, bias=False)).double()
    twin = copy.deepcopy(model)
    owm = OWM(model, lazy=lazy)
    x = torch.randn(3, 4, dtype=torch.float64)
    for net in (model, twin):
        out = net(x)
        out.sum().backward(retain_graph=True)
        out.square().sum().backward()
    owm.project(0.5)
    assert torch.allclose(gradient(model, "2"), gradient(twin, "2") @ owm.layers["2"].projectors[0].matrix())


def test_a_discarded_step_leaves_no_trace() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(4, 30)
    owm = OWM(layer, lazy=True)
    layer(torch.full((2, 4), float("nan"), requires_grad=True)).sum().backward()
    layer.zero_grad()
    owm.discard()
    layer(torch.randn(2, 4)).sum().backward()
    owm.project(0.5)
    assert torch.isfinite(gradient(nn.ModuleList([layer]), "0")).all()
    assert 0 < owm.traces()[""] < 1


def test_a_model_that_is_trained_unseen_is_warned_of_once() -> None:
    layer = nn.Linear(4, 3).eval()
    owm = OWM(layer)
    for _ in range(2):
        layer(torch.randn(2, 4)).sum().backward()
    with pytest.warns(UserWarning, match="seen no forward pass"):
        owm.project(0.5)
    owm.project(0.5)  # a second warning would be an error here


def test_lazy_modules_and_a_senseless_progress_are_refused() -> None:
    with pytest.raises(InputError, match="run one batch"):
        OWM(nn.LazyLinear(3))
    with pytest.raises(InputError, match="from 0 to 1"):
        OWM(nn.Linear(2, 2)).project(5)
