import copy
import gc
import math
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.exceptions
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from engram import Learner, files
from engram.errors import EngramError, FileError, InputError
from engram.learner import NotFittedError
from engram.lesson import Position, Watch
from engram.recipes import Recipe, recipe


def tiny(name: str = "owm", **training: Any) -> Recipe:
    network = {"filters": (4, 6, 8), "hidden": 16}
    return recipe(name, network=network, training={"epochs": 2, "batch_size": 8, **training})


def table(labels: Any = (0, 1), samples: int = 24, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    y = np.asarray(labels)[np.arange(samples) % len(labels)]
    return np.random.default_rng(seed).normal(size=(samples, 5)) + 3 * (np.arange(samples) % len(labels))[:, None], y


def learnt(name: str = "owm") -> Learner:
    return Learner(tiny(name)).partial_fit(*table((0, 1))).partial_fit(*table((2, 3), seed=1))


def same(first: Learner, second: Learner) -> bool:
    x, _ = table()
    alike = np.array_equal(first.predict_proba(x), second.predict_proba(x))
    return alike and first.classes_.tolist() == second.classes_.tolist()


# --- learning ---------------------------------------------------------------------------------------------------------


@cache
def digits_accuracy(name: str) -> tuple[float, float]:
    """Accuracy on all digits and on those of the first task, after five tasks of two."""
    x, y = load_digits(return_X_y=True)
    train = np.arange(len(y)) % 3 > 0
    chosen = recipe(name, network={"hidden": 200}, training={"epochs": 10, "batch_size": 32})
    learner = Learner(chosen, precision="float32")
    for first in range(0, 10, 2):
        rows = train & np.isin(y, [first, first + 1])
        learner.partial_fit(x[rows], y[rows], classes=range(10))
    first_task = ~train & (y < 2)
    return float(learner.score(x[~train], y[~train])), float(learner.score(x[first_task], y[first_task]))


def test_digits_in_five_tasks_rank_the_recipes_as_they_should() -> None:
    joint, owm, finetune = (digits_accuracy(name)[0] for name in ("joint", "owm", "finetune"))
    assert joint > 0.93
    assert owm > finetune + 0.15
    assert finetune < 0.4


def test_owm_still_knows_the_first_task_and_finetune_does_not() -> None:
    assert digits_accuracy("owm")[1] > 0.5
    assert digits_accuracy("finetune")[1] < 0.2


@pytest.mark.parametrize("name", ["finetune", "owm", "joint"])
def test_one_task_is_learnt(name: str) -> None:
    x, y = table((0, 1, 2), 90)
    assert Learner(tiny(name), epochs=20).fit(x, y).score(x, y) > 0.8


def test_the_same_seed_gives_the_same_numbers_whatever_else_draws() -> None:
    first = learnt()
    torch.rand(5)
    assert same(learnt(), first)
    x, y = table()
    assert not np.array_equal(
        Learner(tiny(), seed=1).fit(x, y).predict_proba(x), Learner(tiny(), seed=2).fit(x, y).predict_proba(x)
    )
    assert same(Learner(tiny(), seed=np.int64(3)).fit(x, y), Learner(tiny(), seed=3).fit(x, y))  # pyright: ignore


def test_torchs_own_numbers_are_left_alone() -> None:
    learner = Learner(tiny())
    before = torch.get_rng_state()
    learner.partial_fit(*table()).predict(table()[0])
    copy.deepcopy(learner)
    assert torch.equal(torch.get_rng_state(), before)


def test_fit_starts_anew() -> None:
    learner = learnt()
    learner.fit(*table(("a", "b")))
    assert same(learner, Learner(tiny()).fit(*table(("a", "b"))))


def test_epochs_may_be_given_apart_from_the_recipe() -> None:
    assert Learner(tiny(), epochs=5).fit(*table()).recipe_.training.epochs == 5
    assert Learner(tiny()).fit(*table()).recipe_.training.epochs == 2


def test_nothing_of_the_data_is_kept() -> None:
    x, y = table(samples=137)
    gone = [weakref.ref(x), weakref.ref(y)]
    learner = Learner(tiny()).partial_fit(x, y)
    del x, y
    gc.collect()
    assert [each() for each in gone] == [None, None]
    assert all(137 not in tensor.shape for tensor in learner.state().tensors.values())


# --- labels -----------------------------------------------------------------------------------------------------------

LABELS: list[tuple[Any, Any]] = [
    ((0, 1), (2, 3)),
    ((7, 3), (5, 1)),
    ((-1, 1), (-7, 0)),
    (("b", "a"), ("ccc", "Z")),
    ((1.0, 2.0), (3.0, 0.0)),
    ((False, True), (False, True)),
    (np.array([200, 100], np.uint8), np.array([255, 0], np.uint8)),
    (np.array(["x", "yy"], object), np.array(["w", "z"], object)),
]


@pytest.mark.parametrize(("first", "second"), LABELS)
@pytest.mark.parametrize("announce", [True, False])
@pytest.mark.parametrize("as_list", [True, False])
def test_labels_come_back_as_they_went_in(first: Any, second: Any, announce: bool, as_list: bool) -> None:
    learner = Learner(tiny())
    everything = sorted({*np.asarray(first).tolist(), *np.asarray(second).tolist()})
    for index, labels in enumerate((first, second)):
        x, y = table(labels, seed=index)
        classes = everything if announce and index == 0 else None
        learner.partial_fit(x, y.tolist() if as_list else y, classes=classes)
        seen = set(np.asarray(first).tolist()) | (set(np.asarray(second).tolist()) if index else set())
        assert learner.classes_.tolist() == (everything if announce else sorted(seen))
        assert set(learner.predict(x).tolist()) <= seen
    x, _ = table(second, seed=1)
    found = learner.predict(x)
    assert found.dtype.kind == learner.classes_.dtype.kind
    assert (found.dtype.kind == "U") == isinstance(everything[0], str)
    probabilities = learner.predict_proba(x)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert learner.classes_[probabilities.argmax(1)].tolist() == found.tolist()
    assert learner.score(x, found) == 1


@pytest.mark.parametrize("classes", [None, [5, 7, 1, 3]])
def test_scores_find_the_way_to_their_labels_in_any_order(classes: Any) -> None:
    learner, random = Learner(tiny("joint"), epochs=15), np.random.default_rng(0)
    x, y = random.normal(size=(120, 8)), np.array([7, 3, 5, 1]).repeat(30)
    x[np.arange(120), y] += 6
    for task in (slice(0, 60), slice(60, 120)):
        learner.partial_fit(x[task], y[task], classes=classes)
        classes = None
    assert learner.score(x, y) > 0.9
    assert (learner.predict_proba(x)[np.arange(120), (y - 1) // 2] > 0.5).mean() > 0.9


def test_longer_strings_later_are_not_cut() -> None:
    learner = Learner(tiny()).partial_fit(*table(("a", "b"))).partial_fit(*table(("b", "a long name")))
    assert learner.classes_.tolist() == ["a", "a long name", "b"]


def test_announced_classes_that_were_not_learnt_have_no_probability() -> None:
    x, y = table((3, 1))
    learner = Learner(tiny()).partial_fit(x, y, classes=[3, 2, 1, 0])
    assert learner.classes_.tolist() == [0, 1, 2, 3]
    assert learner.method_.scores(torch.zeros(1, 5)).shape == (1, 4)
    probabilities = learner.predict_proba(x)
    assert not probabilities[:, [0, 2]].any()
    assert (probabilities[:, [1, 3]] > 0).all()
    learner.partial_fit(*table((0, 2)))
    assert (learner.predict_proba(x) > 0).all()


def test_growing_changes_nothing_that_was_learnt() -> None:
    learner = Learner(tiny(learning_rate=1e-12)).partial_fit(*table((5, 2)))
    x = torch.tensor(table()[0], dtype=torch.float32)
    before = learner.method_.scores(x)
    learner.partial_fit(*table((1, 9), seed=1))
    assert learner.method_.scores(x).shape == (24, 4)
    torch.testing.assert_close(learner.method_.scores(x)[:, :2], before)


@pytest.mark.parametrize("classes", [None, ["a", "b", "c"]])
def test_single_class_tasks(classes: Any) -> None:
    learner = Learner(tiny())
    for index, label in enumerate("acb"):
        x, y = table((label,), seed=index)
        learner.partial_fit(x, y, classes=classes)
        assert set(learner.predict(x)) <= set("acb"[: index + 1])
    assert learner.classes_.tolist() == ["a", "b", "c"]


def test_more_of_a_known_class_adds_no_column() -> None:
    learner = Learner(tiny()).partial_fit(*table((0, 1)))
    learner.partial_fit(*table((1, 2), seed=1))
    learner.partial_fit(*table((0,), seed=2))
    assert learner.classes_.tolist() == [0, 1, 2]
    assert learner.predict_proba(table()[0]).shape == (24, 3)


def test_integers_and_whole_floats_are_the_same_class() -> None:
    learner = Learner(tiny()).partial_fit(*table((0, 1))).partial_fit(*table((1.0, 2.0)))
    assert learner.classes_.tolist() == [0, 1, 2]


# --- inputs -----------------------------------------------------------------------------------------------------------


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (16, *shape)).astype(np.uint8)


def test_the_same_images_in_other_layouts_and_types_teach_the_same() -> None:
    y = np.arange(16) % 2
    last = images(6, 7, 3)
    first = np.ascontiguousarray(last.transpose(0, 3, 1, 2))
    views = [first, last.astype(float), first.astype(np.float32), last[:, ::-1][:, ::-1], torch.tensor(last)]
    wanted = Learner(tiny()).fit(last, y).predict_proba(last)
    for view in views:
        np.testing.assert_array_equal(Learner(tiny()).fit(view, y).predict_proba(view), wanted)


def test_grey_images_with_and_without_their_channel() -> None:
    y, x = np.arange(16) % 2, images(6, 7)
    wanted = Learner(tiny()).fit(x, y).predict_proba(x)
    np.testing.assert_array_equal(Learner(tiny()).fit(x[:, None], y).predict_proba(x[:, None]), wanted)
    np.testing.assert_array_equal(Learner(tiny()).fit(x[..., None], y).predict_proba(x[..., None]), wanted)


@pytest.mark.parametrize("convert", [np.ndarray.tolist, np.asfortranarray, lambda x: x.astype(object), torch.tensor])
def test_the_same_table_in_other_dresses_teaches_the_same(convert: Callable[[np.ndarray], Any]) -> None:
    x, y = table()
    assert same(Learner(tiny()).fit(convert(x), y.tolist()), Learner(tiny()).fit(x, y))


def test_read_only_inputs_are_not_written_to() -> None:
    x, y = table()
    x.flags.writeable = y.flags.writeable = False
    before = x.copy()
    Learner(tiny()).fit(x, y).predict(x)
    assert np.array_equal(x, before)


def test_features_are_what_the_head_sees() -> None:
    learner, x = learnt(), table()[0]
    found = learner.features(x)
    assert found.shape == (24, 16)
    assert (found >= 0).all()


@pytest.mark.parametrize("call", ["predict", "predict_proba", "features"])
@pytest.mark.parametrize(
    ("x", "wanted"),
    [(np.zeros((2, 4)), "4 features"), (np.zeros((2, 5, 5)), "table inputs of 5"), ([[0, 0, 0, 0, np.nan]], "NaN")],
)
def test_prediction_checks_its_inputs(call: str, x: Any, wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        getattr(learnt(), call)(x)


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        ({"recipe": "own"}, "did you mean 'owm'"),
        ({"recipe": 5}, "recipe must be a name"),
        ({"recipe": None}, "recipe must be a name"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1, not 0"),
        ({"epochs": 2.5}, "epochs"),
        ({"epochs": "3"}, "epochs"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"seed": 1.5}, "seed"),
        ({"seed": None}, "seed"),
        ({"seed": True}, "seed"),
        ({"device": "tpu"}, "no device 'tpu': use auto, cpu or cuda"),
        ({"device": "meta"}, "runs on cpu and cuda"),
        ({"device": None}, "no device None"),
        ({"precision": "half"}, "no precision 'half': use auto, float32 or bfloat16"),
        ({"precision": None}, "no precision"),
    ],
)
@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_a_bad_parameter_is_refused_before_training(parameters: dict[str, Any], wanted: str, call: str) -> None:
    learner = Learner().set_params(**({"recipe": tiny()} | parameters))
    with pytest.raises(InputError, match=wanted) as caught:
        getattr(learner, call)(*table())
    assert "\n" not in str(caught.value)
    with pytest.raises(NotFittedError):
        learner.predict(table()[0])


X, Y = table()
BAD_FIRST: list[tuple[Any, ...]] = [
    (X, Y[:-1]),
    (X[:, 0], Y),
    (X * np.nan, Y),
    (X[:0], Y[:0]),
    (X, Y + 0.5),
    (X, [*Y[:-1], "a"]),
    (X, None),
    (None, Y),
    (np.zeros((24, 2, 5, 5)), Y),
    (X, Y, [0]),
    (X, Y, ["a", "b"]),
    (X, Y, [0, 0, 1]),
    (X, Y, []),
]


@pytest.mark.parametrize("arguments", BAD_FIRST)
def test_a_bad_first_call_leaves_the_learner_unfitted(arguments: tuple[Any, ...]) -> None:
    learner = Learner(tiny())
    before = set(vars(learner))
    with pytest.raises(InputError) as caught:
        learner.partial_fit(*arguments)
    assert "\n" not in str(caught.value)
    assert set(vars(learner)) == before
    assert same(learner.partial_fit(X, Y), Learner(tiny()).partial_fit(X, Y))


BAD_LATER: list[tuple[Any, ...]] = [
    *BAD_FIRST[:9],
    (X, ["a", "b"] * 12),
    (X[:, :4], Y + 2),
    (X, Y + 2, [0, 1, 2]),
]


@pytest.mark.parametrize("arguments", BAD_LATER)
@pytest.mark.parametrize("name", ["owm", "joint"])
def test_a_bad_later_call_changes_nothing(arguments: tuple[Any, ...], name: str) -> None:
    learner = learnt(name)
    with pytest.raises(InputError):
        learner.partial_fit(*arguments)
    assert same(learner, learnt(name))
    following = table((8, 9), seed=5)
    assert same(learner.partial_fit(*following), learnt(name).partial_fit(*following))


def test_a_class_that_was_not_announced_is_refused() -> None:
    learner = Learner(tiny()).partial_fit(X, Y, classes=[0, 1, 2])
    with pytest.raises(InputError, match="Class 3 was not among the classes given at the first call"):
        learner.partial_fit(*table((2, 3)))
    assert learner.table_.seen == [0, 1]
    learner.partial_fit(*table((2,)), classes=[2, 1, 0])
    assert learner.table_.seen == [0, 1, 2]


def test_a_fit_that_is_refused_keeps_what_was_learnt() -> None:
    learner = learnt()
    with pytest.raises(InputError):
        learner.fit(X * np.nan, Y)
    assert same(learner, learnt())


@pytest.mark.parametrize(
    "call", [lambda x: x.predict(X), lambda x: x.predict_proba(X), lambda x: x.features(X), lambda x: x.score(X, Y)]
)
def test_nothing_can_be_asked_before_fitting(call: Callable[[Learner], Any]) -> None:
    with pytest.raises(NotFittedError, match="has not learnt anything yet: call fit or partial_fit first") as caught:
        call(Learner(tiny()))
    assert isinstance(caught.value, ValueError | EngramError)
    assert isinstance(caught.value, sklearn.exceptions.NotFittedError)


@pytest.mark.parametrize("call", [Learner.projector_traces, Learner.state, lambda x: x.save("/nowhere/at/all")])
def test_nothing_can_be_stored_before_fitting(call: Callable[[Learner], Any]) -> None:
    with pytest.raises(NotFittedError):
        call(Learner(tiny()))


# --- interruption -----------------------------------------------------------------------------------------------------


class Interrupt(Watch):
    """Ctrl-C after so many steps; keeps the state of that moment, as a checkpoint would."""

    def __init__(self, learner: Learner, after: int) -> None:
        self.learner, self.left = learner, after

    def stepped(self, position: Position) -> None:
        self.left -= 1
        if not self.left:
            self.state = copy.deepcopy(self.learner.state())
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["finetune", "owm", "joint"])
@pytest.mark.parametrize("after", [1, 4])
def test_an_interrupted_task_leaves_the_learner_as_it_was(name: str, after: int) -> None:
    learner = learnt(name)
    with pytest.raises(KeyboardInterrupt):
        learner.learn(*table((8, 9), seed=5), None, Interrupt(learner, after))
    assert same(learner, learnt(name))
    assert learner.projector_traces() == learnt(name).projector_traces()
    other = table((3, 7), seed=6)
    assert same(learner.partial_fit(*other), learnt(name).partial_fit(*other))


def test_an_interrupted_first_task_leaves_the_learner_unfitted() -> None:
    learner = Learner(tiny())
    with pytest.raises(KeyboardInterrupt):
        learner.learn(X, Y, None, Interrupt(learner, 2))
    with pytest.raises(NotFittedError):
        learner.predict(X)
    assert same(learner.partial_fit(X, Y), Learner(tiny()).partial_fit(X, Y))


def test_a_task_whose_loss_explodes_leaves_the_learner_as_it_was() -> None:
    learner = Learner(tiny()).partial_fit(X, Y)
    before = learner.predict_proba(X)

    class Explode(Watch):
        def stepped(self, position: Position) -> None:
            for parameter in learner.method_.network.parameters():  # pyright: ignore[reportAttributeAccessIssue]
                parameter.data *= math.inf

    with pytest.raises(EngramError, match="no longer a finite number"):
        learner.learn(*table((2, 3)), None, Explode())
    np.testing.assert_array_equal(learner.predict_proba(X), before)


@pytest.mark.parametrize("name", ["finetune", "owm", "joint"])
@pytest.mark.parametrize("after", [1, 3, 6])
def test_a_state_from_the_middle_goes_on_bit_for_bit_and_only_with_the_same_data(name: str, after: int) -> None:
    data = table((8, 9), seed=5)
    learner = learnt(name)
    watch = Interrupt(learner, after)
    with pytest.raises(KeyboardInterrupt):
        learner.learn(*data, None, watch)
    resumed = Learner(tiny(name))
    resumed.restore(watch.state)
    for x, y in ((data[0] + 1, data[1]), (data[0], data[1][::-1]), (data[0][:16], data[1][:16])):
        with pytest.raises(InputError, match="A task is under way and this is other data"):
            resumed.partial_fit(x, y)
    whole = learnt(name).partial_fit(*data)
    assert same(resumed.partial_fit(*data), whole)
    assert resumed.projector_traces() == whole.projector_traces()
    following = table((4,), seed=7)
    assert same(resumed.partial_fit(*following), whole.partial_fit(*following))


# --- files and copies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["finetune", "owm", "joint"])
@pytest.mark.parametrize("copying", ["deepcopy", "save"])
def test_a_copy_is_equal_goes_on_equally_and_stands_alone(name: str, copying: str, tmp_path: Any) -> None:
    learner = learnt(name)
    if copying == "save":
        learner.save(tmp_path / "model")
        twin = Learner.load(tmp_path / "model")
    else:
        twin = copy.deepcopy(learner)
    assert same(twin, learner)
    following = table((8, 9), seed=5)
    twin.partial_fit(*following)
    assert same(learner, learnt(name))
    assert same(twin, learner.partial_fit(*following))
    assert twin.projector_traces() == learner.projector_traces()


@pytest.mark.parametrize(("first", "second"), LABELS)
def test_labels_survive_saving(first: Any, second: Any, tmp_path: Any) -> None:
    x, y = table(first)
    learner = Learner(tiny()).partial_fit(x, y)
    learner.save(tmp_path / "model")
    twin = Learner.load(tmp_path / "model")
    assert same(twin, learner)
    assert twin.classes_.dtype == learner.classes_.dtype
    assert same(twin.partial_fit(*table(second)), learner.partial_fit(*table(second)))


def test_an_unfitted_copy_is_unfitted() -> None:
    twin = copy.deepcopy(Learner(tiny(), seed=3))
    assert twin.seed == 3
    with pytest.raises(NotFittedError):
        twin.predict(X)


def test_a_file_of_another_kind_is_refused(tmp_path: Any) -> None:
    (tmp_path / "model").write_bytes(b"nonsense")
    with pytest.raises(FileError, match="model"):
        Learner.load(tmp_path / "model")


FORGED: list[Callable[[dict[str, Any], dict[str, Any]], Any]] = [
    lambda tensors, meta: meta.update(settings=None),
    lambda tensors, meta: meta.pop("classes"),
    lambda tensors, meta: meta["settings"].update({next(iter(meta["settings"])): 1}),
    lambda tensors, meta: meta["parameters"].update(seed="x"),
    lambda tensors, meta: [tensors.update({name: tensor.reshape(-1)}) for name, tensor in list(tensors.items())],
    lambda tensors, meta: [
        tensors.update({name: tensor[:-1]}) for name, tensor in list(tensors.items()) if tensor.ndim
    ],
    lambda tensors, meta: tensors.clear(),
]


@pytest.mark.parametrize("forge", FORGED)
@pytest.mark.parametrize("name", ["owm", "analytic"])
def test_a_forged_file_with_a_right_checksum_is_one_sentence(
    forge: Callable[[dict[str, Any], dict[str, Any]], Any], name: str, tmp_path: Path
) -> None:
    learner = learnt("owm") if name == "owm" else Learner().fit(*table((0, 1, 2)))
    learner.save(tmp_path / "model")
    tensors, meta = files.load(tmp_path / "model", "model")
    forge(tensors, meta)
    files.save(tmp_path / "model", tensors, meta, "model")
    with pytest.raises(FileError, match="model") as caught:
        Learner.load(tmp_path / "model")
    assert "\n" not in str(caught.value)


# --- scikit-learn -----------------------------------------------------------------------------------------------------


def test_parameters_are_scikit_learns() -> None:
    learner = Learner("finetune", epochs=3, seed=4)
    assert learner.get_params() == {
        "recipe": "finetune",
        "epochs": 3,
        "seed": 4,
        "precision": "auto",
        "device": "auto",
        "network": None,
        "embeddings": None,
    }
    assert learner.set_params(seed=9).seed == 9
    twin = clone(learner.fit(*table()))
    assert isinstance(twin, Learner)
    assert twin.get_params() == learner.get_params()
    with pytest.raises(NotFittedError):
        twin.predict(X)


def test_pipelines_and_cross_validation() -> None:
    x, y = table(("cat", "dog"), 60)
    scores = cross_val_score(make_pipeline(StandardScaler(), Learner(tiny(), epochs=8)), x, y, cv=3)
    assert scores.min() > 0.8


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("learner", [Learner(), Learner(tiny(), epochs=10)], ids=["default", "owm"])
def test_scikit_learns_own_checks(learner: Learner) -> None:
    expected = {"check_dtype_object": "wants a TypeError; ours are ValueErrors throughout"}
    check_estimator(learner, expected_failed_checks=expected, on_skip=None)


def test_a_head_that_outgrows_the_batch_goes_on_learning() -> None:
    rng = np.random.default_rng(0)
    learner = Learner(recipe("owm", network={"hidden": 8}), epochs=1)
    for first in (0, 3, 6):
        learner.partial_fit(rng.normal(size=(65, 5)), np.arange(65) % 3 + first)
    assert len(learner.classes_) == 9
