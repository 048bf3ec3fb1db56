"""Private choices: scores by brute force, costs by OpenDP's map, picks by the closed form."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import chance
from understudy.dp.choice import UNITS, choose, noise_of_a_pick, table_score
from understudy.dp.kept_noise import keeping
from understudy.errors import Refused

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=6)
EXPECTED = st.lists(st.floats(0, 60), min_size=6, max_size=6)


@given(COUNTS, EXPECTED, st.floats(0, 30))
def test_a_score_is_the_distance_less_the_noise_to_a_hundredth_of_a_record(counts, expected, noise):
    near = expected[: len(counts)]
    exact = sum(abs(c - e) for c, e in zip(counts, near, strict=True)) - noise * len(counts)
    score = table_score(np.array(counts), np.array(near), noise)
    assert isinstance(score, int)
    assert score / UNITS == pytest.approx(exact, abs=(len(counts) + 1) / (2 * UNITS) + 1e-9)


@settings(deadline=None)
@given(COUNTS, EXPECTED, st.data())
def test_a_record_moves_a_score_by_one_and_another_in_its_stead_by_two(counts, expected, data):
    near = np.array(expected[: len(counts)])
    position = st.integers(0, len(counts) - 1)
    before = np.array(counts)
    added = before.copy()
    added[data.draw(position)] += 1
    other = before.copy()
    other[data.draw(position)] += 1
    scores = [table_score(table, near, 3.3) for table in (before, added, other)]
    assert abs(scores[1] - scores[0]) <= UNITS
    assert abs(scores[2] - scores[1]) <= 2 * UNITS


@pytest.mark.parametrize("picks", [1, 7])
@pytest.mark.parametrize("sensitivity", [1, 6])
def test_picks_cost_what_they_say(picks, sensitivity):
    """rho: epsilon_0^2/8 a pick with epsilon_0 = 2 Delta / scale; pure: epsilon_0."""
    budget = Fraction(1, 50)
    scale = noise_of_a_pick(picks, sensitivity, budget, "rho")
    epsilon_0 = 2 * UNITS * sensitivity / scale
    assert picks * epsilon_0**2 / 8 == pytest.approx(float(budget), rel=1e-9)
    scale = noise_of_a_pick(picks, sensitivity, budget, "epsilon")
    assert picks * 2 * UNITS * sensitivity / scale == pytest.approx(float(budget), rel=1e-9)


@pytest.mark.chance(chance.ALPHA, "exact binomial intervals of three places")
def test_one_pick_is_the_exponential_mechanism():
    scores, epsilon_0 = np.array([0, 3 * UNITS, 5 * UNITS]), 0.6
    expected = np.exp(epsilon_0 * scores / (2 * UNITS))
    expected /= expected.sum()
    draws = 3000
    drawn = [choose(scores, 1, 1, epsilon_0**2 / 8, "rho")[0] for _ in range(draws)]
    for position, share in enumerate(expected):
        low, high = stats.binom.interval(1 - chance.ALPHA / 3, draws, share)
        assert low <= drawn.count(position) <= high


@pytest.mark.any_noise
def test_picks_differ_and_refusals_speak():
    assert sorted(choose(np.array([5, 2, 9]), 3, 1, 1.0, "epsilon")) == [0, 1, 2]
    with pytest.raises(Refused, match="4 tables cannot be chosen from 3"):
        choose(np.array([5, 2, 9]), 4, 1, 1.0, "epsilon")
    with pytest.raises(Refused, match="whole numbers"):
        choose(np.array([5.5]), 1, 1, 1.0, "rho")
    with pytest.raises(Refused, match="budget above 0"):
        choose(np.array([5]), 1, 1, math.inf, "rho")


@pytest.mark.any_noise
def test_a_run_that_goes_on_has_the_same_picks(tmp_path):
    scores = np.zeros(200, dtype=np.int64)
    picked = []
    for _ in range(2):
        with keeping(tmp_path / "noise"):
            picked.append(choose(scores, 20, 1, 1.0, "rho"))
    assert picked[0] == picked[1]
