"""Tables of field x gender with all margins, in plain NumPy, for studies that make thousands.

The same numbers as `tabulate` (tested), for the 27 cells of T at once: Taylor variances by
stratum, by strata of known size, or over the whole sample.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl
from scipy import stats

import understudy as us
from understudy_studies.framework import Vector

Estimates = tuple[Vector, Vector]
Variance = Literal["strata", "known sizes", "whole"]

ALL = "All"
FIELDS = tuple(range(1, 9))
GENDERS = ("Male", "Female")
CELLS = [(f, g) for f in (*map(str, FIELDS), ALL) for g in (ALL, *GENDERS)]  # T's order, 27
INNER = np.array([f != ALL and g != ALL for f, g in CELLS])
TOTALS = np.array([f != ALL and g == ALL for f, g in CELLS])  # the eight field totals
CELL_COLUMNS = pl.DataFrame(CELLS, ["field", "gender"], orient="row")


class CellTable:
    """The cells of one sample: which records lie in which, and their strata. Estimates of the cells
    come with their variances, two arrays of (27,)."""

    def __init__(self, frame: pl.DataFrame) -> None:
        field = frame["field"].cast(pl.String).to_numpy()
        gender = frame["gender"].to_numpy()
        self.inside: Vector = np.array(
            [((field == f) | (f == ALL)) & ((gender == g) | (g == ALL)) for f, g in CELLS],
            dtype=np.float64,
        )
        self.stratum = np.unique(field, return_inverse=True)[1]

    def counts(self, w: Vector, kind: Variance = "strata") -> Estimates:
        z = self.inside * w
        return z.sum(axis=1), self._variance(z, w, kind)

    def means(self, y: Vector, w: Vector, kind: Variance = "strata") -> Estimates:
        z = self.inside * w
        size = z.sum(axis=1)
        mean = z @ y / size
        residual = z * (y - mean[:, None]) / size[:, None]
        return mean, self._variance(residual, w, kind)

    def _variance(self, z: Vector, w: Vector, kind: Variance) -> Vector:
        """sum_h n_h/(n_h - 1) sum_i (z_i - zbar_h)^2 (methods §2), every record its own PSU; with
        known stratum sizes z_i - w_i Z_h/N_h stands for z_i (methods §5)."""
        stratum = np.zeros_like(self.stratum) if kind == "whole" else self.stratum
        total = np.zeros(len(z))
        for h in range(stratum.max() + 1):
            part, weight = z[:, stratum == h], w[stratum == h]
            if kind == "known sizes":
                part = part - np.outer(part.sum(axis=1) / weight.sum(), weight)
            n = part.shape[1]
            total += n / (n - 1) * np.square(part - part.mean(axis=1, keepdims=True)).sum(axis=1)
        return total


def combined(tables: list[Estimates], df: float, normal: bool = False) -> pl.DataFrame:
    """m tables by the rules of partial synthesis; 95 % limits by t, or by 1.96 if `normal`."""
    values, variances = zip(*tables, strict=True)
    combination = us.combine_estimates(values, variances, df, "partial")
    quantile = stats.norm.ppf(0.975) if normal else stats.t.ppf(0.975, combination.df)
    return with_limits(combination.value, np.sqrt(combination.variance), quantile)


def with_limits(value: Vector, se: Vector, quantile: float | Vector) -> pl.DataFrame:
    """A row for each cell: estimate, se and limits."""
    limits = {"lower": value - quantile * se, "upper": value + quantile * se}
    return CELL_COLUMNS.with_columns(pl.DataFrame({"estimate": value, "se": se, **limits}))


def population_truth(persons: pl.DataFrame) -> dict[str, Vector]:
    """Counts and mean salaries of the 27 cells in the population."""
    table, ones = CellTable(persons), np.ones(persons.height)
    means, _ = table.means(persons["salary"].to_numpy(), ones)
    return {"count": table.counts(ones)[0], "mean(salary)": means}
