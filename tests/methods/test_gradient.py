import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engram.errors import EngramError
from engram.ingredients.base import Batch, Ingredient, Step
from engram.ingredients.owm import OWMIngredient
from engram.lesson import Lesson, Position, Watch
from engram.methods.finite import LOOK_EVERY
from engram.methods.gradient import GradientMethod
from engram.networks import build_network
from engram.randomness import generator
from engram.settings import NetworkSettings, OWMSettings, TrainingSettings

CPU = torch.device("cpu")


def lesson(index: int = 0, samples: int = 30, classes: tuple[int, ...] = (0, 1, 2), width: int = 3) -> Lesson:
    random = torch.Generator().manual_seed(index)
    y = torch.tensor(classes)[torch.arange(samples) % len(classes)]
    x = torch.randn(samples, 6, generator=random) * 3 + 2 * F.one_hot(y, 6) + 1
    return Lesson(index, x, y, width)


def method(*ingredients: Ingredient, width: int = 3, **training: float) -> GradientMethod:
    torch.manual_seed(0)
    network = build_network((6,), width, NetworkSettings(hidden=8))
    settings = TrainingSettings(**{"epochs": 3, "batch_size": 8, **training})  # pyright: ignore[reportArgumentType]
    return GradientMethod(network, ingredients, settings, 4, CPU, False)


def weights(found: GradientMethod) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in found.network.parameters()]


@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_two_tasks_equal_a_bare_loop(clip: float) -> None:
    subject = method(clip_norm=clip)
    oracle = [w.clone().requires_grad_() for w in weights(subject)]
    first = lesson(0).x
    mean, deviation = first.mean(0), first.std(0, correction=0)
    for task in (lesson(0), lesson(1, 21)):
        subject.learn(task, Watch())
        momentum = [torch.zeros_like(w) for w in oracle]
        for epoch in range(3):
            order = torch.randperm(len(task.y), generator=generator(4, task.index, "order", epoch))
            for rows in order.split(8):
                x = (task.x[rows] - mean) / deviation
                scores = (x @ oracle[0].T).relu() @ oracle[1].T
                gradients = torch.autograd.grad(F.cross_entropy(scores.relu() @ oracle[2].T, task.y[rows]), oracle)
                norm = math.sqrt(sum(float(g.square().sum()) for g in gradients))
                factor = min(1.0, clip / (norm + 1e-6)) if clip else 1.0
                for w, m, g in zip(oracle, momentum, gradients, strict=True):
                    m.mul_(0.9).add_(g * factor)
                    w.data.sub_(0.02 * m)
    for found, wanted in zip(weights(subject), oracle, strict=True):
        torch.testing.assert_close(found, wanted.detach(), rtol=1e-5, atol=1e-6)


class Recorder(Ingredient):
    """Notes every call, and may change the first weight's gradient."""

    def __init__(self, name: str, log: list[str], edit: Callable[[Tensor], Tensor] | None = None) -> None:
        self.name, self.log, self.edit = name, log, edit

    def attach(self, host: object) -> None:
        self.host = host
        self.log.append(f"{self.name} attach")

    def begin_task(self, lesson: Lesson) -> None:
        self.log.append(f"{self.name} begin {lesson.index}")

    def batch(self, x: Tensor, y: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        self.log.append(f"{self.name} batch")
        return x, y

    def loss(self, loss: Tensor, batch: Batch, step: Step) -> Tensor:
        self.log.append(f"{self.name} loss")
        assert torch.is_tensor(batch.features)
        return loss

    def edit_gradients(self, step: Step) -> None:
        self.log.append(f"{self.name} edit")
        if self.edit:
            weight = self.host.network.head.weight  # pyright: ignore[reportAttributeAccessIssue]
            weight.grad = self.edit(weight.grad)

    def end_task(self, lesson: Lesson) -> None:
        self.log.append(f"{self.name} end {lesson.index}")

    def features(self, extract: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        return extract(x) + 1 if self.name == "a" else extract(x) * 3

    def scores(self, head: Callable[[Tensor], Tensor], features: Tensor) -> Tensor:
        return head(features) + 1 if self.name == "a" else head(features) * 3


def test_ingredients_act_in_the_order_of_the_list() -> None:
    log: list[str] = []
    subject = method(Recorder("a", log), Recorder("b", log), epochs=1, batch_size=30)
    subject.learn(lesson(), Watch())
    pairs = ["attach", "begin 0", "batch", "loss", "edit", "end 0"]
    assert log == [f"{name} {what}" for what in pairs for name in "ab"]


def test_clipping_comes_after_everyones_edits() -> None:
    large = Recorder("a", [], lambda g: g + 1000)
    subject = method(large, epochs=1, batch_size=30, clip_norm=1.0)
    seen: list[Tensor] = []

    class Look(Watch):
        def stepped(self, position: Position) -> None:
            seen.extend(p.grad.clone() for p in subject.network.parameters() if p.grad is not None)

    subject.learn(lesson(), Look())
    assert len(seen) == 3
    assert float(torch.stack([g.norm() for g in seen]).norm()) == pytest.approx(1.0, abs=1e-3)
    torch.testing.assert_close(seen[-1], seen[-1].mean().expand_as(seen[-1]), rtol=1e-2, atol=0)


def test_edits_are_applied_one_after_the_other() -> None:
    log: list[str] = []
    results = []
    for order in ((0, 1), (1, 0)):
        edits = [Recorder("a", log, lambda g: g * 0), Recorder("b", log, lambda g: g + 1)]
        subject = method(*(edits[i] for i in order), epochs=1, batch_size=30, clip_norm=0)
        before = subject.network.head.weight.detach().clone()
        subject.learn(lesson(), Watch())
        results.append(subject.network.head.weight.detach() - before)
    torch.testing.assert_close(results[0], torch.full_like(results[0], -0.02))
    assert not results[1].any()


def test_prediction_passes_the_ingredients_in_order() -> None:
    plain = method()
    edited = method(Recorder("a", []), Recorder("b", []))
    x = lesson().x
    torch.testing.assert_close(edited.features(x), (plain.features(x) + 1) * 3)
    wanted = (F.linear((plain.features(x) + 1) * 3, plain.network.head.weight) + 1) * 3
    torch.testing.assert_close(edited.scores(x), wanted)


class Scores(Watch):
    """Pretends to have validation data, and keeps what the weights were after each epoch."""

    def __init__(self, subject: GradientMethod, scores: list[float | None]) -> None:
        self.subject, self.left = subject, list(scores)
        self.weights: list[list[Tensor]] = []
        self.traces: list[dict[str, float]] = []

    def score_epoch(self) -> float | None:
        self.weights.append(weights(self.subject))
        self.traces.append(self.subject.traces())
        return self.left.pop(0)


@pytest.mark.parametrize(
    ("scores", "best"),
    [([0.1, 0.9, 0.5], 1), ([0.9, 0.1, 0.9], 0), ([0.1, 0.2, 0.3], 2), ([None, None, None], 2)],
)
def test_the_best_epochs_weights_come_back_but_the_projectors_stay(scores: list[float | None], best: int) -> None:
    subject = method(OWMIngredient(OWMSettings()))
    watch = Scores(subject, scores)
    subject.learn(lesson(), watch)
    assert all(map(torch.equal, weights(subject), watch.weights[best]))
    if best < 2:
        assert not all(map(torch.equal, weights(subject), watch.weights[2]))
    assert subject.traces() == watch.traces[2]
    assert watch.traces[2] != watch.traces[0]


def test_selection_begins_anew_with_each_task() -> None:
    subject = method()
    subject.learn(lesson(0), Scores(subject, [0.9, 0.8, 0.7]))
    watch = Scores(subject, [0.1, 0.3, 0.2])
    subject.learn(lesson(1), watch)
    assert all(map(torch.equal, weights(subject), watch.weights[1]))


def test_a_watch_sees_every_step() -> None:
    seen: list[Position] = []

    class Look(Watch):
        def stepped(self, position: Position) -> None:
            seen.append(position)

    method(epochs=2).learn(lesson(samples=20), Look())
    assert [(p.epoch, p.step, p.samples) for p in seen] == [
        (e, s, n) for e in (0, 1) for s, n in ((1, 8), (2, 8), (3, 4))
    ]
    assert {(p.epochs, p.steps) for p in seen} == {(2, 3)}


def test_a_loss_that_is_no_number_is_an_error() -> None:
    with pytest.raises(EngramError, match=r"loss of task 1 is no longer a finite number.*lower the learning rate"):
        method(learning_rate=1e30, clip_norm=0).learn(lesson(), Watch())


class Poison(Ingredient):
    """Adds NaN to the loss of one step."""

    def __init__(self, task: int, epoch: int, index: int) -> None:
        self.where = (task, epoch, index)

    def loss(self, loss: Tensor, batch: Batch, step: Step) -> Tensor:
        return loss + (math.nan if (step.task, step.epoch, step.index) == self.where else 0.0)


@pytest.mark.parametrize("index", [0, 7, 24])
def test_the_first_bad_step_is_named_soon_and_so_is_what_spoilt_it(index: int) -> None:
    subject = method(Recorder("a", []), Poison(1, 1, index), batch_size=2)
    subject.learn(lesson(0), Watch())
    watch = Steps()
    wanted = rf"loss of task 2 is .* in epoch 2, step {index + 1}; the part of Poison is to blame"
    with pytest.raises(EngramError, match=wanted):
        subject.learn(lesson(1, samples=50), watch)
    assert watch.seen < 25 + (index // LOOK_EVERY + 1) * LOOK_EVERY


class Steps(Watch):
    seen = 0

    def stepped(self, position: Position) -> None:
        self.seen += 1


@pytest.mark.parametrize("what", ["loss", "weights"])
def test_a_spoilt_state_is_not_handed_out(what: str) -> None:
    """Nor, then, written over the last good checkpoint."""
    subject = method(*([Poison(0, 0, 1)] if what == "loss" else []), batch_size=2)
    states: list[object] = []

    class Save(Watch):
        def stepped(self, position: Position) -> None:
            if what == "weights" and position.step == 2:
                subject.network.head.weight.data[0, 0] = math.inf
            states.append(subject.state())

    with pytest.raises(EngramError, match="epoch 1, step 2"):
        subject.learn(lesson(), Save())
    assert len(states) == 1


def test_only_the_first_task_sets_the_standard() -> None:
    subject = method()
    subject.learn(lesson(0), Watch())
    shift, scale = subject.network.shift.clone(), subject.network.scale.clone()
    assert shift.any()
    later = lesson(1)
    subject.learn(Lesson(1, later.x * 50 + 7, later.y, 3), Watch())
    assert torch.equal(subject.network.shift, shift)
    assert torch.equal(subject.network.scale, scale)


def test_the_head_grows_to_the_lessons_width() -> None:
    subject = method(width=0)
    subject.learn(lesson(0, width=2, classes=(0, 1)), Watch())
    assert subject.scores(lesson().x).shape == (30, 2)
    subject.learn(lesson(1, width=4, classes=(2, 3)), Watch())
    assert subject.scores(lesson().x).shape == (30, 4)


def test_learning_leaves_torchs_own_numbers_alone() -> None:
    before = torch.get_rng_state()
    method_before = method()
    torch.set_rng_state(before)
    method_before.learn(lesson(), Watch())
    assert torch.equal(torch.get_rng_state(), before)


def test_an_ingredients_own_module_is_trained_clipped_and_restored() -> None:
    class Owner(Ingredient):
        def __init__(self) -> None:
            self.module = nn.Linear(8, 1, bias=False)
            nn.init.ones_(self.module.weight)

        def modules(self) -> dict[str, nn.Module]:
            return {"own": self.module}

        def loss(self, loss: Tensor, batch: Batch, step: Step) -> Tensor:
            return loss + self.module(batch.features).square().mean()

    owner, other = Owner(), Owner()
    subject = method(owner)
    subject.learn(lesson(), Watch())
    assert (owner.module.weight != 1).any()
    twin = method(other)
    twin.restore(subject.state())
    assert torch.equal(other.module.weight, owner.module.weight)


class Stop(Watch):
    def __init__(self, subject: GradientMethod, after: int) -> None:
        self.subject, self.left = subject, after

    def stepped(self, position: Position) -> None:
        self.left -= 1
        if not self.left:
            self.state = self.subject.state()
            self.state.tensors = {name: tensor.clone() for name, tensor in self.state.tensors.items()}
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [1, 4, 5, 12])
def test_a_restored_state_goes_on_bit_for_bit(after: int) -> None:
    whole = method(OWMIngredient(OWMSettings()))
    whole.learn(lesson(0), Watch())
    whole.learn(lesson(1), Watch())

    part = method(OWMIngredient(OWMSettings()))
    part.learn(lesson(0), Watch())
    stop = Stop(part, after)
    with pytest.raises(KeyboardInterrupt):
        part.learn(lesson(1), stop)
    resumed = method(OWMIngredient(OWMSettings()))
    resumed.restore(stop.state)
    resumed.learn(lesson(1), Watch())
    assert all(map(torch.equal, weights(resumed), weights(whole)))
    assert resumed.traces() == whole.traces()


def test_an_epoch_of_which_no_step_is_left_has_no_loss_to_tell() -> None:
    told: list[int] = []
    subject, task = method(epochs=2), lesson()
    training = subject.begin(task)
    training.step = 4  # of 4: as a checkpoint has it that was written after the first epoch's last step
    subject.training = training

    class Listening(Watch):
        def epoch_ended(self, epoch: int, epochs: int, loss: float) -> None:
            assert loss > 0
            told.append(epoch)

    subject.learn(task, Listening())
    assert told == [1]
