"""EWC's Fisher information and MAS's importance by hand, and the penalty's gradient against autograd's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.methods.test_gradient import lesson, method, weights
from torch import Tensor, nn

from engram.errors import InputError
from engram.ingredients.base import Step
from engram.ingredients.importance import EWC, MAS, ImportancePenalty, gradient_powers
from engram.lesson import Lesson, Watch
from engram.networks import Network, build_network
from engram.settings import EWCSettings, MASSettings, NetworkSettings

STEP = Step(1, 0, 0, 0.0)
X = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.0, 3.0]], dtype=torch.float64)


def ewc(**settings: object) -> EWC:
    return EWC(EWCSettings(**settings))  # pyright: ignore[reportArgumentType]


def test_the_fisher_information_of_a_logistic_regression_by_hand() -> None:
    """For the labels y it is the mean of (p − y)² x², one row for each class."""
    model = nn.Linear(2, 2, dtype=torch.float64)
    y = torch.tensor([0, 1, 1])
    found = gradient_powers(model, X, lambda scores: F.cross_entropy(scores, y, reduction="sum"), 2)
    weight, bias = torch.zeros(2, 2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    for x, label in zip(X, y, strict=True):
        exponentials = (model.weight @ x + model.bias).detach().exp()
        error = exponentials / exponentials.sum()
        error[label] -= 1
        weight += error.square()[:, None] * x.square()
        bias += error.square()
    torch.testing.assert_close(found, {"weight": weight, "bias": bias})


def test_the_importance_of_mas_on_a_linear_layer_by_hand() -> None:
    """The gradient of ‖Wx‖² is 2 (Wx) xᵀ, and its absolute values are averaged."""
    model = nn.Linear(2, 3, bias=False, dtype=torch.float64)
    part = MAS(MASSettings())
    found = gradient_powers(model, X, lambda scores: part.objective(scores, X, torch.Generator()), part.power)
    wanted = sum((2 * torch.outer(model.weight.detach() @ x, x)).abs() for x in X)
    torch.testing.assert_close(found["weight"], wanted)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("shape", [(3, 9, 9), (5,)])
def test_all_samples_at_once_give_what_one_backward_pass_each_gives(power: int, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    network = build_network(shape, 4, NetworkSettings(filters=(2, 3, 4), hidden=6)).double().eval()
    x = torch.randn(5, *shape, dtype=torch.float64)
    found = gradient_powers(network, x, lambda scores: scores.square().sum(), power)
    wanted = {name: torch.zeros_like(p) for name, p in network.named_parameters()}
    for sample in x:
        gradients = torch.autograd.grad(network(sample[None]).square().sum(), list(network.parameters()))
        for total, gradient in zip(wanted.values(), gradients, strict=True):
            total += gradient.abs().pow(power)
    assert found.keys() == wanted.keys()
    for name, total in wanted.items():
        torch.testing.assert_close(found[name], total)


def second_task(part: ImportancePenalty) -> tuple[Network, dict[str, Tensor]]:
    """A network that has learnt one task and moved on since; and its gradients with the penalty's, which is all."""
    subject = method(part, width=2)
    subject.learn(lesson(0, classes=(0, 1), width=2), Watch())
    subject.begin(lesson(1, classes=(2,)))
    for parameter in subject.network.parameters():
        parameter.data += torch.randn_like(parameter)
        parameter.grad = torch.ones_like(parameter)
    part.edit_gradients(STEP)
    return subject.network, {name: p.grad - 1 for name, p in subject.network.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    ("part", "factor"), [(ewc(weight=7.0), 7 / 2), (MAS(MASSettings(weight=7.0)), 7.0)], ids=["ewc", "mas"]
)
def test_the_gradient_that_is_added_is_the_penaltys(part: ImportancePenalty, factor: float) -> None:
    network, added = second_task(part)
    penalty = torch.zeros(())
    for name, parameter in network.named_parameters():
        assert part.importance[name].shape == parameter.shape
        penalty = penalty + (part.importance[name] * (parameter - part.anchor[name]).square()).sum()
    (factor * penalty).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None
        torch.testing.assert_close(added[name], parameter.grad - 1 - added[name], rtol=1e-4, atol=1e-5)
    assert not added["head.weight"][2].any()  # a new class's row is free
    assert added["head.weight"][:2].any()


def test_without_a_gradient_the_penalty_makes_one() -> None:
    """As a projection leaves it that forms its layers' gradients by itself."""
    part = ewc()
    network, added = second_task(part)
    for parameter in network.parameters():
        parameter.grad = None
    part.edit_gradients(STEP)
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(parameter.grad, added[name], rtol=1e-4, atol=1e-4)


def test_labels_are_drawn_from_the_models_own_probabilities_or_are_the_datas() -> None:
    scores = torch.tensor([[0.0, 2.0]]).repeat(4000, 1).requires_grad_()
    zeros = torch.zeros(4000, dtype=torch.long)
    random = torch.Generator().manual_seed(0)
    share = {}
    for labels in ("true", "model"):
        (gradient,) = torch.autograd.grad(ewc(labels=labels).objective(scores, zeros, random), scores)
        share[labels] = float((gradient[:, 1] < 0).double().mean())  # a label pulls its own score up
    assert share["true"] == 0
    assert share["model"] == pytest.approx(torch.tensor([0.0, 2.0]).softmax(0)[1].item(), abs=0.03)


@pytest.mark.parametrize("decay", [1.0, 0.25])
def test_tasks_are_summed_into_one_importance(decay: float) -> None:
    part = MAS(MASSettings(weight=0.0, decay=decay))
    subject = method(part)
    subject.learn(lesson(0), Watch())
    first = {name: tensor.clone() for name, tensor in part.importance.items()}
    subject.learn(lesson(1), Watch())
    own = part._measured(Lesson(1, lesson(1).x, lesson(1).y, 3))
    for name, tensor in part.importance.items():
        torch.testing.assert_close(tensor, decay * first[name] + own[name])


def test_a_weight_that_mattered_stays_and_one_that_did_not_moves() -> None:
    moved = {}
    for weight in (0.0, 100.0):
        part = MAS(MASSettings(weight=weight))
        subject = method(part)
        subject.learn(lesson(0), Watch())
        before = weights(subject)
        importance = torch.cat([part.importance[name].flatten() for name, _ in subject.network.named_parameters()])
        subject.learn(lesson(1), Watch())
        change = torch.cat([(a - b).flatten() for a, b in zip(weights(subject), before, strict=True)])
        moved[weight] = float((importance * change.square()).sum() / importance.sum())
    assert moved[100.0] < moved[0.0] / 10


def test_measuring_leaves_weights_gradients_and_modes_alone() -> None:
    subject = method(ewc())
    before = weights(subject)
    subject.ingredients[0].end_task(lesson())
    assert all(map(torch.equal, weights(subject), before))
    assert all(p.grad is None for p in subject.network.parameters())
    assert subject.network.training


def test_a_layer_of_another_kind_is_refused_by_name() -> None:
    class Host:
        network = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))

    with pytest.raises(InputError, match=r"not for 1 \(LayerNorm\)"):
        ewc().attach(Host())  # pyright: ignore[reportArgumentType]
