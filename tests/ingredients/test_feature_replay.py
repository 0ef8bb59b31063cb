"""Replay against hand-computed targets and naive gradients; what it reaches, and what OWM makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.methods.test_gradient import lesson, method, weights
from torch import Tensor

from engram.ingredients.base import Ingredient, Step
from engram.ingredients.feature_replay import FeatureReplay
from engram.ingredients.owm import OWMIngredient
from engram.ingredients.teacher import any_of, distillation_loss
from engram.lesson import Watch
from engram.methods.gradient import GradientMethod
from engram.randomness import generator
from engram.settings import FeatureReplaySettings, OWMSettings

TINY: dict[str, Any] = {"generator_steps": 3, "generator_width": 8, "generator_batch": 8, "noise": 4}
STEP = Step(1, 0, 0, 0.0)


def replay(**settings: Any) -> FeatureReplay:
    return FeatureReplay(FeatureReplaySettings(**TINY, **settings))


def test_soft_targets_at_temperature_2_by_hand() -> None:
    taught, scores = torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 0.0, -1.0]])
    # targets: softmax(1, 0) = 0.731059, 0.268941, and 0 for the new class
    # log softmax(0.5, 0, -0.5) = -0.680270, -1.180270, -1.680270
    wanted = 0.731059 * 0.680270 + 0.268941 * 1.180270
    assert distillation_loss(scores, taught, 2.0).item() == pytest.approx(wanted, abs=1e-5)


def test_a_new_classs_score_is_pushed_down_on_old_features() -> None:
    scores = torch.zeros(1, 3, requires_grad=True)
    distillation_loss(scores, torch.zeros(1, 2), 2.0).backward()
    # (softmax - target) / T
    torch.testing.assert_close(scores.grad, torch.tensor([[1 / 3 - 1 / 2, 1 / 3 - 1 / 2, 1 / 3]]) / 2)


class Eye(Ingredient):
    """Sees all gradients at its place in the order, at one step."""

    def attach(self, host: Any) -> None:
        self.network = host.network
        self.seen: list[dict[str, Tensor]] = []

    def edit_gradients(self, step: Step) -> None:
        grads = {name: p.grad.clone() for name, p in self.network.named_parameters() if p.grad is not None}
        self.seen.append(grads)


def stepped(subject: GradientMethod) -> GradientMethod:
    """After a first task, at the first step of a second one."""
    subject.learn(lesson(0, classes=(0, 1), width=2), Watch())
    for ingredient in subject.ingredients:
        if isinstance(ingredient, Eye):
            ingredient.seen.clear()
    training = subject.begin(lesson(1, classes=(2,)))
    x, y = next(subject.batches(lesson(1, classes=(2,)), 0))
    subject.network.train()
    subject.train_step(training.optimizer, x, y, STEP)
    return subject


def by_definition(subject: GradientMethod, part: FeatureReplay, head: Tensor) -> Tensor:
    """The head's gradient of the loss on the features that this step replays."""
    random = generator(subject.seed, 1, "replay", 0, 0)
    features = part.gan.sample(any_of(part.gan.seen, part.settings.batch_size, random), random).double()
    head = head.double().requires_grad_()
    targets = torch.zeros(len(features), 3, dtype=torch.float64)
    targets[:, :2] = (features @ part.old_head.double().T / part.settings.temperature).softmax(1)
    loss = -(targets * (features @ head.T / part.settings.temperature).log_softmax(1)).sum(1).mean()
    if part.settings.squared:
        loss = loss * part.settings.temperature**2
    (gradient,) = torch.autograd.grad(part.settings.weight * loss, head)
    return gradient.float()


@pytest.mark.parametrize("settings", [{}, {"weight": 3.0}, {"squared": True, "temperature": 3.0, "batch_size": 5}])
def test_the_head_alone_learns_from_replay_and_by_its_definition(settings: dict[str, Any]) -> None:
    before, part, after = Eye(), replay(**settings), Eye()
    subject = method(before, part, after, width=2)
    heads: list[Tensor] = []
    before.batch = lambda x, y, step: heads.append(subject.network.head.weight.detach().clone()) or (x, y)
    stepped(subject)
    (without,), (with_it,) = before.seen, after.seen
    for name, gradient in without.items():
        if name != "head.weight":
            assert torch.equal(with_it[name], gradient)
    added = with_it["head.weight"] - without["head.weight"]
    assert added.norm() > 1e-3
    torch.testing.assert_close(added, by_definition(subject, part, heads[-1]), rtol=1e-4, atol=1e-6)


def test_replayed_features_pass_through_no_layer_but_the_head() -> None:
    subject = method(replay(), width=2)
    subject.learn(lesson(0, classes=(0, 1), width=2), Watch())
    subject.begin(lesson(1, classes=(2,)))
    subject.network.zero_grad()
    subject.network.extractor.register_forward_hook(lambda *_: pytest.fail("the extractor was called"))
    subject.ingredients[0].edit_gradients(STEP)
    touched = [name for name, p in subject.network.named_parameters() if p.grad is not None]
    assert touched == ["head.weight"]


READINGS = {
    "project the sum": (["replay", "owm"], "protected"),
    "project what is real": (["owm", "replay"], "protected"),
    "no projector on the head": (["owm", "replay"], "free"),
}


@pytest.mark.parametrize("reading", READINGS)
def test_the_three_readings_of_the_replay_gradient(reading: str) -> None:
    order, head = READINGS[reading]
    parts = {"owm": OWMIngredient(OWMSettings(head=head)), "replay": replay()}  # pyright: ignore[reportArgumentType]
    last = Eye()
    subject = method(*[parts[name] for name in order], last, width=2)
    real: list[Tensor] = []
    heads: list[Tensor] = []

    class Watching(Ingredient):
        """Works out the gradient of the real data by itself, before the step."""

        def loss(self, loss: Tensor, batch: Any, step: Step) -> Tensor:
            weight = subject.network.head.weight
            scores = batch.features.detach() @ weight.T
            real.append(torch.autograd.grad(F.cross_entropy(scores, batch.y), weight)[0])
            heads.append(weight.detach().clone())
            return loss

    subject.ingredients.append(Watching())
    stepped(subject)
    replayed = by_definition(subject, parts["replay"], heads[-1])  # pyright: ignore[reportArgumentType]
    if head == "free":
        assert "head" not in " ".join(subject.traces())
        wanted = real[-1] + replayed
    else:
        projector = parts["owm"].owm.layers["head"].projectors[0].matrix()  # pyright: ignore[reportAttributeAccessIssue]
        assert 0 < projector.trace() < len(projector)
        wanted = (real[-1] + replayed) @ projector if order[0] == "replay" else real[-1] @ projector + replayed
    torch.testing.assert_close(last.seen[-1]["head.weight"], wanted, rtol=1e-3, atol=1e-5)


def test_the_first_task_is_learnt_as_without_replay() -> None:
    plain, with_it = method(), method(replay())
    for subject in (plain, with_it):
        subject.learn(lesson(), Watch())
    assert all(map(torch.equal, weights(plain), weights(with_it)))


def test_the_generator_learns_the_extractors_own_features_once_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    part = replay()
    subject = method(part)
    taught: list[tuple[Tensor, Tensor]] = []
    learn = part.gan.learn
    spying = lambda features, y, *rest: taught.append((features, y)) or learn(features, y, *rest)  # noqa: E731
    monkeypatch.setattr(part.gan, "learn", spying)
    work: list[tuple[str, int, int]] = []

    class Looking(Watch):
        def worked(self, what: str, done: int, total: int) -> None:
            work.append((what, done, total))

    subject.learn(lesson(), Looking())
    ((features, y),) = taught
    torch.testing.assert_close(features, subject.extract(lesson().x))
    assert torch.equal(y, lesson().y)
    assert work == [("generator", done, 3) for done in (1, 2, 3)]


def test_it_measures_its_generator_for_the_result() -> None:
    subject = method(replay())
    subject.learn(lesson(), Watch())
    found = subject.measures()["generator"]
    assert {"wasserstein", "critic_loss", "generator_loss", "class_loss", "gradient_penalty"} < set(found)
    assert set(found["as_asked"]) == {"0", "1", "2"}
    assert all(0 <= share <= 1 for share in found["as_asked"].values())
    json.dumps(found)


def test_the_share_as_asked_counts_what_the_head_says() -> None:
    part = replay()
    subject = method(part)
    subject.learn(lesson(), Watch())
    part.gan.sample = lambda columns, random: F.one_hot((columns == 1).long(), 8).float()
    part.old_head = torch.zeros(3, 8)
    part.old_head[2, 0] = part.old_head[1, 1] = 1  # generated for 1 looks like 1, everything else like 2
    assert part._as_asked(0) == {"0": 0.0, "1": 1.0, "2": 1.0}


def test_a_method_cannot_be_told_from_its_restored_twin() -> None:
    subject, twin = (method(OWMIngredient(OWMSettings()), replay(), width=2) for _ in range(2))
    subject.learn(lesson(0, classes=(0, 1), width=2), Watch())
    twin.restore(subject.state())
    random = [torch.Generator().manual_seed(3) for _ in range(2)]
    asked = torch.tensor([0, 1, 1])
    made = [each.generate(asked, own) for each, own in zip((subject, twin), random, strict=True)]
    assert made[0] is not None
    assert made[1] is not None
    assert torch.equal(made[0], made[1])
    for each in (subject, twin):
        each.learn(lesson(1), Watch())
    assert all(map(torch.equal, weights(subject), weights(twin)))
