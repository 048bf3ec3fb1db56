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


MANY = np.random.default_rng(6)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            MANY.multinomial(50_000, [0.02, 0.2, 0.3, 0.18, 0.3]),
            MANY.multinomial(50_000, [0.01, 0.3, 0.1, 0.29, 0.3]),
        ),
        # few counts, where half a count decides the order of cells
        (np.array([5, 11, 31, 13]), np.array([0, 1, 0, 59])),
        (np.array([1, 14, 38, 7]), np.array([1, 22, 15, 22])),
    ],
)
def test_the_chosen_set_is_the_best_of_all_sets(first, second):
    cells = range(len(first))
    best = max(
        epsilon_lower_bound(first, second, Event(np.isin(cells, some), direction), 0.05)
        for size in range(1, len(first))
        for some in combinations(cells, size)
        for direction in (True, False)
    )
    chosen = choose_event(first, second, 0.05)
    assert epsilon_lower_bound(first, second, chosen, 0.05) == best


def test_a_cell_that_the_likelier_database_lacks_is_no_part_of_the_event():
    first, second = np.array([400, 300, 0]), np.array([10, 600, 3])
    event = choose_event(first, second, 1e-3)
    assert (event.cells.tolist(), event.likelier_on_first) == ([True, False, False], True)


def test_the_bound_is_the_ratio_of_scipys_limits():
    """Each of the two limits is wrong with half of alpha."""
    event = Event(np.array([True, False, True]), False)
    on_first, on_second = np.array([20, 300, 10]), np.array([250, 100, 50])
    low = stats.binomtest(300, 400).proportion_ci(1 - 0.02, method="exact").low
    high = stats.binomtest(30, 330).proportion_ci(1 - 0.02, method="exact").high
    for delta in (0.0, 0.1):
        shown = epsilon_lower_bound(on_first, on_second, event, 0.02, delta)
        assert shown == pytest.approx(math.log((low - delta) / high))


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
