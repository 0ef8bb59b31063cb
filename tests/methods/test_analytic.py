"""Closed-form learning as its users see it: order, forgetting, merging, own networks, files."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from engram import Learner
from engram.closed_form.holdout import held_out
from engram.errors import EngramError, FileError, InputError
from engram.learner import NotFittedError
from engram.lesson import Position, Watch
from engram.recipes import Recipe, recipe

KINDS = ["analytic", "lda", "ncm"]
Data = tuple[np.ndarray, np.ndarray]


def small(name: str = "analytic", **head: Any) -> Recipe:
    return recipe(name, analytic={"filters": 6, "width": 20, "flips": "no"}, head={"rows": 16} | head)


def table(*labels: int, rows: int = 60, seed: int = 0) -> Data:
    random = np.random.default_rng([seed, len(labels)])
    y = np.asarray(labels)[np.arange(rows) % len(labels)]
    centres = {label: np.random.default_rng(label).normal(size=5) for label in labels}
    return np.stack([2 * centres[label] for label in y.tolist()]) + random.normal(size=(rows, 5)), y


def both(*parts: Data) -> Data:
    x, y = zip(*parts, strict=True)
    return np.concatenate(x), np.concatenate(y)


def learnt(*tasks: Data, name: str = "analytic", **head: Any) -> Learner:
    learner = Learner(small(name, **head))
    for task in tasks:
        learner.partial_fit(*task)
    return learner


FIRST, SECOND, THIRD = table(0, 1), table(2, 3, seed=1), table(4, 0, seed=2)
X = both(FIRST, SECOND, THIRD)[0]


def assert_alike(one: Learner, other: Learner, x: np.ndarray = X) -> None:
    assert one.classes_.tolist() == other.classes_.tolist()
    np.testing.assert_allclose(one.predict_proba(x), other.predict_proba(x), rtol=1e-5, atol=1e-7)


# --- order ---


@pytest.mark.parametrize("name", KINDS)
def test_given_the_first_task_order_grouping_and_number_of_the_others_change_nothing(name: str) -> None:
    wanted = learnt(FIRST, SECOND, THIRD, name=name)
    assert_alike(learnt(FIRST, THIRD, SECOND, name=name), wanted)
    assert_alike(learnt(FIRST, both(SECOND, THIRD), name=name), wanted)
    x, y = both(THIRD, SECOND)
    shuffled = np.random.default_rng(0).permutation(len(y))
    assert_alike(learnt(FIRST, (x[shuffled], y[shuffled]), name=name), wanted)
    turned = FIRST[0][::-1], FIRST[1][::-1]
    assert_alike(learnt(turned, SECOND, THIRD, name=name), wanted)
    assert_alike(Learner(small(name)).partial_fit(*FIRST, [4, 3, 2, 1, 0]).partial_fit(x, y), wanted)


def test_samples_may_come_one_at_a_time_and_classes_come_again() -> None:
    one_by_one = [(x[None], y[None]) for x, y in zip(*SECOND, strict=True)]
    assert_alike(learnt(FIRST, *one_by_one, FIRST), learnt(FIRST, both(SECOND, FIRST)))


@pytest.mark.parametrize("inputs", [np.ones((1, 4)), np.arange(64.0).reshape(1, 8, 8), np.zeros((1, 3, 5, 5))])
@pytest.mark.parametrize("name", KINDS)
def test_a_first_task_of_one_sample_is_learnt(inputs: np.ndarray, name: str) -> None:
    learner = learnt((inputs, np.array(["a"])), name=name)
    assert learner.predict_proba(inputs).tolist() == [[1.0]]
    learner.partial_fit(inputs + 1, ["b"]).partial_fit(np.repeat(inputs, 20, 0), ["b"] * 20)
    assert np.isfinite(learner.predict_proba(inputs)).all()


@pytest.mark.parametrize("image", [True, False])
def test_digits_in_five_tasks_are_learnt_as_well_as_at_once(image: bool) -> None:
    x, y = load_digits(return_X_y=True)
    x = x.reshape(-1, 8, 8) if image else x
    train = np.arange(len(y)) % 3 > 0
    accuracy = []
    for groups in ([[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]], [range(10)]):
        learner = Learner()
        for group in groups:
            rows = train & np.isin(y, group)
            learner.partial_fit(x[rows], y[rows], classes=range(10))
        accuracy.append(learner.score(x[~train], y[~train]))
    assert min(accuracy) > 0.95
    assert learner.measures()["ridge"] > 0


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("after", [1, 3])
def test_a_task_goes_on_bit_for_bit_where_it_was_left(name: str, after: int) -> None:
    learner = learnt(FIRST, name=name)

    class Interrupt(Watch):
        def stepped(self, position: Position) -> None:
            assert position.steps == 4
            if position.step == after:
                self.state = copy.deepcopy(learner.state())
                raise KeyboardInterrupt

    watch = Interrupt()
    with pytest.raises(KeyboardInterrupt):
        learner.learn(*SECOND, None, watch)
    assert_alike(learner, learnt(FIRST, name=name))
    resumed = Learner(small(name))
    resumed.restore(watch.state)
    with pytest.raises(InputError, match="A task is under way"):
        resumed.forget(*FIRST)
    whole, resumed = learnt(FIRST, SECOND, name=name), resumed.partial_fit(*SECOND)
    assert all(torch.equal(tensor, whole.state().tensors[name]) for name, tensor in resumed.state().tensors.items())
    assert np.array_equal(whole.predict_proba(X), resumed.predict_proba(X))


# --- forgetting ---


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("memory", [0, 64])
def test_forgotten_samples_have_never_been_learnt(name: str, memory: int) -> None:
    x, y = SECOND
    gone = np.arange(len(y)) % 3 == 0
    wanted = learnt(FIRST, (x[~gone], y[~gone]), THIRD, name=name, class_memory=memory)
    forgetful = learnt(FIRST, SECOND, THIRD, name=name, class_memory=memory)
    assert_alike(forgetful.forget(x[gone], y[gone]), wanted)


@pytest.mark.parametrize("name", KINDS)
def test_a_forgotten_class_has_never_been_learnt_and_can_be_learnt_again(name: str) -> None:
    x, y = SECOND
    wanted = learnt(FIRST, (x[y == 3], y[y == 3]), name=name)
    forgetful = learnt(FIRST, SECOND, name=name).forget(classes=[2])
    assert forgetful.classes_.tolist() == [0, 1, 3]
    assert_alike(forgetful, wanted)
    assert_alike(forgetful.partial_fit(x[y == 2], y[y == 2]), learnt(FIRST, SECOND, name=name))
    by_samples = learnt(FIRST, SECOND, name=name, class_memory=0).forget(x[y == 2], y[y == 2])
    assert_alike(by_samples, wanted)


def test_an_announced_class_that_is_forgotten_counts_as_not_learnt() -> None:
    learner = Learner(small()).partial_fit(*FIRST, [0, 1, 2, 3]).partial_fit(*SECOND).forget(classes=[1])
    assert learner.classes_.tolist() == [0, 1, 2, 3]
    assert not learner.predict_proba(X)[:, 1].any()
    assert 1 not in learner.predict(FIRST[0])
    rows = FIRST[1] == 1
    assert 1 in learner.partial_fit(FIRST[0][rows], FIRST[1][rows]).predict(FIRST[0])


def test_a_class_without_products_of_its_own_is_forgotten_only_as_far_as_was_asked() -> None:
    learner = learnt(FIRST, SECOND, class_memory=0)
    before = learner.predict_proba(X)
    with pytest.raises(InputError, match=r"forget\(X, y\).*keep_products=True.*class_memory"):
        learner.forget(classes=[2])
    assert np.array_equal(learner.predict_proba(X), before)
    learner.forget(classes=[2], keep_products=True)
    assert learner.classes_.tolist() == [0, 1, 3]
    assert np.isfinite(learner.predict_proba(X)).all()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("memory", [0, 64])
@pytest.mark.parametrize("held", [False, True])
def test_whatever_few_samples_are_left_by_forgetting_are_answered_from(name: str, memory: int, held: bool) -> None:
    x, y = table(0, 1, rows=500)
    apart = held_out(torch.tensor(x, dtype=torch.float32)).numpy()
    for left in (apart if held else ~apart).nonzero()[0][:4]:
        gone = np.arange(len(y)) != left
        learner = learnt(FIRST, (x, y), name=name, class_memory=memory).forget(x[gone], y[gone]).forget(*FIRST)
        assert learner.predict_proba(X).tolist() == [[1.0]] * len(X)
    stays = apart if held else ~apart
    learner = learnt(FIRST, (x, y), name=name, class_memory=memory).forget(x[~stays], y[~stays]).forget(*FIRST)
    assert learner.score(x, y) > 0.8


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("copies", [3, 5, 50])
def test_equal_samples_of_two_classes_have_the_probabilities_of_their_numbers(name: str, copies: int) -> None:
    same = np.repeat(FIRST[0][3:4], copies, 0), np.arange(copies) % 2
    probabilities = learnt(FIRST, name=name).blank().partial_fit(*same).predict_proba(same[0][:1])
    assert 0.49 <= probabilities[0, 0] < 0.7


def test_whoever_has_forgotten_everything_can_start_again() -> None:
    learner = learnt(FIRST).forget(*FIRST)
    assert len(learner.classes_) == 0
    with pytest.raises(NotFittedError, match="knows no class now"):
        learner.predict(X)
    assert_alike(learner.partial_fit(*FIRST), learnt(FIRST))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda it: it.forget(FIRST[0], np.full(60, 9)), "Class 9 has not been learnt"),
        (lambda it: it.forget(classes=[9]), "Class 9 has not been learnt"),
        (lambda it: it.forget(*both(FIRST, FIRST)), "not all learnt"),
        (lambda it: it.forget(), "either X and y, or classes"),
        (lambda it: it.forget(*FIRST, classes=[0]), "either X and y, or classes"),
        (lambda it: it.forget(y=FIRST[1], classes=[0]), "either X and y, or classes"),
        (lambda it: it.forget(*FIRST, keep_products=True), "leave keep_products out"),
        (lambda it: it.merge("hospital"), "Only a Learner can be merged with another, not 'hospital'"),
        (lambda it: it.forget(FIRST[0][:, :2], FIRST[1]), "expecting 5 features"),
        (lambda it: it.merge(learnt(SECOND)), "different features"),
        (lambda it: it.merge(learnt((np.ones((4, 3)), np.arange(4)))), "different shapes"),
        (lambda it: it.encoder(), "trains no network"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence_and_changes_nothing(call: Any, sentence: str) -> None:
    learner = learnt(FIRST, SECOND)
    before = learner.predict_proba(X)
    with pytest.raises(InputError, match=sentence) as caught:
        call(learner)
    assert "\n" not in str(caught.value)
    assert np.array_equal(learner.predict_proba(X), before)


@pytest.mark.parametrize("wish", ["forget", "merge", "blank"])
def test_other_recipes_cannot_add_and_subtract(wish: str) -> None:
    other = Learner(recipe("finetune", network={"hidden": 8}), epochs=1).fit(*FIRST)
    calls: dict[str, Any] = {"forget": lambda: other.forget(*FIRST), "merge": lambda: other.merge(other)}
    with pytest.raises(InputError, match=f"'finetune' cannot {wish}: .* use 'analytic'"):
        calls.get(wish, other.blank)()


# --- merging ---


@pytest.mark.parametrize("name", KINDS)
def test_two_that_share_their_features_add_up_to_one_that_learnt_everything(name: str) -> None:
    here = learnt(FIRST, name=name)
    there = here.blank()
    with pytest.raises(NotFittedError):
        there.predict(X)
    there.partial_fit(*THIRD).partial_fit(*SECOND)
    here.merge(there)
    wanted = learnt(FIRST, SECOND, THIRD, name=name)
    assert_alike(here, wanted)
    assert_alike(here.partial_fit(*SECOND), wanted.partial_fit(*SECOND))


def test_a_blank_goes_through_a_file_and_leaves_the_other_alone(tmp_path: Any) -> None:
    here = learnt(FIRST)
    before = here.predict_proba(X)
    here.blank().save(tmp_path / "blank")
    there = Learner.load(tmp_path / "blank", small()).partial_fit(*SECOND)
    assert np.array_equal(here.predict_proba(X), before)
    assert_alike(here.merge(there), learnt(FIRST, SECOND))


def test_announced_classes_merge_by_their_names() -> None:
    here = Learner(small()).partial_fit(*FIRST, [0, 1, 2, 3])
    there = here.blank().partial_fit(*SECOND)
    assert_alike(here.merge(there), Learner(small()).partial_fit(*FIRST, [0, 1, 2, 3]).partial_fit(*SECOND))
    stranger = Learner(small()).partial_fit(*FIRST).blank().partial_fit(*THIRD)
    with pytest.raises(InputError, match="Class 4 was not among the classes"):
        here.merge(stranger)


# --- networks of one's own ---


class Net(nn.Module):
    """With layers that behave otherwise in training, and an output that is not flat."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = nn.Sequential(nn.Linear(5, 12), nn.BatchNorm1d(12), nn.Dropout(0.5), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dtype == torch.float32
        return self.layers(x).unflatten(1, (3, 4))


def test_a_network_of_ones_own_gives_the_features_and_is_never_changed() -> None:
    net = Net()
    before = copy.deepcopy(net.state_dict())
    learner = Learner(small(), network=net).partial_fit(*FIRST).partial_fit(*SECOND)
    assert net.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    raw = net.eval()(torch.tensor(X, dtype=torch.float32)).flatten(1).detach().numpy()
    found = learner.features(X)
    assert found.shape == (len(X), 12)
    slopes = [np.polyfit(raw[:, i], found[:, i], 1, full=True)[1] for i in range(12)]
    assert max(float(residual[0]) for residual in slopes) < 1e-6
    assert learner.score(*both(FIRST, SECOND)) > 0.7


def test_a_file_needs_the_very_network_again(tmp_path: Any) -> None:
    learner = Learner(small(), network=Net()).fit(*FIRST)
    learner.save(tmp_path / "model")
    loaded = Learner.load(tmp_path / "model", small(), network=Net())
    assert np.array_equal(loaded.predict_proba(X), learner.predict_proba(X))
    other = Net()
    nn.init.ones_(other.get_parameter("layers.0.weight"))
    for network, sentence in ((None, "give it again"), (other, "another network")):
        with pytest.raises(FileError, match=sentence):
            Learner.load(tmp_path / "model", small(), network=network)
    Learner(small()).fit(*FIRST).save(tmp_path / "plain")
    with pytest.raises(FileError, match=r"cannot be loaded like this: .*leave `network` out"):
        Learner.load(tmp_path / "plain", small(), network=Net())


def test_a_file_is_read_with_its_own_recipe_only(tmp_path: Any) -> None:
    Learner(small("ncm")).fit(*FIRST).save(tmp_path / "model")
    assert np.array_equal(
        Learner.load(tmp_path / "model", "ncm").predict(X), Learner(small("ncm")).fit(*FIRST).predict(X)
    )
    with pytest.raises(FileError, match="learnt with the recipe 'ncm' and not with 'lda'"):
        Learner.load(tmp_path / "model", recipe("lda"))


def test_a_trained_network_lends_its_features() -> None:
    trained = Learner(recipe("finetune", network={"hidden": 16}, training={"epochs": 3}), precision="float32")
    trained.fit(*both(FIRST, SECOND))
    learner = Learner(small(), network=trained.encoder(), precision="float32").fit(*FIRST)
    found, own = learner.features(X), trained.features(X)
    varying = own.std(0) > 0.1
    correlations = [np.corrcoef(found[:, i], own[:, i])[0, 1] for i in np.flatnonzero(varying)]
    assert np.allclose(correlations, 1, atol=1e-4)
    before = learner.predict_proba(X)
    trained.partial_fit(*THIRD)
    assert np.array_equal(learner.predict_proba(X), before)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"network": "resnet"}, "network must be a torch.nn.Module, not 'resnet'"),
        ({"recipe": "dgm", "network": nn.Flatten()}, "leave `network` out"),
        ({"epochs": 3}, "'analytic' has no epochs to set: leave epochs out"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Learner(**parameters).fit(*FIRST)


class Map(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (lambda x: x / 0, "not finite"),
        (nn.LazyLinear(3), "lazy layers that have not seen inputs yet: call it on some first"),
        (lambda x: (x, x), "a row for each of 60 samples, not a tuple"),
        (lambda x: x.mean(0), r"a row for each of 60 samples, not one of the shape \(5,\)"),
        (lambda x: x.mean(), "a row for each of 60 samples"),
        (lambda x: x[:, :0], r"not one of the shape \(60, 0\)"),
        (lambda x: x @ torch.ones(7, 2), r"failed on inputs of 60 x 5 \(RuntimeError: mat1 .*check what it takes"),
        (lambda x: {}["layer\nand more"], r"failed on inputs of 60 x 5 \(KeyError"),
    ],
)
def test_a_network_that_gives_no_features_is_refused(function: Any, sentence: str) -> None:
    learner = Learner(network=Map(function))
    with pytest.raises(EngramError, match=sentence) as caught:
        learner.fit(*FIRST)
    assert "\n" not in str(caught.value)
    assert not hasattr(learner, "method_")


def test_a_network_may_give_one_number_a_sample() -> None:
    assert Learner(small(), network=Map(lambda x: x.sum(1))).fit(*FIRST).features(X).shape == (len(X), 1)


def test_features_that_are_no_numbers_never_come_into_the_sums_nor_into_an_answer() -> None:
    learner = Learner(small(), network=Map(lambda x: torch.where(x > 100, torch.nan, x))).fit(*FIRST)
    before = learner.predict_proba(X)
    for call in (learner.predict, learner.predict_proba, lambda x: learner.partial_fit(x, [2])):
        with pytest.raises(EngramError, match="not finite"):
            call(np.full((1, 5), 101.0))
    assert np.array_equal(learner.predict_proba(X), before)


@pytest.mark.parametrize("change", ["weights", "parameters"])
def test_a_fitted_learner_stays_what_it_is_when_the_network_or_the_parameters_change(change: str) -> None:
    net = Net()
    learner = Learner(small(), network=net).fit(*FIRST)
    before = learner.predict_proba(X)
    if change == "weights":
        nn.init.ones_(net.get_parameter("layers.0.weight"))
    else:
        learner.set_params(network=None, recipe="ncm", seed=5)
    twins = [copy.deepcopy(learner), pickle.loads(pickle.dumps(learner)), learner.blank().merge(learner)]
    with pytest.raises(InputError, match="expecting 5 features"):
        learner.partial_fit(X[:, :2], np.zeros(len(X)))
    for twin in (learner, *twins):
        np.testing.assert_allclose(twin.predict_proba(X), before, rtol=1e-9)
        assert twin.state().meta["recipe"] == "analytic"


def test_a_network_is_told_by_its_parameters_and_buffers_whatever_else_its_state_is() -> None:
    class Extra(Net):
        def get_extra_state(self) -> Any:
            return {"epoch": 3}

    learner = Learner(small(), network=Extra()).fit(*FIRST)
    assert np.array_equal(copy.deepcopy(learner).predict_proba(X), learner.predict_proba(X))


def test_the_nearest_mean_takes_no_regulariser() -> None:
    with pytest.raises(InputError, match="no regulariser: leave ridge out"):
        small("ncm", ridge=0.1)
