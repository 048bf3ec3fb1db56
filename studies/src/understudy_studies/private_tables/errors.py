"""Monte Carlo errors of the private-tables study: what another set of replicates would change.

Cells of one replicate depend on each other, so that a replicate is the unit: coverage has the
standard error of the replicates' mean coverages, and RMSE ratios the jackknife's over replicates.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[np.float64]
KEYS = ["model", "mechanism", "epsilon", "m", "formulas", "statistic"]
FILE_ORDER = "file order"
ROUNDING = 1e-9  # relative: a count whose size is public has an interval of no width
COVERED = (pl.col("lower") <= pl.col("truth") * (1 + ROUNDING)) & (
    pl.col("truth") * (1 - ROUNDING) <= pl.col("upper")
)


def monte_carlo_errors(rows: pl.DataFrame) -> pl.DataFrame:
    """Errors of `coverage_16`, `coverage_fields` and `rmse_ratio_16`, one line per method."""
    rows = rows.with_columns(
        covered=COVERED,
        squared=(pl.col("estimate") - pl.col("truth")) ** 2,
        design=pl.col("mechanism").str.ends_with(FILE_ORDER),
    )
    at = ["design", "statistic", "replicate", "field", "gender"]
    own = rows.filter(pl.col("model") == "Sample").select(*at, pl.col("squared").alias("own"))
    rows = rows.join(own, on=at, how="left", maintain_order="left")
    lines = []
    for key, part in rows.group_by(KEYS, maintain_order=True):
        inner, fields = part.filter(pl.col("inner")), part.filter(pl.col("total"))
        lines.append(
            dict(zip(KEYS, key, strict=True))
            | {
                "coverage_16_error": _error_of_mean(_by_replicate(inner, "covered").mean(axis=1)),
                "coverage_fields_error": _error_of_mean(
                    _by_replicate(fields, "covered").mean(axis=1)
                ),
                "rmse_ratio_16_error": jackknife_error(
                    _by_replicate(inner, "squared"), _by_replicate(inner, "own")
                ),
            }
        )
    return pl.DataFrame(lines, infer_schema_length=None)


def jackknife_error(squared: Floats, own: Floats) -> float | None:
    """Of the mean over cells of sqrt(mean squared / mean own); arrays are (replicates, cells)."""
    count = len(squared)
    if count < 3:
        return None
    left_out = [(a.sum(axis=0) - a) for a in (squared, own)]
    ratios = np.sqrt(left_out[0] / left_out[1]).mean(axis=1)
    return float(np.sqrt((count - 1) * ratios.var()))


def _by_replicate(part: pl.DataFrame, column: str) -> Floats:
    replicates = part["replicate"].n_unique()
    ordered = part.sort("replicate", maintain_order=True)[column].cast(pl.Float64)
    return ordered.to_numpy().reshape(replicates, -1)


def _error_of_mean(values: Floats) -> float | None:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
