"""Records sorted once by cell and value, for the quantiles of all cells and margins.

Weights are added up along the values of each cell of the whole classification. The weight of a
margin at or below a value is the sum over its cells, so a quantile is found by halving an interval
of values, with one search in each cell; and the records at or below a value are the first ones of
each cell, so that their sums by stratum and PSU are sums of segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import ibis
import ibis.expr.types as ir
import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.survey.survey import Survey
from understudy.tables.collect import Sums
from understudy.tables.first_look import Linear
from understudy.tables.numbers import as_float

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
BATCH = 100_000  # records whose replicate weights are held at once
AT_ONCE = 1_000_000  # replicate weights that are read with the values, not in a second pass
CLOSE = 1e-12  # a share that equals p but for rounding counts as reaching it


class SortedRecords:
    """The known values of one variable inside the requested domain, with their weights."""

    def __init__(
        self,
        survey: Survey,
        y: ir.NumericValue,
        by: Sequence[ir.Value],
        inside: ir.BooleanValue | None,
        sums: Sums,
    ) -> None:
        self.sums = sums
        self.keys, self.query = _query(survey, y, by, inside, sums)
        self.replicates = [f"r{r}" for r in range(len(sums.replicates))]
        few = 0 < sums.count * len(self.replicates) <= AT_ONCE
        records = (self.query if few else self.query.drop(*self.replicates)).to_polars()
        self.held = records if few else None
        row, values = self._rows(records), records["y"].to_numpy()
        w = records["w"].to_numpy() if survey.design.weight else np.ones(records.height)
        self.cell_of_row, levels = sums.cells(range(len(by)))
        self.cells = max(levels.height, 1)
        cell = self.cell_of_row[row]
        small = np.uint16 if self.cells < 1 << 16 else np.int64  # sorted by digits if it is small
        order = np.argsort(cell.astype(small), kind="stable")
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(cell, minlength=self.cells))])
        for first, last in self.slices():
            part = order[first:last]
            order[first:last] = part[np.argsort(values[part])]
        self.row, self.y, self.w = row[order], values[order], w[order]
        self.upto = [
            np.concatenate([[0.0], np.cumsum(self.w[first:last])]) for first, last in self.slices()
        ]

    def slices(self) -> list[tuple[int, int]]:
        """Where the records of each cell begin and end."""
        return list(zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True))

    def domains(self, domain: Ints) -> Ints:
        """The domain of each cell, from that of each row of the sums."""
        of_cell = np.zeros(self.cells, dtype=np.int64)
        of_cell[self.cell_of_row[self.cell_of_row >= 0]] = domain[self.cell_of_row >= 0]
        return of_cell

    def inverse(self, of_cell: Ints, shares: Floats) -> Floats:
        """(domains, k): the smallest value whose share of the domain's weight reaches each of the
        (domains, k) shares; NaN where there is none."""
        weight = np.bincount(of_cell, [upto[-1] for upto in self.upto], len(shares))
        with np.errstate(invalid="ignore"):
            wanted = (shares - CLOSE) * weight[:, None]
        reachable = (wanted <= weight[:, None]) & (weight > 0)[:, None]
        ends = _ordered(np.array([self.y.min(), self.y.max()])) if len(self.y) else np.zeros(2)
        low = np.full(shares.shape, int(ends[0]))
        high = np.full(shares.shape, int(ends[1]))
        while (low < high).any():
            middle = (low >> 1) + (high >> 1) + (low & high & 1)  # their sum may not fit
            reached = self._weight_upto(of_cell, _value(middle)) >= wanted
            high = np.where(reached, middle, high)
            low = np.where(reached, low, np.minimum(middle + 1, high))
        return np.where(reachable, _value(high), np.nan)

    def shares(self, of_cell: Ints, values: Floats) -> Sums:
        """The sums of the share at or below each of the (domains, k) values: one statistic each."""
        count, rows = values.shape[1], self.sums.frame.height
        ranks = np.zeros((self.cells, count), dtype=np.int64)
        segment = np.empty(len(self.y), dtype=np.int64)
        for cell, (first, last) in enumerate(self.slices()):
            edges = self._positions(cell, values[of_cell[cell]])
            order = np.argsort(edges, kind="stable")
            ranks[cell, order] = np.arange(count)
            lengths = np.diff(np.concatenate([[0], edges[order], [last - first]]))
            segment[first:last] = np.repeat(np.arange(count + 1), lengths)
        code = self.row * (count + 1) + segment

        def cumulated(weights: Floats) -> Floats:
            sums = np.bincount(code, weights, rows * (count + 1)).reshape(rows, count + 1)
            return np.asarray(np.cumsum(sums, axis=1))

        first_order = cumulated(self.w)
        second_order = None if self.sums.design.psu is not None else cumulated(self.w**2)
        known = np.bincount(self.row, minlength=rows)
        used = np.bincount(self.row, self.w > 0, rows)
        columns: dict[str, NDArray[np.float64 | np.int64]] = {}
        n = self.sums.frame["n"].to_numpy()
        rank = np.maximum(self.cell_of_row, 0)
        for j in range(count):
            at_rank = (np.arange(rows), ranks[rank, j])
            u, v = first_order[at_rank], first_order[:, -1]
            columns |= {f"u{j}": u, f"v{j}": v, f"k{j}": known, f"used{j}": used}
            if second_order is None:
                continue
            wwu, wwv = second_order[at_rank] / n, second_order[:, -1] / n
            mean_u, mean_v, mean_w = u / n, v / n, self.sums.frame["w"].to_numpy() / n
            columns |= {
                f"uu{j}": np.maximum(wwu - mean_u**2, 0),
                f"vv{j}": np.maximum(wwv - mean_v**2, 0),
                f"uv{j}": wwu - mean_u * mean_v,
                f"uw{j}": wwu - mean_u * mean_w,
                f"vw{j}": wwv - mean_v * mean_w,
            }
        if self.replicates:
            upto = self._replicated(values[of_cell], ranks)
            for j in range(count):
                for r in range(len(self.replicates)):
                    columns |= {f"u{j}r{r}": upto[r, :, j], f"v{j}r{r}": upto[r, :, count]}
        frame = self.sums.frame.with_columns(**{k: pl.Series(v) for k, v in columns.items()})
        share = Linear(ibis.literal(1.0), 1.0, pivoted=False)
        pivots = (0.0,) * count
        return replace(
            self.sums, frame=frame, statistics=(share,) * count, pivots=pivots, terms=None
        )

    def _replicated(self, edges: Floats, ranks: Ints) -> Floats:
        """(replicates, rows, k + 1): the sums of each replicate weight at or below each of the
        (cells, k) values, and of all records; the weights are too many to be held at once."""
        names, count, rows = self.replicates, edges.shape[1], self.sums.frame.height
        edges = np.where(np.isnan(edges), -np.inf, edges)
        sums = np.zeros((len(names), rows * (count + 1)))
        for records in self._batches():
            row, y = self._rows(records), records["y"].to_numpy()
            segment = (y[:, None] > edges[self.cell_of_row[row]]).sum(axis=1)
            code = row * (count + 1) + segment
            for r, name in enumerate(names):
                sums[r] += np.bincount(code, records[name].to_numpy(), sums.shape[1])
        upto = np.cumsum(sums.reshape(len(names), rows, count + 1), axis=2)
        asked = np.column_stack([ranks, np.full(self.cells, count)])
        return np.take_along_axis(upto, asked[None, np.maximum(self.cell_of_row, 0)], axis=2)

    def _batches(self) -> Iterator[pl.DataFrame]:
        """The records with their replicate weights."""
        if self.held is not None:
            yield self.held
            return
        for batch in self.query.to_pyarrow_batches(chunk_size=BATCH):
            yield pl.DataFrame(pl.from_arrow(batch))

    def _rows(self, records: pl.DataFrame) -> Ints:
        """The row of the sums that each record is counted in."""
        if not self.keys:
            return np.zeros(records.height, dtype=np.int64)
        numbered = self.sums.frame.select(self.keys).with_row_index("row")
        joined = records.select(self.keys).join(
            numbered, on=self.keys, how="left", nulls_equal=True, maintain_order="left"
        )
        return joined["row"].cast(pl.Int64).to_numpy()

    def _positions(self, cell: int, values: Floats) -> Ints:
        """How many records of a cell lie at or below each value; none below NaN."""
        first, last = self.starts[cell], self.starts[cell + 1]
        upto = np.searchsorted(self.y[first:last], values, side="right")
        return np.where(np.isnan(values), 0, upto)

    def _weight_upto(self, of_cell: Ints, values: Floats) -> Floats:
        """(domains, k): the weight of a domain at or below each value."""
        weight = np.zeros(values.shape)
        for cell, upto in enumerate(self.upto):
            domain = of_cell[cell]
            weight[domain] += upto[self._positions(cell, values[domain])]
        return weight


def _query(
    survey: Survey,
    y: ir.NumericValue,
    by: Sequence[ir.Value],
    inside: ir.BooleanValue | None,
    sums: Sums,
) -> tuple[list[str], ir.Table]:
    """The value and the weights of every record that has one, and what tells its row of the sums
    (the names of these columns come first)."""
    table, design = survey.table, survey.design
    columns: dict[str, ir.Value] = {f"by{k}": variable for k, variable in enumerate(by)}
    if "h" in sums.frame.columns and design.strata:
        columns["h"] = table[design.strata]
    if "c" in sums.frame.columns and design.psu:
        columns["c"] = table[design.psu]
    keys = list(columns)
    value = as_float(y)
    columns |= {
        "y": value,
        "known": value.notnull() if inside is None else value.notnull() & inside,
    }
    if design.weight:
        columns["w"] = as_float(table[design.weight])
    columns |= {f"r{r}": as_float(table[name]) for r, name in enumerate(sums.replicates)}
    return keys, table.select(**columns).filter(lambda t: t.known).drop("known")


def _ordered(values: Floats) -> Ints:
    """Whole numbers in the order of the floats that they stand for."""
    bits = (values + 0.0).view(np.int64)  # -0 is 0
    return np.where(bits < 0, np.int64(-(2**63)) - bits, bits)


def _value(numbers: Ints) -> Floats:
    bits = np.where(numbers < 0, np.int64(-(2**63)) - numbers, numbers)
    return bits.view(np.float64)
