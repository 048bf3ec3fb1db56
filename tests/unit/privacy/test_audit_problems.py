"""The theorem of docs/proofs/censoring.md on any database, and the designs that nearly reach it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from understudy.privacy.audit_problems import (
    BLANK,
    COMMON,
    GRID,
    MECHANISMS,
    RARE,
    GridProblem,
    grid_neighbours,
)
from understudy.privacy.epsilon_bound import exact_epsilon

POSTERIOR = [name for name in MECHANISMS if name != "perturbed-histogram"]
value = st.floats(-1e6, 1e6)


def by_hand(problem: GridProblem, values, log_prior):
    """The posterior on the grid in plain Python, with SciPy's normal density."""
    weights = []
    for theta, prior in zip(GRID, log_prior, strict=True):
        total = prior
        for y in values:
            if math.isnan(y):
                continue
            f = stats.norm.logpdf(y, theta, problem.sigma)
            if problem.mechanism == "reference-censored":
                f -= stats.norm.logpdf(y, problem.reference, problem.sigma)
            total += min(problem.M, max(-problem.M, problem.alpha * f))
        weights.append(total)
    shift = max(weights)
    mass = [math.exp(w - shift) for w in weights]
    return np.array([m / sum(mass) for m in mass])


@pytest.mark.parametrize("mechanism", POSTERIOR)
@pytest.mark.parametrize("relation", ["blank", "replace"])
def test_posteriors_agree_with_plain_python(mechanism, relation):
    for pair in grid_neighbours(mechanism, 1.0, relation):
        for values, found in zip((pair.first, pair.second), pair.log_posteriors(), strict=True):
            expected = by_hand(pair.problem, values, pair.log_prior)
            np.testing.assert_allclose(np.exp(found), expected, rtol=1e-9, atol=1e-300)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_no_database_loses_more_than_the_theorem_allows(data):
    """Any records, any prior, any fixed weight and reference: the theorem, by search."""
    problem = GridProblem(
        data.draw(st.sampled_from(POSTERIOR)),
        M=data.draw(st.floats(0.01, 3)),
        alpha=data.draw(st.floats(0, 1)),
        sigma=data.draw(st.floats(0.001, 3)),
        reference=data.draw(st.floats(-2, 2)),
    )
    others = data.draw(st.lists(value, max_size=4))
    one, other = data.draw(value), data.draw(value)
    log_prior = np.array(data.draw(st.lists(st.floats(-30, 0), min_size=41, max_size=41)))
    with_one, with_other, blanked = (
        problem.log_posterior(np.array([*others, last]), log_prior) for last in (one, other, BLANK)
    )
    assert exact_epsilon(with_one, blanked) <= 2 * problem.M + 1e-9
    assert exact_epsilon(with_one, with_other) <= 4 * problem.M + 1e-9


@pytest.mark.parametrize("mechanism", POSTERIOR)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_worst_record_reaches_the_bound_up_to_a_few_per_cent(mechanism, epsilon):
    for relation, claimed in (("blank", epsilon), ("replace", 2 * epsilon)):
        worst = grid_neighbours(mechanism, epsilon, relation)[0]
        assert 0.95 * claimed < exact_epsilon(*worst.log_posteriors()) <= claimed + 1e-9


def test_the_exact_loss_on_the_worst_record_in_closed_form():
    """e^2M / (1 + p (e^2M - 1)) with p the blanked posterior of RARE (docs/proofs, tightness)."""
    pair = grid_neighbours("censored", 1.0, "blank")[0]
    blanked = np.exp(pair.log_posteriors()[1])
    p = blanked[np.abs(GRID - RARE) < 0.04].sum()
    closed = 1.0 - math.log1p(p * math.expm1(1.0))
    assert exact_epsilon(*pair.log_posteriors()) == pytest.approx(closed, abs=2e-3)


def test_two_draws_lose_twice_as_much():
    once = exact_epsilon(*grid_neighbours("censored", 1.0, "blank")[0].log_posteriors())
    pairs = grid_neighbours("censored", 1.0, "blank", "two-draws")
    assert exact_epsilon(*pairs[0].log_posteriors()) == pytest.approx(2 * once)


@pytest.mark.parametrize(
    ("mechanism", "mutant"),
    [("censored-weighted", "weights-from-data"), ("reference-censored", "reference-from-data")],
)
def test_a_setting_from_the_data_is_seen_only_where_it_moves(mechanism, mutant):
    """Other records' contributions change: far more than one record's share is lost."""
    moved = grid_neighbours(mechanism, 1.0, "blank", mutant)[1]
    assert exact_epsilon(*moved.log_posteriors()) > 3.0
    assert moved.first[0] == COMMON  # sixteen records that are the same on both sides
    np.testing.assert_array_equal(moved.first[:16], moved.second[:16])
