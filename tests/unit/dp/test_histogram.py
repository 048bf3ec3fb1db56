"""The perturbed histogram (C §2.3): bins, noise, post-processing, and what must be declared."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import chance
from understudy.dp import histogram
from understudy.dp.histogram import (
    HistogramDraw,
    bin_count,
    histogram_counts,
    histogram_edges,
    perturbed_histogram,
    probabilities,
)
from understudy.errors import Refused


@pytest.mark.parametrize(
    ("bins", "n", "expected"),
    [("sqrt", 2000, 44), ("log", 2000, 7), ("sqrt", 1601, 40), ("log", 1, 1), (12, 5, 12)],
)
def test_number_of_bins_depends_on_the_public_number_of_records(bins, n, expected):
    assert bin_count(bins, n) == expected
    assert histogram_edges((0, 10), bins, n).size == expected + 1


def test_counts_by_hand():
    edges = histogram_edges((0.0, 1.0), 4, 9)
    values = [0.0, 0.1, 0.25, 0.49, 0.5, 0.75, 0.99, 1.0, 1.0]
    assert histogram_counts(values, edges).tolist() == [2, 2, 1, 4]


@settings(deadline=None)  # the machine may be busy
@given(st.lists(st.floats(-2, 5), min_size=1, max_size=30), st.floats(-2, 5), st.integers(1, 9))
def test_replacing_one_record_moves_the_counts_by_at_most_two(values, other, bins):
    edges = histogram_edges((-2.0, 5.0), bins, len(values))
    before, after = histogram_counts(values, edges), histogram_counts([other, *values[1:]], edges)
    without = histogram_counts(values[1:], edges)
    assert np.abs(before - after).sum() <= histogram.SENSITIVITY
    assert np.abs(before - without).sum() == 1  # the blanked record


def test_noise_covers_all_records_of_a_unit(monkeypatch):
    asked = []
    monkeypatch.setattr(
        histogram, "integer_laplace", lambda counts, *scale: asked.append(scale) or counts
    )
    values = np.array([0.1, 0.1, 0.1, 0.6, 0.9])
    draw = perturbed_histogram(values, (0.0, 1.0), 2, 0.5, records_per_unit=3)
    moved = histogram_counts([0.9, 0.9, 0.9, 0.6, 0.9], draw.edges)  # a unit's three
    farthest = np.abs(moved - histogram_counts(values, draw.edges)).sum()
    assert asked == [(farthest, 0.5)]


def test_clip_and_normalise():
    np.testing.assert_allclose(probabilities(np.array([3, -2, 0, 1])), [0.75, 0, 0, 0.25])


def test_all_counts_lost_gives_the_uniform_distribution():
    np.testing.assert_allclose(probabilities(np.array([-1, 0, -7, 0])), [0.25] * 4)


@pytest.mark.chance(chance.any_noise_at_all(44, 2 / 500), "a count of 44 with noise")
def test_with_a_huge_epsilon_the_histogram_is_the_data():
    values = np.random.default_rng(0).beta(0.5, 3, 2000)
    draw = perturbed_histogram(values, (0, 1), "sqrt", 500.0)
    expected = np.histogram(values, 44, (0, 1))[0] / 2000
    np.testing.assert_allclose(draw.probabilities, expected)


EPSILON, BINS, GAP = 0.5, 4000, 0.5


@pytest.mark.chance(
    chance.mean_size_beyond(GAP, 2 / EPSILON, BINS), "the mean noise, or its mean size (Chernoff)"
)
def test_the_noise_enters_with_scale_two_over_epsilon():
    """The mean size of the discrete Laplace, 2a/(1-a^2) with a = exp(-epsilon/2).

    Large counts are never clipped, so probability times total gives the noisy counts back, up to
    their common mean, which moves every size by as much at most.
    """
    epsilon, bins, each = EPSILON, BINS, 1000
    values = np.repeat(np.arange(bins) + 0.5, each)
    result = perturbed_histogram(values, (0, bins), bins, epsilon).probabilities
    noise = result / result.mean() * each - each
    a = np.exp(-epsilon / 2)
    # the mean count is `each` up to GAP, which also scales the noise by GAP / each
    room = 2 * GAP + 0.01
    assert np.abs(noise).mean() == pytest.approx(2 * a / (1 - a**2), abs=room)  # 3.96; twice: 7.98


def test_sampled_values_follow_the_bins_and_are_uniform_inside():
    draw = HistogramDraw(np.array([0.0, 1.0, 3.0, 4.0]), np.array([0.2, 0.5, 0.3]))
    values = draw.sample(20_000, np.random.default_rng(3))
    counts = np.histogram(values, draw.edges)[0]
    assert stats.chisquare(counts, 20_000 * draw.probabilities).pvalue > 1e-6
    inside = values[(values >= 1) & (values < 3)]
    assert stats.kstest(inside, stats.uniform(1, 2).cdf).pvalue > 1e-6
    again = draw.sample(20_000, np.random.default_rng(3))
    np.testing.assert_array_equal(values, again)


def test_an_empty_bin_gives_no_values_and_bounds_are_kept():
    draw = HistogramDraw(np.array([0.0, 0.1, 0.3]), np.array([0.0, 1.0]))
    values = draw.sample(5000, np.random.default_rng(0))
    assert values.min() >= 0.1
    assert values.max() <= 0.3
    assert draw.sample(0, np.random.default_rng(0)).size == 0


@pytest.mark.parametrize(
    ("values", "bounds", "bins", "problem"),
    [
        ([0.5], None, "sqrt", "declared bounds"),
        ([0.5], (1.0, 0.0), 2, "lower one first"),
        ([0.5], (0.0, np.inf), 2, "finite"),
        ([0.5], (0.0, np.nan), 2, "finite"),
        ([0.5], (0.0, 5e-324), 4, "too close"),
        ([1.5], (0.0, 1.0), 2, "outside the declared bounds"),
        ([0.5, np.nan], (0.0, 1.0), 2, "missing"),
        ([[0.5]], (0.0, 1.0), 2, "one variable"),
        ([], (0.0, 1.0), 2, "at least one record"),
        ([0.5], (0.0, 1.0), 0, "bins"),
        ([0.5], (0.0, 1.0), True, "bins"),
        ([0.5], (0.0, 1.0), "square", "bins"),
        ([0.5], (0.0, 1.0), 2.5, "bins"),
    ],
)
def test_what_is_not_declared_or_does_not_fit_is_refused(values, bounds, bins, problem):
    with pytest.raises(Refused, match=problem):
        perturbed_histogram(values, bounds, bins, 1.0)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan, np.inf])
def test_epsilon_is_checked(epsilon):
    with pytest.raises(Refused, match="epsilon"):
        perturbed_histogram([0.5], (0.0, 1.0), 2, epsilon)


def test_a_refusal_never_shows_a_value():
    with pytest.raises(Refused) as refusal:
        perturbed_histogram([0.5, 8675.309], (0.0, 1.0), 2, 1.0)
    assert "8675" not in str(refusal.value)
