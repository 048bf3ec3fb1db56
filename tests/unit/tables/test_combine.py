"""Combining rules against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from understudy.errors import Refused
from understudy.tables.combine import ADJUSTED, ONE_DATASET, combine

# Three data sets: q = 1, 2, 6, so qbar = 3, b = (4 + 1 + 9)/2 = 7; u = 1, 2, 3, ubar = 2.
Q, U = [[1.0], [2.0], [6.0]], [[1.0], [2.0], [3.0]]


def test_partial() -> None:
    combined = combine(Q, U, 50, "partial")
    assert combined.value[0] == pytest.approx(3)
    assert combined.variance[0] == pytest.approx(2 + 7 / 3)
    assert combined.df[0] == pytest.approx((13 / 3) ** 2 / ((7 / 3) ** 2 / 2 + 4 / 50))
    assert combined.note == [""]


def test_full() -> None:
    combined = combine(Q, U, 50, "full")
    assert combined.variance[0] == pytest.approx(4 / 3 * 7 - 2)
    assert combined.df[0] == pytest.approx((22 / 3) ** 2 / ((28 / 3) ** 2 / 2 + 4 / 50))


def test_without_a_design_the_degrees_of_freedom_are_the_papers() -> None:
    """Reiter 2003; Raghunathan, Reiter and Rubin 2003; Rubin 1987."""
    partial, full, imputed = (combine(Q, U, np.inf, k) for k in ("partial", "full", "imputed"))
    assert partial.df[0] == pytest.approx(2 * (1 + 2 / (7 / 3)) ** 2)
    assert full.df[0] == pytest.approx(2 * (1 - 2 / (28 / 3)) ** 2)
    assert imputed.df[0] == pytest.approx(2 * (1 + 2 / (28 / 3)) ** 2)


def test_imputed() -> None:
    """Rubin's rule with Barnard and Rubin's small-sample degrees of freedom, by hand."""
    combined = combine(Q, U, 50, "imputed")
    assert combined.variance[0] == pytest.approx(2 + 28 / 3)
    r = (28 / 3) / (34 / 3)
    assert combined.df[0] == pytest.approx(1 / (r**2 / 2 + 1 / (51 / 53 * 50 * (1 - r))))


@pytest.mark.parametrize("kind", ["partial", "full", "imputed"])
def test_copies_are_worth_no_more_than_one(kind: str) -> None:
    """Identical copies of a survey with 16 degrees of freedom: never a narrower interval."""
    combined = combine([[5.0]] * 3, [[4.0]] * 3, 16, kind)
    assert combined.variance[0] == pytest.approx(4)
    expected = 17 / 19 * 16 if kind == "imputed" else 16
    assert combined.df[0] == pytest.approx(expected)


def test_full_with_negative_variance_takes_the_adjusted_form() -> None:
    combined = combine(Q, [[30.0], [30.0], [33.0]], 50, "full")
    assert combined.variance[0] == pytest.approx(31)
    assert combined.df[0] == 50
    assert combined.note == [ADJUSTED]


@pytest.mark.parametrize("kind", ["partial", "full"])
def test_no_spread_between_data_sets(kind: str) -> None:
    combined = combine([[5.0], [5.0]], [[4.0], [2.0]], 7, kind)
    assert combined.value[0] == 5
    assert combined.variance[0] == pytest.approx(3)
    assert combined.df[0] == pytest.approx(7)


@pytest.mark.parametrize("kind", ["partial", "full"])
def test_one_data_set_says_what_is_missing(kind: str) -> None:
    combined = combine([[5.0]], [[4.0]], 7, kind)
    assert (combined.value[0], combined.variance[0], combined.df[0]) == (5, 4, 7)
    assert combined.note == [ONE_DATASET]


def test_missing_estimates_stay_missing() -> None:
    combined = combine([[1.0, np.nan], [2.0, 3.0]], [[1.0, np.nan], [1.0, 1.0]], 7, "full")
    assert np.isnan(combined.value[1])
    assert np.isnan(combined.variance[1])


def test_kind_has_no_default() -> None:
    with pytest.raises(Refused, match="partial"):
        combine(Q, U, 50, "none")


@pytest.mark.parametrize("kind", ["partial", "full"])
def test_repeated_sampling_covers(kind: str) -> None:
    """Data sets drawn as the rules assume: intervals cover at their level."""
    rng = np.random.default_rng(1)
    m, n, trials = 20, 50, 4000
    data = rng.normal(0.0, 1.0, (trials, n)).mean(axis=1)
    if kind == "partial":
        # Half of the estimate's error is kept, half is drawn anew around the data.
        q = data + rng.normal(0, np.sqrt(0.5 / n), (m, trials))
        u = np.full((m, trials), 1 / n)
        truth_variance = 1 / n + 0.5 / n / m
    else:
        # Posterior draws of the mean, then a synthetic sample's mean around each.
        q = data + rng.normal(0, np.sqrt(2 / n), (m, trials))
        u = np.full((m, trials), 1 / n)
        truth_variance = 1 / n + 2 / n / m
    combined = combine(q, u, n - 1, kind)
    assert combined.variance.mean() == pytest.approx(truth_variance, rel=0.02)


# How the m files of each kind arise: (variance of the data's estimate, variance of one file's
# estimate around it, sampling variance that a file reports, m).
ARISE = {
    "partial": (1.0, 0.5, 1.0, 5),
    "full": (1.5, 1.5 + 1.0, 1.0, 20),  # a draw of the parameter, then a sample around it
    "imputed": (1.0 + 0.5, 0.5, 1.0, 5),  # missing values cost the estimate what they vary by
}


@pytest.mark.parametrize("kind", list(ARISE))
def test_intervals_cover_with_few_clusters(kind: str) -> None:
    """Sampling variances with 8 degrees of freedom: intervals by their df cover at 95 %.

    20,000 trials have a Monte Carlo error of .0015; without the design's degrees of freedom
    partial synthesis covers .92 here. The two other rules are cautious by their own formulas
    (.98 to .99 here, with or without the design's part), so only a lower limit is theirs.
    """
    rng = np.random.default_rng(2)
    nu, trials = 8, 20_000
    of_data, of_file, sampling, m = ARISE[kind]
    data = rng.normal(0.0, np.sqrt(of_data), trials)
    q = data + rng.normal(0.0, np.sqrt(of_file), (m, trials))
    # one design, so one chi-square serves all m files, as for files that keep the real clusters
    u = np.broadcast_to(sampling * rng.chisquare(nu, trials) / nu, (m, trials))
    combined = combine(q, u, nu, kind)
    half = scipy.stats.t.ppf(0.975, combined.df) * np.sqrt(combined.variance)
    covered = np.mean(np.abs(combined.value) <= half)
    assert covered >= 0.94
    if kind == "partial":
        assert covered <= 0.96
