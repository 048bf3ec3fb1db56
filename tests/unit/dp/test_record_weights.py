"""Record weights against the formulas of C, one record at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.dp.record_weights import (
    PlacedBounds,
    inverse_weights,
    linear_weights,
    truncate_weights,
)
from understudy.errors import Refused

some_bounds = st.lists(st.floats(0, 50), min_size=2, max_size=20)


@settings(deadline=None)  # the machine may be busy
@given(some_bounds, st.floats(0, 2), st.floats(-1, 1))
def test_linear_map_record_by_record(bounds, c1, c2):
    weights = linear_weights(bounds, c1, c2)
    low, high = min(bounds), max(bounds)
    for bound, alpha in zip(bounds, weights, strict=True):
        raw = 1.0 if high == low else 1 - (bound - low) / (high - low)
        assert alpha == pytest.approx(min(1.0, max(0.0, c1 * raw + c2)), abs=1e-12)


def test_the_riskiest_record_weighs_0_and_the_safest_1():
    np.testing.assert_allclose(linear_weights([2.0, 7.0, 4.5]), [1.0, 0.0, 0.5])


def test_a_bound_that_is_not_finite_weighs_0_and_does_not_set_the_scale():
    weights = linear_weights([2.0, np.inf, 4.0, np.nan], c1=0.5, c2=0.25)
    np.testing.assert_allclose(weights, [0.75, 0.0, 0.25, 0.0])
    assert linear_weights([np.inf, np.nan]).tolist() == [0.0, 0.0]


def test_records_elsewhere_are_weighed_by_the_extremes_of_all():
    """A part of the records gets the weights that it has among all of them."""
    bounds = np.array([2.0, 7.0, 4.5, 3.0, np.inf])
    elsewhere, part = PlacedBounds(np.zeros((1, 1, 3)), 2.0, 7.0), bounds[2:]
    linear = linear_weights(elsewhere, c1=0.5, c2=0.1)
    np.testing.assert_array_equal(linear.of_bounds(part), linear_weights(bounds, 0.5, 0.1)[2:])
    inverse = inverse_weights(elsewhere, 1.5, c2=0.1)
    np.testing.assert_array_equal(inverse.of_bounds(part), inverse_weights(part, 1.5, 0.1))
    assert inverse.bounds is linear.bounds is elsewhere


def test_equal_bounds_weigh_one_before_scaling():
    assert linear_weights([3.0, 3.0, 3.0]).tolist() == [1.0, 1.0, 1.0]
    assert linear_weights([3.0, 3.0], c1=0.8).tolist() == [0.8, 0.8]


def test_the_step_at_equal_historical_bounds():
    assert linear_weights([2.0, 3.0, 3.1], low=3.0, high=3.0).tolist() == [1.0, 1.0, 0.0]


def test_a_map_fixed_on_a_historical_file_does_not_look_at_the_new_one():
    history = np.array([1.0, 5.0, 9.0])
    fixed = {"low": history.min(), "high": history.max()}
    new = np.array([2.0, 3.0, 20.0])
    np.testing.assert_allclose(linear_weights(new, **fixed), [0.875, 0.75, 0.0])
    alone = [linear_weights([bound], **fixed)[0] for bound in new]
    np.testing.assert_array_equal(linear_weights(new, **fixed), alone)


@settings(deadline=None)  # the machine may be busy
@given(some_bounds, st.floats(0.1, 10))
def test_inverse_map_reaches_the_target(bounds, target):
    alpha = inverse_weights(bounds, target)
    assert (alpha * np.array(bounds) <= target * (1 + 1e-12)).all()
    assert (alpha[np.array(bounds) <= target] == 1).all()
    assert (alpha > 0).all()


def test_inverse_map_at_its_ends():
    assert inverse_weights([0.0, 4.0, np.inf, np.nan], 2.0).tolist() == [1.0, 0.5, 0.0, 0.0]


def test_the_inverse_map_is_the_one_that_the_paper_prints():
    """T §1.4.1: alpha_i proportional to 1/D_i, in [0, 1]; then c1 alpha_i + c2, in [0, 1]."""
    bounds, c1, c2 = np.array([0.5, 1.0, 2.0, 8.0, np.inf]), 1.5, -0.25
    printed = [min(1.0, max(0.0, c1 * (0.5 / bound) + c2)) for bound in bounds[:4]]
    assert printed == [1.0, 0.5, 0.125, 0.0]
    np.testing.assert_allclose(inverse_weights(bounds, c1 * 0.5, c2), [*printed, 0.0])


def test_weighted_e_drops_what_exceeds_the_limit():
    alpha = np.array([1.0, 0.6, 0.5, 0.2, 0.1])
    weights = truncate_weights(alpha, [2.5, 2.5000001, 1.0, np.inf, np.nan], 2.5)
    assert weights.tolist() == [1.0, 0.0, 0.5, 0.0, 0.0]
    assert truncate_weights([1.0, 0.5], [0.1, 0.3], 0.2).tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: linear_weights([[1.0]]),
        lambda: linear_weights([-1.0, 2.0]),
        lambda: linear_weights([1.0, 2.0], c1=-0.1),
        lambda: linear_weights([1.0, 2.0], c2=np.nan),
        lambda: linear_weights([1.0, 2.0], low=3.0, high=1.0),
        lambda: linear_weights([1.0, 2.0], low=np.nan),
        lambda: inverse_weights([1.0], 0.0),
        lambda: inverse_weights([1.0], np.nan),
        lambda: inverse_weights([1.0], 1.0, np.inf),
        lambda: truncate_weights([1.0], [1.0, 2.0], 1.0),
        lambda: truncate_weights([1.5], [1.0], 1.0),
        lambda: truncate_weights([1.0], [1.0], -1.0),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(Refused):
        call()
