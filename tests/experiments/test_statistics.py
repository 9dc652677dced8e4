"""The statistics against hand-calculated examples, and on equal and different algorithms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import taskelites as te
from taskelites.experiments.statistics import a12, holm, mann_whitney, quartiles


def test_mann_whitney_of_separated_groups():
    # Two of the C(60, 30) equally likely orders are as extreme. This is the smallest p-value of 30 runs against 30.
    assert mann_whitney(range(30), range(30, 60)) == pytest.approx(2 / math.comb(60, 30), rel=1e-9)
    assert mann_whitney([1, 2, 3], [4, 5, 6]) == pytest.approx(2 / math.comb(6, 3))


def test_hand_calculated_mann_whitney():
    # The ranks of the first group are 1 and 3, so U = 1. Four of the six orders have U <= 1 or U >= 3.
    assert mann_whitney([1, 3], [2, 4]) == pytest.approx(4 / 6)


def test_mann_whitney_of_textbook_example():
    # Hollander and Wolfe's permeability of human chorioamnion: p = 0.2544.
    term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
    early = [1.15, 0.88, 0.90, 0.74, 1.21]
    assert mann_whitney(term, early) == pytest.approx(0.2544, abs=5e-5)


def test_hand_calculated_mann_whitney_with_ties():
    # The ranks of the first group are 1, 3, 3 and 5.5 (sum 12.5), so U = 2.5; its mean is 8. Ties: 3, 2 and 2 values.
    variance = 4 * 4 / 12 * (9 - (3**3 - 3 + 2**3 - 2 + 2**3 - 2) / (8 * 7))
    z = (8 - 2.5 - 0.5) / math.sqrt(variance)
    assert mann_whitney([1, 2, 2, 3], [2, 3, 4, 4]) == pytest.approx(math.erfc(z / math.sqrt(2)))


def test_equal_values_give_p_value_of_one():
    assert mann_whitney([1.0] * 5, [1.0] * 7) == 1.0
    assert a12([1.0] * 5, [1.0] * 7) == 0.5


def test_infinite_values_are_ranked():
    assert mann_whitney([1, 2, 3, 4, 5], [math.inf] * 5) < 0.01
    assert a12([math.inf, 1], [math.inf, math.inf]) == 0.25


def test_hand_calculated_holm_correction():
    # Sorted: 0.01 x 4, 0.02 x 3, 0.03 x 2, 0.04 x 1; none may be below the one before.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]).shape == (0,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_never_lowers_p_values_and_keeps_their_order(p_values):
    corrected = holm(p_values)
    assert (corrected >= np.array(p_values)).all()
    assert (corrected <= np.minimum(1, len(p_values) * np.array(p_values)) + 1e-15).all()
    order = np.argsort(p_values, kind="stable")
    assert (np.diff(corrected[order]) >= 0).all()


def test_hand_calculated_a12():
    # In six pairs, the first value is greater three times (3 > 1, 3 > 2, 2 > 1) and equal once.
    assert a12([3, 2], [1, 2, 4]) == pytest.approx((3 + 0.5) / 6)
    assert a12([1, 2, 4], [3, 2]) == pytest.approx(1 - (3 + 0.5) / 6)


def test_quartiles_with_infinite_values():
    assert quartiles([4, 1, 3, 2, 5]) == (2, 3, 4)
    assert quartiles([10, math.inf, 20, math.inf, 30]) == (20, 30, math.inf)
    assert all(map(math.isnan, quartiles([1, math.nan])))


@pytest.mark.parametrize("bad", [([], [1]), ([1], []), ([math.nan], [1])])
def test_empty_groups_and_nan_raise_errors(bad):
    with pytest.raises(ValueError, match="needs at least one number in each group, and no NaN"):
        mann_whitney(*bad)


def test_equal_algorithms_are_not_significantly_different(small_arm):
    # The same algorithm under ten names, each with other seeds: 45 pairs. The seeds are fixed. With Holm's correction,
    # at most one of a hundred other choices of seeds would fail.
    runs = te.solve(small_arm, evaluations=3000, replicates=60)
    groups = {f"same {i}": runs[6 * i : 6 * i + 6] for i in range(10)}
    tests = te.Comparison(results=groups).tests()
    assert len(tests) == 45
    assert tests["p_holm"].min() > 0.01
    # Some p-values of 45 pairs must be small, otherwise the assertion above could not fail.
    assert tests["p"].min() < 0.2
    assert mann_whitney(*([run.gap for run in part] for part in (runs[:30], runs[30:]))) > 0.01


def test_different_algorithms_are_significantly_different(small_arm):
    runs = {name: te.solve(small_arm, evaluations=3000, replicates=8, algorithm=name) for name in ("random", "cma-es")}
    row = te.Comparison(results=runs).tests().iloc[0]
    assert row["p_holm"] < 0.01
    assert row["a12"] == 0.0
