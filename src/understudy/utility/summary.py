"""Utility of synthetic data sets in one look: ECDF distances, intervals and their overlap, pMSE.

Everything here is computed from confidential data and belongs to the internal report only.
Design weights are not used; for design-based estimates see `utility.estimates.compare`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from understudy.errors import Refused
from understudy.survey.survey import Survey
from understudy.tables.computation import computation
from understudy.utility.bootstrap import bootstrap_intervals
from understudy.utility.ecdf import ecdf_distance
from understudy.utility.interval_overlap import interval_overlap
from understudy.utility.propensity import Propensity, propensity_score

STATISTICS: tuple[str | float, ...] = ("mean", "median", 0.15, 0.9)


@dataclass(frozen=True)
class UtilitySummary:
    """How close L synthetic data sets are to the confidential data."""

    datasets: int
    distances: pl.DataFrame  # column, U_m, U_a, missing_confidential, missing_synthetic
    intervals: pl.DataFrame  # column, statistic, confidential and synthetic with limits, overlap
    propensity: tuple[Propensity, ...]  # one per data set

    @property
    def mean_pmse_ratio(self) -> float:
        """Mean over the data sets; about 1 when the synthesis model is right."""
        return float(np.mean([score.ratio for score in self.propensity]))


@computation()
def summarise_utility(
    confidential: Survey | pl.DataFrame,
    synthetic: Sequence[Survey | pl.DataFrame],
    columns: Sequence[str],
    *,
    rng: np.random.Generator,
    replicates: int = 1000,
    level: float = 0.95,
    statistics: Sequence[str | float] = STATISTICS,
    classes: int | None = None,
) -> UtilitySummary:
    """U_m and U_a (averaged over data sets), bootstrap intervals with overlap, and pMSE.

    Distances and intervals are of the numeric columns; pMSE takes all of them together.
    `classes` puts numbers into classes for the pMSE (see `propensity_score`).
    Missing values are left out of distances and intervals, and counted.
    """
    files = list(synthetic)
    if not files:
        raise Refused("Give at least one synthetic data set to compare with the confidential one.")
    ours = _frame(confidential, columns)
    theirs = [_frame(file, columns) for file in files]
    distances, intervals = [], []
    for name in ours.columns:
        if not all(frame[name].dtype.is_numeric() for frame in (ours, *theirs)):
            continue
        original, made = present(ours[name]), [present(frame[name]) for frame in theirs]
        if len(original) < 2 or min(len(values) for values in made) < 2:
            raise Refused(f"The column `{name}` has fewer than 2 values in one of the files.")
        apart = np.mean([ecdf_distance(original, values) for values in made], axis=0)
        distances.append(
            {
                "column": name,
                "U_m": float(apart[0]),
                "U_a": float(apart[1]),
                "missing_confidential": ours.height - len(original),
                "missing_synthetic": sum(
                    t.height - len(m) for t, m in zip(theirs, made, strict=True)
                ),
            }
        )
        settings: dict[str, Any] = {"rng": rng, "replicates": replicates, "level": level}
        first = bootstrap_intervals(original, statistics, **settings)
        second = bootstrap_intervals(made, statistics, **settings)
        for a, b in zip(first, second, strict=True):
            intervals.append(
                {
                    "column": name,
                    "statistic": a.statistic,
                    "confidential": a.estimate,
                    "lower": a.lower,
                    "upper": a.upper,
                    "synthetic": b.estimate,
                    "synthetic_lower": b.lower,
                    "synthetic_upper": b.upper,
                    "overlap": float(interval_overlap(a.lower, a.upper, b.lower, b.upper)),
                }
            )
    scores = tuple(propensity_score(ours, frame, ours.columns, classes=classes) for frame in theirs)
    return UtilitySummary(
        len(files),
        pl.DataFrame(distances, schema=_DISTANCES),
        pl.DataFrame(intervals, schema=_INTERVALS),
        scores,
    )


def present(column: pl.Series) -> npt.NDArray[np.float64]:
    """The values of a numeric column that are there."""
    values = column.cast(pl.Float64).fill_nan(None).drop_nulls()
    return values.to_numpy()


def _frame(data: Survey | pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    return (data if isinstance(data, Survey) else Survey(data)).frame(list(dict.fromkeys(columns)))


_DISTANCES = {
    "column": pl.String,
    "U_m": pl.Float64,
    "U_a": pl.Float64,
    "missing_confidential": pl.Int64,
    "missing_synthetic": pl.Int64,
}
_INTERVALS = {
    "column": pl.String,
    "statistic": pl.String,
    "confidential": pl.Float64,
    "lower": pl.Float64,
    "upper": pl.Float64,
    "synthetic": pl.Float64,
    "synthetic_lower": pl.Float64,
    "synthetic_upper": pl.Float64,
    "overlap": pl.Float64,
}
