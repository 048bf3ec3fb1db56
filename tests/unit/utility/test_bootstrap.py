"""Means of large columns are resampled by counts of neighbouring values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from understudy.utility import bootstrap
from understudy.utility.bootstrap import LARGE, mean_replicates


@pytest.mark.parametrize(
    ("shape", "groups", "moments", "replicates"),
    [(0.5, 200, 3, 20_000), (2, 200, 3, 40_000), (0.5, 4, 2, 100_000)],
)
def test_means_of_many_values_by_counts(
    monkeypatch: pytest.MonkeyPatch, shape: float, groups: int, moments: int, replicates: int
) -> None:
    """The moments of the bootstrap mean have closed forms; a heavy tail shows in the third, and
    what groups do not see (here nearly all, if there are few) in the second. A tenth of the values
    in a tenth of the groups: the third moment stands out more the fewer the values."""
    n = 2_001
    monkeypatch.setattr(bootstrap, "LARGE", n - 1)
    monkeypatch.setattr(bootstrap, "GROUPS", groups)
    monkeypatch.setattr(bootstrap, "ENDS", groups // 4)
    values = stats.lognorm(shape).ppf((np.arange(n) + 0.5) / n)
    drawn = mean_replicates(values, replicates, np.random.default_rng(3))
    deviation = values - values.mean()
    variance, third = np.mean(deviation**2) / n, np.mean(deviation**3) / n**2
    centred = drawn - values.mean()
    for power, closed in enumerate((0.0, variance, third)[:moments], start=1):
        powers = centred**power
        assert abs(powers.mean() - closed) < 6 * powers.std() / np.sqrt(replicates)


class ExpectedCounts:
    """Draws what is expected of every group, and a normal number of 1."""

    def multinomial(self, n: int, shares: np.ndarray, size: int) -> np.ndarray:
        return np.tile(n * shares, (size, 1))

    def standard_normal(self, size: int) -> np.ndarray:
        return np.ones(size)


def test_what_groups_do_not_see_is_a_small_part_of_the_scatter() -> None:
    values = stats.norm.ppf((np.arange(LARGE + 1) + 0.5) / (LARGE + 1))
    drawn: Any = ExpectedCounts()
    unseen = (mean_replicates(values, 1, drawn)[0] - values.mean()) * len(values)
    assert 0 < unseen**2 < 0.001 * np.sum((values - values.mean()) ** 2)


def test_means_by_counts_have_the_quantiles_of_resampling(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(5).lognormal(0, 1.5, LARGE + 1)
    by_counts = mean_replicates(values, 2_000, np.random.default_rng(6))
    monkeypatch.setattr(bootstrap, "LARGE", len(values))
    resampled = mean_replicates(values, 2_000, np.random.default_rng(7))
    assert stats.ks_2samp(by_counts, resampled).pvalue > 1e-6
