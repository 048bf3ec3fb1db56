"""U_m against SciPy's Kolmogorov-Smirnov statistic, U_a against a double loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from understudy.errors import Refused
from understudy.utility.ecdf import ecdf_distance

tied_values = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)


def brute_force(a, b, weights_a=None, weights_b=None):
    """Straight from the definition: the ECDFs at every record of both files."""
    weights_a = [1.0] * len(a) if weights_a is None else weights_a
    weights_b = [1.0] * len(b) if weights_b is None else weights_b
    differences = []
    for z in [*a, *b]:
        share_a = sum(w for x, w in zip(a, weights_a, strict=True) if x <= z) / sum(weights_a)
        share_b = sum(w for x, w in zip(b, weights_b, strict=True) if x <= z) / sum(weights_b)
        differences.append(share_a - share_b)
    return max(abs(d) for d in differences), sum(d * d for d in differences) / len(differences)


@pytest.mark.parametrize(("n_a", "n_b"), [(1, 1), (50, 50), (400, 171)])
def test_max_is_the_kolmogorov_smirnov_statistic(n_a, n_b):
    rng = np.random.default_rng(n_a)
    a, b = rng.normal(size=n_a), rng.gamma(2.0, size=n_b)
    assert ecdf_distance(a, b)[0] == pytest.approx(stats.ks_2samp(a, b).statistic, abs=1e-14)


@settings(deadline=None)  # the machine may be busy
@given(tied_values, tied_values)
def test_ties_are_handled_as_in_the_definition(a, b):
    assert ecdf_distance(a, b) == pytest.approx(brute_force(a, b), abs=1e-12)


@settings(deadline=None)  # the machine may be busy
@given(st.data())
def test_weights_enter_the_distribution_functions(data):
    a, b = data.draw(tied_values), data.draw(tied_values)
    w_a = data.draw(st.lists(st.floats(0.1, 9), min_size=len(a), max_size=len(a)))
    w_b = data.draw(st.lists(st.floats(0.1, 9), min_size=len(b), max_size=len(b)))
    expected = brute_force(a, b, w_a, w_b)
    assert ecdf_distance(a, b, w_a, w_b) == pytest.approx(expected, abs=1e-12)


def test_a_record_of_weight_two_is_two_records():
    once = ecdf_distance([1.0, 2.0], [1.5, 3.0], weights_a=[2.0, 1.0])[0]
    assert once == pytest.approx(ecdf_distance([1.0, 1.0, 2.0], [1.5, 3.0])[0])


def test_distance_of_a_file_to_itself_is_zero_and_to_a_disjoint_one_is_one():
    a = np.arange(10.0)
    assert ecdf_distance(a, a) == (0.0, 0.0)
    assert ecdf_distance(a, a + 100)[0] == 1.0


def test_a_million_records_take_no_pairs():
    rng = np.random.default_rng(0)
    a, b = rng.random(500_000), rng.random(500_000)
    assert ecdf_distance(a, b)[0] < 0.005  # loops over pairs would never come back


@pytest.mark.parametrize("bad", [[], [1.0, np.nan], [[1.0], [2.0]]])
def test_empty_missing_or_two_dimensional_values_are_refused(bad):
    with pytest.raises(Refused):
        ecdf_distance(bad, [1.0])


@pytest.mark.parametrize("weights", [[1.0], [0.0, 0.0], [-1.0, 2.0], [np.inf, 1.0]])
def test_impossible_weights_are_refused(weights):
    with pytest.raises(Refused):
        ecdf_distance([1.0, 2.0], [1.0], weights_a=weights)
