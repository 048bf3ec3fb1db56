"""Percentile-bootstrap intervals of the mean, the median and quantiles (R Tables 4 and 6).

As in R: every data set is resampled with replacement, the statistic is computed on each
resample, the estimate is the mean of the replicates and the limits are their percentiles;
the replicates of L synthetic data sets are pooled. The pooled interval therefore shows how
one synthetic data set scatters, and does not shrink with L; for the precision of an
estimate that combines the L data sets use the combining rules (`tabulate(..., combine=)`).
Design weights are not used.

Quantiles need no resampling. The k-th smallest of n positions drawn with replacement is
floor(n U_(k)), with U_(k) the k-th smallest of n uniforms: Beta(k, n - k + 1). Drawing that
gives exactly the distribution that resampling gives, at a cost that does not depend on n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.errors import Refused, UnknownName
from understudy.tables.computation import computation

__public__ = ("bootstrap_intervals",)

Floats = npt.NDArray[np.float64]

BLOCK = 4_000_000  # resampled values held in memory at a time
LARGE = 20_000  # values; the means of more are resampled by counts
GROUPS, ENDS = 500, 100  # of neighbouring values, and single values at each end


@dataclass(frozen=True)
class BootstrapInterval:
    """One statistic: on the data as they are, and over the bootstrap replicates."""

    statistic: str
    plain: float  # the statistic itself, averaged over the data sets
    estimate: float  # mean of the replicates, as R reports it
    lower: float
    upper: float
    level: float

    @property
    def length(self) -> float:
        return self.upper - self.lower


@computation()
def bootstrap_intervals(
    data: npt.ArrayLike | Sequence[npt.ArrayLike],
    statistics: Sequence[str | float] = ("mean", "median"),
    *,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
) -> list[BootstrapInterval]:
    """Intervals of one column, or of the pooled replicates of L synthetic columns.

    `statistics` are "mean", "median", or a number in (0, 1): that quantile (R's type 7).
    A list or tuple of arrays is L data sets; `replicates` is per data set.
    """
    if not 0 < level < 1:
        raise Refused("The confidence level must lie between 0 and 1.")
    if replicates < 2:
        raise Refused("A bootstrap needs at least 2 replicates; 1000 is usual.")
    columns = [_column(values) for values in _datasets(data)]
    intervals = []
    for statistic in statistics:
        probability = _probability(statistic)
        drawn = np.concatenate([_replicates(c, probability, replicates, rng) for c in columns])
        plain = np.mean([_plain(column, probability) for column in columns])
        lower, upper = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
        intervals.append(
            BootstrapInterval(
                statistic_name(statistic),
                float(plain),
                float(drawn.mean()),
                float(lower),
                float(upper),
                level,
            )
        )
    return intervals


def statistic_name(statistic: str | float) -> str:
    """ "mean", "median", or "quantile 0.9" for a number."""
    return statistic if isinstance(statistic, str) else f"quantile {statistic:g}"


def mean_replicates(values: Floats, replicates: int, rng: np.random.Generator) -> Floats:
    """Means of resamples of the same size, (replicates,); in blocks of bounded memory."""
    n = len(values)
    if n > LARGE:
        return _mean_replicates_by_counts(values, replicates, rng)
    rows = max(1, BLOCK // n)
    means = np.empty(replicates)
    for at in range(0, replicates, rows):
        count = min(rows, replicates - at)
        means[at : at + count] = values[rng.integers(0, n, (count, n))].mean(axis=1)
    return means


def _mean_replicates_by_counts(values: Floats, replicates: int, rng: np.random.Generator) -> Floats:
    """The same for many values, from the counts of groups of neighbouring ones.

    How many of the n draws fall into each group is multinomial, and is drawn. Given the counts c,
    the sum has the mean sum c_g m_g and the variance sum c_g v_g, of the groups' own means and
    variances; it is drawn as a normal number, a small part of the whole scatter. The largest and
    the smallest values are groups of one, which have no variance.
    """
    n = len(values)
    ascending = np.sort(values)
    inner = np.linspace(ENDS, n - ENDS, GROUPS + 1).astype(np.int64)
    starts = np.concatenate([np.arange(ENDS), inner[:-1], np.arange(n - ENDS, n)])
    sizes = np.diff(np.append(starts, n))
    means = np.add.reduceat(ascending, starts) / sizes
    variances = np.add.reduceat((ascending - np.repeat(means, sizes)) ** 2, starts) / sizes
    counts = rng.multinomial(n, sizes / n, replicates)
    scatter = np.sqrt(counts @ variances) * rng.standard_normal(replicates)
    return np.asarray((counts @ means + scatter) / n)


def quantile_replicates(
    values: Floats, probability: float, replicates: int, rng: np.random.Generator
) -> Floats:
    """Quantiles (type 7) of resamples, drawn through the order statistics of positions."""
    ascending = np.sort(values)
    n = len(ascending)
    position = probability * (n - 1)
    k = int(np.floor(position)) + 1  # 1-based order statistic below the quantile
    below = rng.beta(k, n - k + 1, replicates)
    low = ascending[np.minimum((n * below).astype(np.int64), n - 1)]
    fraction = position - (k - 1)
    if fraction == 0 or k == n:
        return low
    # Given U_(k), the next one is the smallest of n - k uniforms on the rest of (0, 1).
    above = below + (1 - below) * rng.beta(1, n - k, replicates)
    high = ascending[np.minimum((n * above).astype(np.int64), n - 1)]
    return low + fraction * (high - low)


def _replicates(
    values: Floats, probability: float | None, replicates: int, rng: np.random.Generator
) -> Floats:
    if probability is None:
        return mean_replicates(values, replicates, rng)
    return quantile_replicates(values, probability, replicates, rng)


def _plain(values: Floats, probability: float | None) -> float:
    return float(values.mean() if probability is None else np.quantile(values, probability))


def _probability(statistic: str | float) -> float | None:
    """The quantile that a statistic asks for; None for the mean."""
    if statistic == "mean":
        return None
    if statistic == "median":
        return 0.5
    if isinstance(statistic, str):
        raise UnknownName("statistic", statistic, ("mean", "median"), "or a number in (0, 1).")
    if not 0 < statistic < 1:
        raise Refused("A quantile is asked for by a number between 0 and 1.")
    return float(statistic)


def _datasets(data: npt.ArrayLike | Sequence[npt.ArrayLike]) -> list[npt.ArrayLike]:
    if isinstance(data, (list, tuple)) and len(data) > 0 and np.ndim(data[0]) == 1:
        return list(data)
    return [data]  # type: ignore[list-item]


def _column(values: npt.ArrayLike) -> Floats:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1 or len(column) < 2 or not np.isfinite(column).all():
        raise Refused(
            "The bootstrap needs columns of at least 2 finite numbers; drop missing values first."
        )
    return column
