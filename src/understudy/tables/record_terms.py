"""The terms of linear statistics, record by record, for variances that need every record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.tables.design_records import DesignRecords

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
AT_ONCE = 16  # domains whose linearised values lie in memory side by side


@dataclass(frozen=True)
class RecordTerms:
    """The columns of the GROUP BY before it: a record's cell, and its terms of each statistic."""

    frame: pl.DataFrame
    design: DesignRecords

    def domain(self, rows: pl.DataFrame, domain: Ints) -> Ints:
        """The domain of each record, from that of the rows of the GROUP BY; -1 outside of all."""
        names = [name for name in rows.columns if name.startswith("by")]
        if not names:
            inside = np.zeros(self.frame.height, dtype=np.int64)
        else:
            each = rows.select(names).with_columns(pl.Series("domain", domain)).unique()
            inside = (
                self.frame.select(names)
                .join(each, on=names, how="left", nulls_equal=True, maintain_order="left")
                ["domain"].fill_null(-1).to_numpy()
            )  # fmt: skip
        if "inside" in self.frame.columns:
            inside = np.where(self.frame["inside"].to_numpy(), inside, -1)
        return inside

    def values(
        self, j: int, domain: Ints, count: int, pivot: float | None
    ) -> tuple[Floats, Floats]:
        """Statistic j in each domain, and each record's linearised value w (a - R x)/X."""
        weight = self.frame["w"].to_numpy()
        a = self.frame[f"a{j}"].to_numpy().astype(np.float64)
        known = domain >= 0
        top = np.bincount(domain[known], (weight * a)[known], count).astype(np.float64)
        if pivot is None:
            return top, np.where(known, weight * a, 0.0)
        x = self.frame[f"x{j}"].to_numpy().astype(np.float64)
        below = np.bincount(domain[known], (weight * x)[known], count)
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = np.where(below != 0, top / below, np.nan)
        of_record, scale = np.nan_to_num(shift)[domain], np.where(below != 0, below, 1.0)[domain]
        return pivot + shift, np.where(known, weight * (a - of_record * x) / scale, 0.0)

    def variances(self, z: Floats, domain: Ints, count: int) -> Floats:
        """The variance of each domain's sum of z."""
        out = []
        for start in range(0, count, AT_ONCE):
            numbers = np.arange(start, min(start + AT_ONCE, count))
            out.append(np.diag(self.design.covariance(self.apart(z, domain, numbers))))
        return np.concatenate(out)

    def simple_variances(self, j: int, z: Floats, domain: Ints, count: int) -> Floats:
        """What each domain's variance would be in a simple random sample of its size, without
        replacement: N^2 (1 - n/N) s^2/n, s^2 the weighted variance of the linearised e = z/w, N the
        domain's weight and n its records with weight (R survey's deff)."""
        weight = self.frame["w"].to_numpy()
        used = (domain >= 0) & (weight > 0)
        if f"k{j}" in self.frame.columns:
            used &= self.frame[f"k{j}"].to_numpy()
        where, w, e = domain[used], weight[used], z[used] / weight[used]
        n, size = np.bincount(where, minlength=count), np.bincount(where, w, count)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.bincount(where, w * e, count) / size
            squares = np.bincount(where, w * (e - mean[where]) ** 2, count)
            simple = squares / size * n / (n - 1) * size**2 / n * (1 - n / size)
        tiny = squares <= 1e-20 * np.bincount(where, w * e**2, count)  # constant but for rounding
        return np.where((simple > 0) & ~tiny, simple, np.nan)

    def apart(self, z: Floats, domain: Ints, numbers: Ints) -> Floats:
        """(records, domains): z where the record is in the domain, else 0."""
        return np.where(domain[:, None] == numbers, z[:, None], 0.0)
