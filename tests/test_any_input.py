"""Whatever is handed to a Learner, it learns it or says why not in an error of its own."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from engram import Learner, recipe
from engram.errors import EngramError

NUMBERS = st.one_of(
    st.floats(width=32),
    st.floats(),
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.none(),
    st.text(max_size=4),
    st.binary(max_size=3),
    st.complex_numbers(),
    st.dates(),
)
DTYPES = st.one_of(
    nps.boolean_dtypes(),
    nps.integer_dtypes(),
    nps.unsigned_integer_dtypes(),
    nps.floating_dtypes(),
    nps.complex_number_dtypes(),
    nps.datetime64_dtypes(),
    nps.timedelta64_dtypes(),
    nps.byte_string_dtypes(),
    nps.unicode_string_dtypes(),
    st.just(np.dtype(object)),
)


def arrays(least: int, most: int, side: int) -> st.SearchStrategy[np.ndarray]:
    shapes = nps.array_shapes(min_dims=least, max_dims=most, min_side=0, max_side=side)
    return DTYPES.flatmap(lambda dtype: nps.arrays(dtype, shapes, elements=NUMBERS if dtype.kind == "O" else None))


ANYTHING = st.one_of(
    arrays(0, 5, 6),
    nps.arrays(
        st.sampled_from([np.uint8, np.float32, np.float64]), nps.array_shapes(min_dims=2, max_dims=4, max_side=9)
    ),
    st.recursive(NUMBERS, lambda inner: st.lists(inner, max_size=5), max_leaves=12),
    st.lists(st.text(max_size=5), max_size=5),
    st.sampled_from([None, 3, "abc", {}, {1, 2}, object(), torch.ones(4, 3), torch.empty(0), range(4)]),
)
LABELS = st.one_of(
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6),
    st.lists(st.integers(-3, 3), min_size=1, max_size=6),
    st.lists(NUMBERS, max_size=6),
    arrays(0, 2, 6),
    st.just(None),
)
CHEAP = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
TINY = recipe("analytic", analytic={"width": 8, "filters": 4})


def said_or_done(call: Any) -> bool:
    """Whether it was done; another exception than an EngramError fails the test."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            call()
        except EngramError:
            return False
    return True


@CHEAP
@given(x=ANYTHING, y=LABELS)
def test_anything_as_samples_and_labels(x: Any, y: Any) -> None:
    learner = Learner(TINY)
    if said_or_done(lambda: learner.fit(x, y)):
        assert learner.predict(x).shape == (len(x),)
        np.testing.assert_allclose(learner.predict_proba(x).sum(1), 1)
    else:
        assert not hasattr(learner, "method_")


@CHEAP
@given(data=st.data())
def test_samples_of_any_shape_that_have_as_many_labels(data: st.DataObject) -> None:
    """Most of what `ANYTHING` makes is refused for its labels; here they fit."""
    x = data.draw(arrays(1, 4, 9))
    y = data.draw(nps.arrays(np.int64, len(x), elements=st.integers(0, 3)))
    learner = Learner(TINY)
    if said_or_done(lambda: learner.fit(x, y)):
        assert set(learner.predict(x).tolist()) <= set(y.tolist())


@CHEAP
@given(x=ANYTHING, y=LABELS, classes=st.one_of(st.none(), LABELS))
def test_anything_after_a_first_task(x: Any, y: Any, classes: Any) -> None:
    first = np.arange(12.0).reshape(4, 3)
    learner = Learner(TINY).partial_fit(first, ["a", "b", "a", "b"])
    before = learner.predict_proba(first)
    if not said_or_done(lambda: learner.partial_fit(x, y, classes)):
        np.testing.assert_array_equal(learner.predict_proba(first), before)
    for call in (learner.predict, learner.predict_proba, learner.features, learner.generate):
        said_or_done(lambda call=call: call(x))
    said_or_done(lambda: learner.forget(x, y))
    said_or_done(lambda: learner.forget(classes=classes))


@pytest.mark.parametrize("name", ["recipe", "epochs", "seed", "precision", "device", "network"])
@settings(max_examples=25, deadline=None)
@given(
    value=st.one_of(
        NUMBERS, st.lists(NUMBERS, max_size=2), st.sampled_from([{}, object(), np.ones(2), "cpu:7", "cuda"])
    )
)
def test_anything_as_a_parameter(name: str, value: Any) -> None:
    learner = Learner(TINY).set_params(**{name: value})
    said_or_done(lambda: learner.fit(np.arange(12.0).reshape(4, 3), [0, 1, 0, 1]))
