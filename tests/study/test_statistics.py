import math

import numpy as np
import pytest
from scipy.stats import t as student

from engram.study.statistics import Summary, compare, summarise

OURS, THEIRS = [0.56, 0.571, 0.549, 0.566], [0.54, 0.551, 0.537]


def test_mean_and_standard_error_by_hand() -> None:
    three = summarise([1.0, 2.0, 6.0])
    assert three is not None
    assert (three.mean, three.count) == (3.0, 3)
    assert three.error == pytest.approx(math.sqrt((4 + 1 + 9) / 2 / 3))
    assert summarise([0.5]) == Summary(0.5, None, 1)
    assert summarise([]) is None


def test_welchs_test_by_its_formula() -> None:
    variances = [np.var(values, ddof=1) / len(values) for values in (OURS, THEIRS)]
    t = (np.mean(OURS) - np.mean(THEIRS)) / math.sqrt(sum(variances))
    parts = [v**2 / (len(values) - 1) for v, values in zip(variances, (OURS, THEIRS), strict=True)]
    degrees = sum(variances) ** 2 / sum(parts)
    test = compare(OURS, THEIRS)
    assert test is not None
    assert test.t == pytest.approx(t)
    assert test.degrees == pytest.approx(degrees)
    assert test.p == pytest.approx(2 * student.sf(abs(t), degrees))
    assert test.difference == pytest.approx(np.mean(OURS) - np.mean(THEIRS))
    assert test.mark == "⋆"


@pytest.mark.parametrize(
    ("ours", "theirs", "mark"),
    [
        ([0.9, 0.91, 0.92], [0.5, 0.51, 0.52], "†"),
        ([0.5, 0.51, 0.52], [0.9, 0.91, 0.92], "†↓"),
        ([0.5, 0.51, 0.52], [0.5, 0.515, 0.521], ""),
    ],
)
def test_marks_are_the_papers_and_say_when_it_is_worse(ours: list[float], theirs: list[float], mark: str) -> None:
    test = compare(ours, theirs)
    assert test is not None
    assert test.mark == mark


@pytest.mark.parametrize(("ours", "theirs"), [([0.9, 0.91], THEIRS), (OURS, [0.5]), ([], []), ([0.5] * 3, [0.4] * 3)])
def test_too_few_seeds_or_no_spread_make_no_test(ours: list[float], theirs: list[float]) -> None:
    assert compare(ours, theirs) is None
