"""Combining rules against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.errors import Refused
from understudy.tables.combine import ADJUSTED, ONE_DATASET, combine

# Three data sets: q = 1, 2, 6, so qbar = 3, b = (4 + 1 + 9)/2 = 7; u = 1, 2, 3, ubar = 2.
Q, U = [[1.0], [2.0], [6.0]], [[1.0], [2.0], [3.0]]


def test_partial() -> None:
    found = combine(Q, U, 50, "partial")
    assert found.value[0] == pytest.approx(3)
    assert found.variance[0] == pytest.approx(2 + 7 / 3)
    assert found.df[0] == pytest.approx(2 * (1 + 2 / (7 / 3)) ** 2)
    assert found.note == [""]


def test_full() -> None:
    found = combine(Q, U, 50, "full")
    assert found.variance[0] == pytest.approx(4 / 3 * 7 - 2)
    assert found.df[0] == pytest.approx(2 * (1 - 2 / (4 / 3 * 7)) ** 2)


def test_full_with_negative_variance_takes_the_adjusted_form() -> None:
    found = combine(Q, [[30.0], [30.0], [33.0]], 50, "full")
    assert found.variance[0] == pytest.approx(31)
    assert found.df[0] == 50
    assert found.note == [ADJUSTED]


@pytest.mark.parametrize("kind", ["partial", "full"])
def test_no_spread_between_data_sets(kind: str) -> None:
    found = combine([[5.0], [5.0]], [[4.0], [2.0]], 7, kind)
    assert found.value[0] == 5
    assert found.variance[0] == pytest.approx(3)
    assert found.df[0] == (np.inf if kind == "partial" else 7)


@pytest.mark.parametrize("kind", ["partial", "full"])
def test_one_data_set_says_what_is_missing(kind: str) -> None:
    found = combine([[5.0]], [[4.0]], 7, kind)
    assert (found.value[0], found.variance[0], found.df[0]) == (5, 4, 7)
    assert found.note == [ONE_DATASET]


def test_missing_estimates_stay_missing() -> None:
    found = combine([[1.0, np.nan], [2.0, 3.0]], [[1.0, np.nan], [1.0, 1.0]], 7, "full")
    assert np.isnan(found.value[1])
    assert np.isnan(found.variance[1])


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
    found = combine(q, u, n - 1, kind)
    assert found.variance.mean() == pytest.approx(truth_variance, rel=0.02)
