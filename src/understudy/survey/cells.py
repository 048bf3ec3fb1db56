"""Cells: where a value is counted, and which values a cell stands for; by the codebook alone.

A category has a cell for each declared level. A number has a fine grid between its declared bounds
(grid.py) and a cell of its own for each special value. Missing codes have cells of their own, and
so has the empty value, unless the codebook says that there is none. Every value has a cell,
because a refusal would tell of the records:

- a number beyond the bounds counts at the nearest bound;
- a level that is not declared counts as empty, and so does NaN;
- where the codebook has no cell for the empty value, it counts as the first missing code; without
  one, as the last level of a category and in the first cell of a number. So does a record without
  a stratum, which a design does not allow.

Cells are numbered: the grid from low to high, the special values or levels, missing codes, empty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.survey.codebook import EPOCH, Codebook, Column, Value
from understudy.survey.design import Design
from understudy.survey.grid import bounds_of, exact, grid_edges, rounding_of, support

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
BLANK = "(empty)"
FEW = 6  # values that are looked up one after the other; more are searched by halving


def with_known_strata(codebook: Codebook, design: Design) -> Codebook:
    """The codebook with a stratum for every record, which a design needs: noise would put records
    into cells for none."""
    if design.strata is None or design.strata not in codebook:
        return codebook
    return codebook.with_column(replace(codebook[design.strata], blanks=False, missing=()))


def cells_of(column: Column) -> ColumnCells:
    """The cells of a column, from its declarations."""
    skip = () if column.skip is None else (column.skip,)
    missing = tuple(dict.fromkeys((*column.missing, *skip)))
    blank = column.blanks is not False or bool(column.applies_when and column.skip is None)
    blank = blank and column.role != "weight"
    numeric = column.type in ("integer", "continuous", "date")
    if column.levels is not None and not (numeric and column.bounds is not None):
        texts = isinstance(column.levels[0], str)
        codes = [code for code in missing if code not in column.levels]
        codes = [code for code in codes if isinstance(code, str) == texts]
        return ColumnCells(column, (), (), None, (), (*column.levels,), tuple(codes), blank)
    if not numeric:
        raise Refused(
            f"Column `{column.name}` has no levels in the codebook; declare them, or leave the "
            "column out."
        )
    codes = [code for code in missing if not isinstance(code, str)]
    low, high = bounds_of(column)
    special = tuple(sorted({exact(value) for value in column.special}))
    if special and not low <= special[0] <= special[-1] <= high:
        raise Refused(
            f"A special value of column `{column.name}` is outside its bounds; widen the bounds, "
            "or declare it as a missing code."
        )
    step = rounding_of(column)
    edges = grid_edges(column)
    starts, multiples = (edges[:-1], []) if step is None else support(edges, step, special)
    if not starts and not special:
        raise Refused(
            f"No value of column `{column.name}` on its declared rounding is within its bounds; "
            "correct one of them."
        )
    return ColumnCells(
        column, tuple(starts), tuple(multiples), step, special, (), tuple(codes), blank
    )


@dataclass(frozen=True, eq=False)
class ColumnCells:
    """The fine cells of one column.

    `starts` are the lower edges of the grid's cells and `multiples` the first and last multiples of
    `step` in each (none where the values have no rounding); `special`, `levels` and `missing` are
    the values that have a cell of their own.
    """

    column: Column
    starts: tuple[Fraction, ...]
    multiples: tuple[tuple[int, int], ...]
    step: Fraction | None
    special: tuple[Fraction, ...]
    levels: tuple[Value, ...]
    missing: tuple[Value, ...]
    blank: bool

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def ordered(self) -> bool:
        """Whether there are neighbours that may be merged: the first `grid_size` cells."""
        return self.grid_size > 1

    @property
    def grid_size(self) -> int:
        return len(self.starts)

    @cached_property
    def points(self) -> tuple[Value, ...]:
        """The values with a cell of their own, in the order of their cells."""
        return (*(_number(value) for value in self.special), *self.levels, *self.missing)

    @property
    def _point_floats(self) -> list[float]:
        return [math.nan if isinstance(point, str) else float(point) for point in self.points]

    @property
    def size(self) -> int:
        """Fine cells."""
        return self.grid_size + len(self.points) + self.blank

    @property
    def missing_from(self) -> int:
        """The first cell of missing codes; all cells from here on hold no answer."""
        return self.size - self.blank - len(self.missing)

    @property
    def other(self) -> int:
        """The cell of a value that has none: empty, not declared, not a number."""
        if self.blank:
            return self.size - 1
        if self.missing or self.levels:
            return self.missing_from if self.missing else self.size - 1
        return 0

    # -- values to cells

    def codes(self, values: Any) -> Any:
        """The cell of each value: of a Series as an array, of an Ibis column as an expression."""
        if isinstance(values, ir.Value):
            return (self._number_code if self.starts or self.special else self._level_code)(values)
        if self.starts or self.special:
            return self._number_codes(values)
        texts = isinstance(self.levels[0], str)
        plain = values.cast(pl.String if texts else pl.Float64)
        known = [point if texts else float(point) for point in self.points]
        places = plain.replace_strict(
            known, range(len(known)), default=self.other, return_dtype=pl.Int32
        )
        return places.to_numpy()

    def _number_codes(self, values: pl.Series) -> Codes:
        days = values.dtype.is_temporal()
        plain = values.cast(pl.Date).cast(pl.Int32) if days else values
        numbers = plain.cast(pl.Float64).to_numpy()
        low, high = self._bounds
        inside = np.clip(numbers, low, high)
        codes: Codes = np.searchsorted(self._inner, inside, side="right").astype(np.int32)
        if not self.starts:
            codes[:] = self.other
        for cell, point in enumerate(self._point_floats, self.grid_size):
            codes[(numbers if cell >= self.missing_from else inside) == point] = cell
        codes[np.isnan(numbers)] = self.other
        return codes

    def _number_code(self, values: Any) -> Any:
        if values.type().is_temporal():
            values = values.cast("date").epoch_days()
        elif not (values.type().is_floating() or values.type().is_integer()):
            values = values.cast("float64")
        low, high = self._bounds
        code: Any = self._grid_code(values)
        for cell, point in enumerate(self._point_floats, self.grid_size):  # missing codes last
            if cell >= self.missing_from or low < point < high:
                met = values == point
            else:  # numbers beyond a bound count at the bound
                met = values >= point if point == high else values <= point
            code = ibis.ifelse(met, _code(cell), code)
        nothing = values.isnull()
        if values.type().is_floating():
            nothing |= values.isnan()
        return ibis.ifelse(nothing, _code(self.other), code)

    def _grid_code(self, values: Any) -> Any:
        if len(self.starts) < 2:
            return _code(0 if self.starts else self.other)
        widths = {b - a for a, b in zip(self.starts[1:], self.starts[2:], strict=False)}
        first = self.starts[1]
        if len(widths) == 1 and (width := widths.pop()).denominator == first.denominator == 1:
            # evenly wide: a division instead of a search
            cell = (values.cast("float64") - float(first)) / float(width) + 1
            return cell.clip(0.0, self.grid_size - 1.0).floor().cast("int32")  # huge ones fit too
        return _halving(values, [*map(float, self._inner)], 0)

    def _level_code(self, values: Any) -> Any:
        texts = isinstance(self.levels[0], str)
        plain = values if texts else values.cast("float64")
        known = [(point if texts else float(point), k) for k, point in enumerate(self.points)]
        code = _found(plain, sorted(known), self.other)
        return ibis.ifelse(plain.isnull(), _code(self.other), code)

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        low, high = bounds_of(self.column)
        return float(low), float(high)

    @cached_property
    def _inner(self) -> Floats:
        return np.array([float(start) for start in self.starts[1:]], dtype=np.float64)

    # -- cells to values

    def values(self, codes: NDArray[Any], rng: np.random.Generator) -> pl.Series:
        """A value for each cell: uniform on the declared rounding within a cell of the grid, never
        a special value there; the value itself where the cell is of one value."""
        codes = np.asarray(codes)
        if not self.starts:
            return self._point_series.gather(codes)
        numbers = self._drawn(np.minimum(codes, self.grid_size - 1), rng.random(len(codes)))
        alone = np.flatnonzero(codes >= self.grid_size)
        numbers[alone] = self._own_numbers[codes[alone] - self.grid_size]
        return self._typed(pl.Series(self.name, numbers, nan_to_null=self.blank))

    def _drawn(self, cell: NDArray[Any], uniform: Floats) -> Floats:
        if self.step is None:
            lower, upper = self._lower[cell], self._upper[cell]
            drawn: Floats = lower + uniform * (upper - lower)
            drawn = np.minimum(drawn, np.nextafter(upper, lower))
            for value in map(float, self.special):
                drawn[drawn == value] = np.nextafter(value, math.inf)
            return drawn
        first, free = self._first[cell], self._free[cell]
        multiple = first + np.minimum((uniform * free).astype(np.int64), free - 1)
        for special in self._special_multiples:
            within = (self._first <= special) & (special <= self._last)
            if within.any():
                multiple += (multiple >= special) & within[cell]
        return np.asarray(multiple * self.step.numerator / self.step.denominator)

    def _typed(self, numbers: pl.Series) -> pl.Series:
        numbers = numbers.alias(self.name)
        if self.column.type == "date":
            return numbers.cast(pl.Int32).cast(pl.Date)
        return numbers.cast(pl.Int64) if self.column.type == "integer" else numbers

    @cached_property
    def _point_series(self) -> pl.Series:
        """Values of the cells after the grid, the empty one last."""
        points = [*self.points]
        if any(isinstance(point, float) for point in points):
            points = [float(point) for point in points]
        elif not all(isinstance(point, bool) for point in points):
            points = [int(p) if isinstance(p, bool) else p for p in points]
        own = pl.Series(self.name, [*points, None])
        return own if self.levels or self.starts else self._typed(own.cast(pl.Float64))

    @cached_property
    def _own_numbers(self) -> Floats:
        """The numbers of the cells after the grid; NaN for no answer."""
        return self._point_series.cast(pl.Float64).to_numpy()

    @cached_property
    def _special_multiples(self) -> list[int]:
        assert self.step is not None
        return [int(v / self.step) for v in self.special if v % self.step == 0]

    @cached_property
    def _first(self) -> NDArray[np.int64]:
        return np.array([first for first, _ in self.multiples], dtype=np.int64)

    @cached_property
    def _last(self) -> NDArray[np.int64]:
        return np.array([last for _, last in self.multiples], dtype=np.int64)

    @cached_property
    def _free(self) -> NDArray[np.int64]:
        """Values that a draw in each cell of the grid may give."""
        taken = [
            sum(first <= s <= last for s in self._special_multiples)
            for first, last in self.multiples
        ]
        return self._last - self._first + 1 - np.array(taken, dtype=np.int64)

    # -- what a cell is

    @cached_property
    def lower(self) -> Floats:
        """The least number in each cell, (size,); NaN where a cell holds none."""
        return np.concatenate([self._lower, self._point_numbers])

    @cached_property
    def upper(self) -> Floats:
        """The largest number in each cell, (size,)."""
        return np.concatenate([self._upper, self._point_numbers])

    @cached_property
    def expected(self) -> Floats:
        """The mean of a cell's values as they are drawn, (size,); NaN where it holds no number."""
        middle = (self._lower + self._upper) / 2
        if self.step is not None:
            step = float(self.step)
            for special in self._special_multiples:
                inside = (self._first <= special) & (special <= self._last)
                total = self._free + 1.0  # the values with the special one
                shifted = (middle * total - special * step) / self._free
                middle = np.where(inside, shifted, middle) if inside.any() else middle
        return np.concatenate([middle, self._point_numbers])

    @cached_property
    def _lower(self) -> Floats:
        if self.step is not None:
            return np.array([float(first * self.step) for first, _ in self.multiples])
        return np.array([float(start) for start in self.starts])

    @cached_property
    def _upper(self) -> Floats:
        if self.step is not None:
            return np.array([float(last * self.step) for _, last in self.multiples])
        return np.array([*self._inner, self._bounds[1]] if self.starts else [], dtype=np.float64)

    @cached_property
    def _point_numbers(self) -> Floats:
        answers = self._point_floats[: len(self.points) - len(self.missing)]
        return np.array([*answers, *[math.nan] * (len(self.missing) + self.blank)])

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What each cell is called: a range, a value's label or the value itself."""
        named = self.column.value_labels
        grid = [
            self._spelled(a) if a == b else f"{self._spelled(a)} to {self._spelled(b)}"
            for a, b in zip(self._lower, self._upper, strict=True)
        ]
        own = [named.get(v) or self._spelled(v) for v in self.points]
        return (*grid, *own, *[BLANK] * self.blank)

    def _spelled(self, value: Any) -> str:
        if isinstance(value, (str, bool)) or self.levels:
            return str(value)
        if self.column.type == "date" and value == int(value):
            return str(np.datetime64(EPOCH) + int(value))
        return f"{value:,.12g}"

    # -- coarse cells

    def coarsened(self, starts: Sequence[int]) -> Codes:
        """The coarse cell of each fine one, (size,): runs of the grid that begin at `starts`, and
        every cell after the grid by itself."""
        begins = np.zeros(self.size, dtype=np.int32)
        begins[np.asarray(starts, dtype=np.int64)] = 1
        begins[self.grid_size :] = 1
        begins[0] = 0
        return np.cumsum(begins, dtype=np.int32)


def _number(value: Fraction) -> float:
    return int(value) if value.denominator == 1 else float(value)


def _code(code: int) -> Any:
    return ibis.literal(code, "int32")


def _halving(numbers: Any, edges: Sequence[float], first: int) -> Any:
    """The number of edges at or below each number, plus `first`: nested comparisons, because a
    chain of them costs a database ten times as much."""
    if not edges:
        return _code(first)
    middle = len(edges) // 2
    below = _halving(numbers, edges[:middle], first)
    above = _halving(numbers, edges[middle + 1 :], first + middle + 1)
    return ibis.ifelse(numbers < edges[middle], below, above)


def _found(values: Any, known: Sequence[tuple[Any, int]], other: int) -> Any:
    """The code of each value among sorted (value, code), `other` where it is none of them."""
    if len(known) <= FEW:
        return values.cases(*((v, _code(k)) for v, k in known), else_=_code(other))
    middle = len(known) // 2
    below, above = _found(values, known[:middle], other), _found(values, known[middle:], other)
    return ibis.ifelse(values < known[middle][0], below, above)
