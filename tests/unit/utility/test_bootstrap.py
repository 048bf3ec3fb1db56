"""Means of large columns are resampled by counts of neighbouring values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from understudy.utility import bootstrap
from understudy.utility.bootstrap import LARGE, mean_replicates


@pytest.mark.parametrize(
    ("shape", "groups", "moments"), [(0.5, 2_000, 3), (2, 2_000, 3), (0.5, 4, 2)]
)
def test_means_of_many_values_by_counts(
    monkeypatch: pytest.MonkeyPatch, shape: float, groups: int, moments: int
) -> None:
    """The moments of the bootstrap mean have closed forms; a heavy tail shows in the third, and
    what groups do not see (here nearly all, if there are few) in the second."""
    monkeypatch.setattr(bootstrap, "GROUPS", groups)
    monkeypatch.setattr(bootstrap, "ENDS", groups // 4)
    values = np.random.default_rng(2).lognormal(0, shape, LARGE + 1)
    n, replicates = len(values), 20_000
    drawn = mean_replicates(values, replicates, np.random.default_rng(3))
    deviation = values - values.mean()
    variance, third = np.mean(deviation**2) / n, np.mean(deviation**3) / n**2
    centred = drawn - values.mean()
    for power, closed in enumerate((0.0, variance, third)[:moments], start=1):
        powers = centred**power
        assert abs(powers.mean() - closed) < 6 * powers.std() / np.sqrt(replicates)


def test_means_by_counts_have_the_quantiles_of_resampling(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(5).lognormal(0, 1.5, LARGE + 1)
    by_counts = mean_replicates(values, 2_000, np.random.default_rng(6))
    monkeypatch.setattr(bootstrap, "LARGE", len(values))
    resampled = mean_replicates(values, 2_000, np.random.default_rng(7))
    assert stats.ks_2samp(by_counts, resampled).pvalue > 1e-6
