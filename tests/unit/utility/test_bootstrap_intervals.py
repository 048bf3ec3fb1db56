"""Percentile-bootstrap intervals against closed forms and plain resampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, ks_2samp, norm

from understudy import Refused
from understudy.utility import bootstrap
from understudy.utility.bootstrap import (
    bootstrap_intervals,
    mean_replicates,
    quantile_replicates,
)


def test_the_mean_has_the_closed_form_of_its_bootstrap():
    """Given the data, a bootstrap mean has mean ybar and variance sum (y - ybar)^2 / n^2."""
    rng = np.random.default_rng(1)
    y = rng.gamma(2.0, 10.0, 400)
    [interval] = bootstrap_intervals(y, ["mean"], rng=rng, replicates=20_000)
    se = y.std() / np.sqrt(len(y))
    assert interval.plain == y.mean()
    # Monte Carlo: se/sqrt(20000) for the mean, about 2.7 se/sqrt(20000) for a 2.5 % limit
    assert interval.estimate == pytest.approx(y.mean(), abs=5 * se / np.sqrt(20_000))
    assert interval.lower == pytest.approx(y.mean() + norm.ppf(0.025) * se, abs=0.1 * se)
    assert interval.upper == pytest.approx(y.mean() + norm.ppf(0.975) * se, abs=0.1 * se)
    assert interval.length == interval.upper - interval.lower


def test_the_median_is_that_of_skewed_data_not_the_mean():
    """The median of n = 101 has binomial order-statistic limits; the mean is far above them."""
    rng = np.random.default_rng(9)
    y = np.sort(rng.lognormal(0.0, 2.0, 101))
    [median, half] = bootstrap_intervals(y, ["median", 0.5], rng=rng, replicates=20_000)
    assert median.plain == half.plain == y[50]
    # resampled median <= y_(j) when at least 51 of 101 draws fall among the j smallest
    at_most = binom.sf(50, 101, np.arange(1, 102) / 101)
    for limit, share in ((median.lower, 0.025), (median.upper, 0.975)):
        index = np.searchsorted(at_most, share)
        assert y[index - 1] <= limit <= y[index + 1]


@pytest.mark.parametrize("probability", [0.01, 0.15, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("n", [7, 40, 101])
def test_quantiles_have_the_distribution_of_plain_resampling(probability, n):
    rng = np.random.default_rng(n)
    y = np.sort(rng.lognormal(0, 1, n))
    ours = quantile_replicates(y, probability, 4000, rng)
    plain = np.quantile(y[rng.integers(0, n, (4000, n))], probability, axis=1)
    # Rounded: both interpolate between tied values, and differ there in the last digit.
    assert ks_2samp(ours.round(9), plain.round(9)).pvalue > 1e-3


def test_the_median_of_three_by_enumeration():
    """27 resamples of (1, 2, 3): the median is 2 in 13 of them, 1 and 3 in 7 each."""
    drawn = quantile_replicates(np.array([3.0, 1.0, 2.0]), 0.5, 40_000, np.random.default_rng(2))
    shares = [(drawn == value).mean() for value in (1.0, 2.0, 3.0)]
    np.testing.assert_allclose(shares, [7 / 27, 13 / 27, 7 / 27], atol=0.012)


def test_synthetic_data_sets_are_pooled():
    """Two far data sets: the pooled interval spans both (R's S and M rows of Table 6)."""
    rng = np.random.default_rng(3)
    sets = [rng.normal(0, 1, 500), rng.normal(10, 1, 500)]
    [mean, median] = bootstrap_intervals(sets, rng=rng)
    assert mean.plain == pytest.approx(np.mean([s.mean() for s in sets]))
    assert mean.lower < 0.5
    assert mean.upper > 9.5
    assert median.estimate == pytest.approx(5.0, abs=0.5)


def test_same_seed_same_interval_in_any_blocks(monkeypatch):
    y = np.random.default_rng(4).normal(size=100)
    first = bootstrap_intervals(y, ["mean", 0.9], rng=np.random.default_rng(5))
    assert first == bootstrap_intervals(y, ["mean", 0.9], rng=np.random.default_rng(5))
    assert first != bootstrap_intervals(y, ["mean", 0.9], rng=np.random.default_rng(6))
    whole = mean_replicates(y, 50, np.random.default_rng(7))
    for block in (1000, 10):  # ten resamples at a time; a file larger than the block: one
        monkeypatch.setattr(bootstrap, "BLOCK", block)
        np.testing.assert_array_equal(mean_replicates(y, 50, np.random.default_rng(7)), whole)
    assert [i.statistic for i in first] == ["mean", "quantile 0.9"]


def test_a_uniform_that_rounds_to_one_is_the_largest_value():
    class Highest:
        def beta(self, _a, _b, size):
            return np.ones(size)

    drawn = quantile_replicates(np.array([3.0, 1.0, 2.0, 9.0]), 0.5, 5, Highest())
    assert drawn.tolist() == [9.0] * 5


def test_two_values_are_enough():
    """A resample of (0, 1) has mean 0, 1/2 or 1 with chances 1/4, 1/2 and 1/4."""
    [mean] = bootstrap_intervals([0.0, 1.0], ["mean"], rng=np.random.default_rng(8))
    assert (mean.plain, mean.lower, mean.upper) == (0.5, 0.0, 1.0)
    with pytest.raises(Refused, match="at least 2"):
        bootstrap_intervals([1.0], ["mean"], rng=np.random.default_rng(8))


def test_bad_arguments_are_refused():
    rng = np.random.default_rng(0)
    y = np.arange(10.0)
    with pytest.raises(Refused, match="did you mean `median`"):
        bootstrap_intervals(y, ["medain"], rng=rng)
    with pytest.raises(Refused, match="between 0 and 1"):
        bootstrap_intervals(y, [1.5], rng=rng)
    for level in (95, 0, 1):
        with pytest.raises(Refused, match="level"):
            bootstrap_intervals(y, level=level, rng=rng)
    with pytest.raises(Refused, match="replicates"):
        bootstrap_intervals(y, replicates=1, rng=rng)
    with pytest.raises(Refused, match="finite numbers"):
        bootstrap_intervals([1.0, np.nan, 2.0], rng=rng)
    with pytest.raises(Refused, match="finite numbers"):
        bootstrap_intervals([[1.0, 2.0], [3.0]], rng=rng)
