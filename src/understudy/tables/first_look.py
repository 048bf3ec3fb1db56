"""What statistics are sums of, and what the first records show of them before all are summed: a
value near each ratio, and whether the columns seem to lack no value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, nan
from weakref import WeakKeyDictionary

import ibis
import ibis.expr.types as ir
import numpy as np
import polars as pl
import pyarrow as pa
from ibis.expr.operations import Cast, Field, InMemoryTable, Literal

from understudy.survey.collected import collected
from understudy.survey.engine import is_own_file
from understudy.survey.survey import Survey

FIRST_RECORDS = 10_000


@dataclass(frozen=True)
class Linear:
    """A statistic as sum w a (x None) or sum w a / sum w x, over records where all are known.

    `x` may be the number 1 (a mean). `pivoted` ratios are first taken about a value near
    them; proportions need not be. `known` tells the records where a and x are known, if that is
    not seen from whether they are missing.
    """

    a: ir.NumericValue
    x: ir.NumericValue | float | None = None
    pivoted: bool = True
    known: ir.BooleanValue | None = None


@dataclass(frozen=True)
class FirstLook:
    """At the first records of a survey, for these statistics of the records `inside`. Of a file,
    columns of the first records are kept as long as the survey, so that a second table need not
    ask for them."""

    survey: Survey
    statistics: Sequence[Linear]
    inside: ir.BooleanValue | None

    def pivots(self) -> tuple[float, ...]:
        """A value near each ratio: it only has to keep squares small."""
        columns, pivots = {}, [0.0] * len(self.statistics)
        weight = self.survey.design.weight
        w = self.survey.table[weight].cast("float64") if weight else ibis.literal(1.0)
        for j, statistic in enumerate(self.statistics):
            if statistic.x is None or not statistic.pivoted:
                continue
            ratio = self._ratio(statistic.a, statistic.x) if self.inside is None else None
            if ratio is not None:
                pivots[j] = ratio
            else:
                mask = known(statistic, self.inside)
                columns[f"a{j}"] = zero_outside(w * statistic.a, mask)
                columns[f"x{j}"] = zero_outside(w * statistic.x, mask)
        if columns:
            first = self.survey.table.select(**columns).limit(FIRST_RECORDS)
            sums = first.aggregate(**{name: first[name].sum() for name in columns})
            totals = collected(sums).row(0, named=True)
            for j in range(len(self.statistics)):
                if totals.get(f"x{j}"):
                    pivots[j] = totals[f"a{j}"] / totals[f"x{j}"]
        return tuple(pivots)

    def seems_whole(self) -> bool:
        """Whether all statistics are of columns of a file as they are, and these lack no value in
        its first records."""
        if self.inside is not None or self._plain is None or self._plain & self._missing:
            return False
        first = self._first
        return first is not None and not any(first[name].null_count() for name in self._plain)

    def remember_missing(self) -> None:
        """That not all columns are whole, although they seemed so."""
        self._missing.update(self._plain or ())

    @cached_property
    def _plain(self) -> set[str] | None:
        """The columns that are used, if they are used as they are."""
        names = set()
        for statistic in self.statistics:
            if statistic.known is not None:
                return None
            for value in (statistic.a, statistic.x):
                column = _column(value)
                if column is not None:
                    names.add(column.name)
                elif isinstance(value, ir.Value) and not isinstance(value.op(), Literal):
                    return None
        return names

    @property
    def _missing(self) -> set[str]:
        return _MISSING.setdefault(self.survey, set())

    @cached_property
    def _first(self) -> pl.DataFrame | None:
        """The columns of the first records, if all are used as they are, of a file."""
        if self._plain is None or not is_own_file(self.survey.table):
            return None
        names, kept = sorted(self._plain), _FIRST.get(self.survey, pl.DataFrame())
        if not set(names) <= set(kept.columns):
            kept = collected(self.survey.table.select({*names, *kept.columns}).limit(FIRST_RECORDS))
            _FIRST[self.survey] = kept
        return kept.select(names)

    def _ratio(self, a: ir.NumericValue, x: ir.NumericValue | float) -> float | None:
        """Of the records that have both, unless sums of x cancel; for a number x, the mean over
        it."""
        top, bottom = self._values(a), self._values(x)
        if top is None or (bottom is None and isinstance(x, ir.Value)):
            return None
        first = top.head(FIRST_RECORDS).cast(pl.Float64)
        over = first * 0 + x if bottom is None else bottom.head(FIRST_RECORDS).cast(pl.Float64)
        both = first.is_not_null() & over.is_not_null()
        above, below = (float(part.filter(both).to_numpy().sum()) for part in (first, over))
        size = float(np.abs(over.filter(both).to_numpy()).sum())
        ratio = above / below if 2 * abs(below) > size else nan
        return ratio if isfinite(ratio) else None

    def _values(self, value: ir.Value | float) -> pl.Series | None:
        """Of a column in memory all, of one on disk the first; None where it is not a column."""
        held, column = _held(value), _column(value)
        if held is not None or column is None or self._first is None:
            return held
        return self._first.get_column(column.name)


_FIRST: WeakKeyDictionary[Survey, pl.DataFrame] = WeakKeyDictionary()
_MISSING: WeakKeyDictionary[Survey, set[str]] = WeakKeyDictionary()


def known(statistic: Linear, inside: ir.BooleanValue | None) -> ir.BooleanValue | None:
    """Records that the statistic uses; None is all of them."""
    masks = [] if inside is None else [inside]
    if statistic.known is not None:
        return ibis.and_(*masks, statistic.known)
    if not _complete(statistic.a):
        masks.append(statistic.a.notnull())
    if isinstance(statistic.x, ir.Value) and not _complete(statistic.x):
        masks.append(statistic.x.notnull())
    return ibis.and_(*masks) if masks else None


def zero_outside(value: ir.NumericValue | float, mask: ir.BooleanValue | None) -> ir.NumericValue:
    if mask is None:
        return value if isinstance(value, ir.Value) else ibis.literal(value)
    if not isinstance(value, ir.Value) and value == 1.0:  # a database may take 1.0 for a decimal
        return mask.cast("float64")
    return ibis.ifelse(mask, value, 0.0)


def _column(value: ir.Value | float | None) -> Field | None:
    """The column that it is, as numbers."""
    if not isinstance(value, ir.Value):
        return None
    column = value.op().arg if isinstance(value.op(), Cast) else value.op()
    return column if isinstance(column, Field) and column.dtype.is_numeric() else None


def _held(value: ir.Value | float) -> pl.Series | None:
    """The values of a column that is held in memory: looking there is quicker than a query."""
    column = _column(value)
    if column is None or not isinstance(column.rel, InMemoryTable):
        return None
    records = column.rel.data.obj
    return pl.Series(records[column.name]) if isinstance(records, pl.DataFrame | pa.Table) else None


def _complete(value: ir.NumericValue) -> bool:
    """Whether it is seen at once that no record lacks the value."""
    held = _held(value)
    return isinstance(value.op(), Literal) or (held is not None and not held.null_count())
