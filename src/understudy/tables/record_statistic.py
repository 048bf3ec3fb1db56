"""Statistics of records in memory: an estimate under any weight, and its derivative by the weights.

The derivative d theta/d w_k is the linearised value of record k: the variance is that of the sum of
w_k d theta/d w_k (Deville 1999). With replicate weights the estimate is made anew under each.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.tables.design_records import DesignRecords
from understudy.tables.expression import Expression
from understudy.tables.replicates import replicate_covariance, replicate_variance
from understudy.tables.statistic import Cells, Reader, Statistic
from understudy.tables.taylor import DomainEstimates

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class RecordStatistic(Statistic, abstract=True):
    """Written `name(x)`. `x` and `w` hold the records of the requested domain that have an x, and
    `cell` marks those of one cell."""

    interval = "t"

    x: Expression

    @classmethod
    def arguments(cls, reader: Reader) -> dict[str, Any]:
        return {"x": reader.only_expression()}

    @property
    def columns(self) -> tuple[str, ...]:
        return self.x.columns

    @abstractmethod
    def value(self, x: Floats, w: Floats, cell: Mask) -> float:
        """The estimate; NaN where there is none."""

    @abstractmethod
    def derivative(self, x: Floats, w: Floats, cell: Mask) -> Floats:
        """d value/d w of each record, (n,)."""

    def check(self, x: Floats) -> None:
        """Refused where the statistic does not exist for such values."""

    def estimates(self, cells: Cells) -> DomainEstimates:
        values, spread, records = self._spread(cells)
        design = records.design
        if design.replicates and cells.survey.design.replicates is not None:
            spec = cells.survey.design.replicates
            variance, _ = replicate_variance(values, spread, spec)
        else:
            each = [np.diag(design.covariance(z[:, None])) for z in spread]
            variance = np.concatenate(each) if each else np.zeros(0)
        counts = np.bincount(records.cell[records.used & (records.cell >= 0)], None, cells.count)
        variance = np.where(np.isnan(values) | (counts < 2), np.nan, variance)
        return DomainEstimates(values, variance, records=counts.astype(np.float64))

    def joint(self, cells: Cells) -> tuple[Floats, Floats]:
        values, spread, records = self._spread(cells)
        spec = cells.survey.design.replicates
        if records.design.replicates and spec is not None:
            return values, replicate_covariance(values, spread, spec)
        return values, records.design.covariance(spread.T)

    def _spread(self, cells: Cells) -> tuple[Floats, Floats, _Records]:
        """(cells,) values, and (cells, R) replicated ones or (cells, n) linearised ones."""
        records = _Records(self, cells)
        used, weight = records.used, records.design.weight
        x = records.x[used]
        self.check(x)
        masks = [records.cell[used] == number for number in range(cells.count)]
        values = np.array([self._of(x, weight[used], mask) for mask in masks])
        if records.design.replicates:
            each = records.design.replicate_weights[used].T
            return values, np.array([[self._of(x, w, m) for w in each] for m in masks]), records
        spread = np.zeros((cells.count, len(used)))
        for number, mask in enumerate(masks):
            if not np.isnan(values[number]):
                spread[number, used] = weight[used] * self.derivative(x, weight[used], mask)
        return values, spread, records

    def _of(self, x: Floats, w: Floats, cell: Mask) -> float:
        return self.value(x, w, cell) if w[cell].sum() > 0 else float("nan")

    def r_call(self, number: int) -> str:  # noqa: ARG002
        return ""


class _Records:
    """x, the cell of each record (-1 for none), and who is used: inside the domain, with an x."""

    def __init__(self, statistic: RecordStatistic, cells: Cells) -> None:
        cells.survey.refuse_on_cluster(statistic.text)
        table, names = cells.survey.table, [cells.names[k] for k in cells.kept]
        columns: dict[str, Any] = {"x": statistic.x.numbers(statistic.text, table)}
        columns |= {f"by{k}": table[name] for k, name in zip(cells.kept, names, strict=True)}
        if cells.inside is not None:
            columns["inside"] = cells.inside
        frame = table.select(**columns).to_polars()
        self.design = DesignRecords(cells.survey)
        self.x: Floats = frame["x"].cast(pl.Float64).fill_null(np.nan).to_numpy()
        self.used: Mask = np.isfinite(self.x)
        if np.isinf(self.x).any():
            raise Refused(f"{statistic.text} meets infinite values; leave them out with `where`.")
        if cells.inside is not None:
            self.used = self.used & frame["inside"].to_numpy()
        self.cell = np.zeros(frame.height, dtype=np.int64)
        if cells.kept:
            keys = [f"by{k}" for k in cells.kept]
            levels = cells.levels.with_row_index("cell")
            joined = frame.select(keys).join(
                levels, on=keys, how="left", nulls_equal=True, maintain_order="left"
            )
            self.cell = joined["cell"].cast(pl.Int64).fill_null(-1).to_numpy()


def weighted_quantile(x: Floats, w: Floats, p: float) -> float:
    """The smallest value whose weighted distribution function reaches p."""
    order = np.argsort(x, kind="stable")
    share = np.cumsum(w[order])
    return float(x[order][np.searchsorted(share, (p - 1e-12) * share[-1])])


def density(x: Floats, w: Floats, at: float) -> float:
    """A normal kernel, its width by Silverman's rule .79 IQR n^(-1/5)."""
    spread = weighted_quantile(x, w, 0.75) - weighted_quantile(x, w, 0.25)
    width = 0.79 * spread * len(x) ** -0.2
    if width <= 0:
        return float("nan")
    kernel = np.exp(-(((x - at) / width) ** 2) / 2) / np.sqrt(2 * np.pi)
    return float(w @ kernel / w.sum() / width)
