"""The audit's ruler: Clopper-Pearson by SciPy, events by brute force, bounds on known answers."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from understudy.audit.epsilon_bound import (
    Event,
    choose_event,
    clopper_pearson,
    epsilon_lower_bound,
    exact_epsilon,
)
from understudy.errors import Refused


@pytest.mark.parametrize(("k", "n"), [(0, 20), (1, 20), (7, 20), (20, 20), (300, 90_000)])
@pytest.mark.parametrize("alpha", [0.05, 1e-6])
def test_limits_agree_with_scipy(k, n, alpha):
    lower, upper = clopper_pearson(k, n, alpha)
    exact = stats.binomtest(k, n).proportion_ci(1 - 2 * alpha, method="exact")
    assert (lower, upper) == pytest.approx((exact.low, exact.high), rel=1e-6)


def randomised_response(epsilon, trials, rng):
    """Counts of yes and no on two neighbours; the true epsilon is known."""
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    yes = rng.binomial(trials, [keep, 1 - keep])
    return np.array([yes[0], trials - yes[0]]), np.array([yes[1], trials - yes[1]])


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_bound_comes_close_to_the_true_epsilon_from_below(epsilon):
    rng = np.random.default_rng(4)
    event = choose_event(*randomised_response(epsilon, 20_000, rng), 1e-6)
    shown = epsilon_lower_bound(*randomised_response(epsilon, 400_000, rng), event, 1e-6)
    assert 0.9 * epsilon < shown <= epsilon


def test_the_bound_is_wrong_no_more_often_than_alpha():
    """At alpha = 0.05 and 2,000 repetitions: at most 100 + 5 standard deviations."""
    rng = np.random.default_rng(5)
    event = Event(np.array([True, False]), True)
    above = sum(
        epsilon_lower_bound(*randomised_response(1.0, 500, rng), event, 0.05) > 1.0
        for _ in range(2000)
    )
    assert above <= 100 + 5 * math.sqrt(95)


def test_the_direction_is_found():
    first, second = np.array([100, 900]), np.array([500, 500])
    event = choose_event(first, second, 1e-6)
    assert not event.likelier_on_first
    assert event.cells.tolist() == [True, False]
    forward = choose_event(second, first, 1e-6)
    assert forward.likelier_on_first
    assert forward.cells.tolist() == [True, False]


def test_the_chosen_set_is_the_best_of_all_sets():
    rng = np.random.default_rng(6)
    first = rng.multinomial(50_000, [0.02, 0.2, 0.3, 0.18, 0.3])
    second = rng.multinomial(50_000, [0.01, 0.3, 0.1, 0.29, 0.3])
    best = max(
        epsilon_lower_bound(first, second, Event(np.isin(range(5), cells), direction), 1e-3)
        for size in range(1, 5)
        for cells in combinations(range(5), size)
        for direction in (True, False)
    )
    chosen = choose_event(first, second, 1e-3)
    assert epsilon_lower_bound(first, second, chosen, 1e-3) == best


def test_equal_databases_show_nothing():
    counts = np.array([500, 300, 200])
    assert epsilon_lower_bound(counts, counts, choose_event(counts, counts, 1e-6), 1e-6) == 0.0


def test_an_event_that_never_happened_shows_nothing():
    event = Event(np.array([True, False]), True)
    assert epsilon_lower_bound(np.array([0, 9]), np.array([0, 9]), event, 1e-6) == 0.0


def test_exact_epsilon_is_the_largest_log_ratio_in_either_direction():
    first, second = np.log([0.5, 0.4, 0.1]), np.log([0.25, 0.25, 0.5])
    assert exact_epsilon(first, second) == pytest.approx(math.log(5))


def test_outputs_must_be_counted_in_the_same_cells():
    with pytest.raises(Refused, match="same cells"):
        choose_event(np.array([1, 2]), np.array([1, 2, 3]), 1e-6)
