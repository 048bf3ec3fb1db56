"""The five contributions: values by NumPy, edges by hand, gradients by closed form."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from understudy.dp.contributions import (
    censored,
    clip_bound,
    reference_censored,
    truncated,
    unweighted,
    weighted,
)
from understudy.errors import Refused

anything = st.floats(allow_nan=True, allow_infinity=True, width=32)
records = st.integers(1, 8)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def test_values_against_numpy():
    rng = np.random.default_rng(1)
    f, reference = rng.normal(0, 3, (5, 40)), rng.normal(0, 3, 40)
    alpha = rng.random(40)
    np.testing.assert_array_equal(unweighted(f), f)
    np.testing.assert_allclose(weighted(f, alpha), alpha * f, rtol=1e-15)
    np.testing.assert_allclose(truncated(f, alpha), alpha * f, rtol=1e-15)
    np.testing.assert_allclose(censored(f, alpha, 0.7), np.clip(alpha * f, -0.7, 0.7), rtol=1e-15)
    np.testing.assert_allclose(censored(f, 1.0, 0.7), np.clip(f, -0.7, 0.7), rtol=1e-15)
    np.testing.assert_allclose(
        reference_censored(f, reference, 0.3, 0.2),
        np.clip(0.3 * (f - reference), -0.2, 0.2),
        rtol=1e-14,
    )


@settings(deadline=None)  # the machine may be busy
@given(st.data())
def test_clipped_contributions_lie_in_the_interval_for_any_record(data):
    n = data.draw(records)
    vectors = hnp.arrays(np.float64, n, elements=anything)
    alpha = data.draw(hnp.arrays(np.float64, n, elements=st.floats(0, 1)))
    M = data.draw(st.floats(0.01, 10))
    f, reference = data.draw(vectors), data.draw(vectors)
    with jax.enable_x64(True):  # hypothesis runs the body outside the fixture's context
        for contribution in (censored(f, alpha, M), reference_censored(f, reference, alpha, M)):
            clipped = np.asarray(contribution)
            assert ((clipped >= -M) & (clipped <= M)).all()
            assert (clipped[alpha == 0] == 0).all()


@pytest.mark.parametrize("f", [-np.inf, np.inf, np.nan])
def test_weight_zero_contributes_zero_with_gradient_zero(f):
    for function in (
        lambda x: weighted(x, 0.0),
        lambda x: truncated(x, 0.0),
        lambda x: censored(x, 0.0, 1.0),
        lambda x: reference_censored(x, 0.5, 0.0, 1.0),
    ):
        value, gradient = jax.value_and_grad(function)(f)
        assert (value, gradient) == (0.0, 0.0)


def test_the_derivative_by_a_weight_of_zero_is_zero_too():
    """Whoever tunes alpha by gradients meets 0 * inf without the inner `where`."""
    by_alpha = jax.grad(lambda alpha: weighted(jnp.array([-jnp.inf, 2.0]), alpha).sum())
    assert by_alpha(jnp.array([0.0, 0.5])).tolist() == [0.0, 2.0]


@pytest.mark.parametrize(("f", "expected"), [(-np.inf, -1.0), (np.inf, 1.0), (np.nan, -1.0)])
def test_a_record_off_the_scale_is_clipped_with_gradient_zero(f, expected):
    for function in (
        lambda x: censored(x, 0.3, 1.0),
        lambda x: reference_censored(x, 0.5, 0.3, 1.0),
    ):
        value, gradient = jax.value_and_grad(function)(f)
        assert (value, gradient) == (expected, 0.0)


def test_a_record_that_is_impossible_under_the_reference():
    result = reference_censored(jnp.array([-3.0, -jnp.inf]), -jnp.inf, 1.0, 0.5)
    assert result.tolist() == [0.5, -0.5]


def test_gradients_through_a_model_with_bounded_support():
    """sum_i clip(alpha_i f_i) of an exponential with one impossible value: d/d rate by hand."""
    y = jnp.array([-1.0, 0.5, 40.0, 2.0])
    alpha = jnp.array([0.0, 1.0, 1.0, 0.5])

    def total(rate, contribution):
        loglik = jnp.where(y >= 0, jnp.log(rate) - rate * y, -jnp.inf)
        return contribution(loglik).sum()

    rate = 1.5
    score = np.where(np.asarray(y) >= 0, 1 / rate - np.asarray(y), 0.0)
    clipped = jax.grad(total)(rate, lambda f: censored(f, alpha, 5.0))
    assert clipped == pytest.approx(score[1] + 0.5 * score[3])  # y = 40 is clipped: no gradient
    free = jax.grad(total)(rate, lambda f: weighted(f, alpha))
    assert free == pytest.approx(score[1] + score[2] + 0.5 * score[3])
    harmless = jax.grad(total)(rate, lambda f: censored(f, 1.0, 5.0))
    assert harmless == pytest.approx(score[1] + score[3])  # y = -1: -M, no gradient


def test_subtracting_the_reference_changes_nothing_where_nothing_is_clipped():
    y = jnp.array([-0.3, 0.2, 0.9])

    def log_density(theta, M):
        f, reference = -((y - theta) ** 2), -((y - 0.1) ** 2)
        return reference_censored(f, reference, 1.0, M).sum(), unweighted(f).sum()

    at_a, at_b = log_density(0.0, 50.0), log_density(0.4, 50.0)
    assert at_a[0] - at_b[0] == pytest.approx(float(at_a[1] - at_b[1]))


@settings(deadline=None)  # the machine may be busy
@given(st.floats(1e-6, 1e3), st.integers(1, 50))
def test_the_clip_bound_never_exceeds_the_budget_and_wastes_nothing(epsilon, draws):
    M = clip_bound(epsilon, draws)
    assert 2 * draws * Fraction(M) <= Fraction(epsilon)
    assert 2 * draws * Fraction(float(np.nextafter(M, np.inf))) > Fraction(epsilon)


def test_clip_bound_refuses_what_has_no_meaning():
    assert clip_bound(5.0) == 2.5
    for epsilon, draws in ((0.0, 1), (float("nan"), 1), (1.0, 0)):
        with pytest.raises(Refused):
            clip_bound(epsilon, draws)
