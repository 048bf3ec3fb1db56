"""Tables of field x gender with all margins, in plain NumPy, for studies that make thousands.

The same numbers as `tabulate` (tested), for the 27 cells of T at once: Taylor variances by
stratum, by strata of known size, or over the whole sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

import understudy as us

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Variance = Literal["strata", "known sizes", "whole"]

ALL = "All"
FIELDS = tuple(range(1, 9))
GENDERS = ("Male", "Female")
CELLS = [(f, g) for f in (*map(str, FIELDS), ALL) for g in (ALL, *GENDERS)]  # T's order, 27
INNER = np.array([f != ALL and g != ALL for f, g in CELLS])
TOTALS = np.array([f != ALL and g == ALL for f, g in CELLS])  # the eight field totals


@dataclass(frozen=True)
class CellEstimates:
    """Estimates and variances of the 27 cells; arrays are (27,)."""

    value: Floats
    variance: Floats


@dataclass(frozen=True)
class Intervals:
    """Combined estimates with standard errors and limits; arrays are (27,)."""

    value: Floats
    se: Floats
    lower: Floats
    upper: Floats


class CellTable:
    """The cells of one sample: which records lie in which, and their strata."""

    def __init__(self, frame: pl.DataFrame) -> None:
        field = frame["field"].cast(pl.String).to_numpy()
        gender = frame["gender"].to_numpy()
        self.inside: Floats = np.array(
            [((field == f) | (f == ALL)) & ((gender == g) | (g == ALL)) for f, g in CELLS],
            dtype=np.float64,
        )
        self.stratum: Ints = np.unique(field, return_inverse=True)[1]

    def counts(self, w: Floats, kind: Variance = "strata") -> CellEstimates:
        z = self.inside * w
        return CellEstimates(z.sum(axis=1), self._variance(z, w, kind))

    def means(self, y: Floats, w: Floats, kind: Variance = "strata") -> CellEstimates:
        z = self.inside * w
        size = z.sum(axis=1)
        mean = z @ y / size
        residual = z * (y - mean[:, None]) / size[:, None]
        return CellEstimates(mean, self._variance(residual, w, kind))

    def _variance(self, z: Floats, w: Floats, kind: Variance) -> Floats:
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


def combined(parts: list[CellEstimates], df: float, normal: bool = False) -> Intervals:
    """m tables by the rules of partial synthesis; 95 % limits by t, or by 1.96 if `normal`."""
    combination = us.combine_estimates(
        [p.value for p in parts], [p.variance for p in parts], df, "partial"
    )
    se = np.sqrt(combination.variance)
    quantile = (
        np.full(len(se), stats.norm.ppf(0.975)) if normal else stats.t.ppf(0.975, combination.df)
    )
    return Intervals(
        combination.value, se, combination.value - quantile * se, combination.value + quantile * se
    )


def population_truth(persons: pl.DataFrame) -> dict[str, Floats]:
    """Counts and mean salaries of the 27 cells in the population."""
    table = CellTable(persons)
    ones = np.ones(persons.height)
    salary = persons["salary"].to_numpy()
    size = table.inside @ ones
    return {"count": size, "mean(salary)": table.inside @ salary / size}
