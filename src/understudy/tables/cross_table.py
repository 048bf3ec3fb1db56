"""The cross-tabulation of categorical columns: one row per occupied cell, never the whole product.

The records are grouped where they are (DuckDB, Spark); what comes back is as long as the number
of cells that hold a record. A cell is a row of codes, each the place of a level in its column's
list of levels (M §2.2.1: K cells, counts n).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, Literal, NoReturn

import ibis
import ibis.expr.types as ir
import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused, UnknownName
from understudy.survey.codebook import Codebook, Value
from understudy.survey.published_type import published_dtype
from understudy.survey.survey import Survey
from understudy.tables.domain import named_columns, parse_domain
from understudy.tables.units import Unit, limited

__public__ = ("Categories", "CrossTable", "categories_of", "cross_tabulate")

Counts = NDArray[np.int64]
Codes = NDArray[np.int32]
MissingAs = Literal["refuse", "level"]

MANY_LEVELS = 2_000  # a column with more is an identifier or a number, not a category
FITS = 2**60  # cells whose numbers, and the sums on the way to them, fit into 64 bits
SMALL = 2**28  # the same for 32 bits, where databases and NumPy are faster
CODE_BLOCK = 1 << 20  # cells decoded at once when edit rules are looked up


@dataclass(frozen=True, eq=False)
class Categories:
    """Columns with their lists of levels (None stands for a missing value) and the types in which
    they are published."""

    columns: tuple[str, ...]
    levels: tuple[tuple[Value | None, ...], ...]
    dtypes: tuple[pl.DataType, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(len(levels) for levels in self.levels)

    @property
    def product(self) -> int:
        """Cells of the full domain, structural zeros included."""
        return math.prod(self.sizes)

    def series(self, column: int) -> pl.Series:
        return pl.Series(self.columns[column], self.levels[column]).cast(self.dtypes[column])

    def frame(self, codes: Codes, repeats: Counts | None = None) -> pl.DataFrame:
        """Rows of codes as values of the original types, each repeated as often as asked."""
        decoded = []
        for j in range(len(self.columns)):
            places = np.ascontiguousarray(codes[:, j])
            if repeats is not None:
                places = np.repeat(places, repeats)
            decoded.append(self.series(j).gather(places))
        return pl.DataFrame(decoded)

    def all_codes(self) -> Codes:
        """Every cell of the full domain, (product, columns), the last column fastest."""
        return np.indices(self.sizes, dtype=np.int32).reshape(len(self.sizes), -1).T

    def places(self, codes: Codes) -> Counts:
        """The number of each cell in the full domain, in the order of `all_codes`."""
        return np.asarray(np.ravel_multi_index(tuple(codes.T), self.sizes), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class CrossTable:
    """Cells as `codes` (K, columns), and the `counts` (K,) of their records."""

    categories: Categories
    codes: Codes
    counts: Counts

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    @property
    def cells(self) -> int:
        return int(self.counts.size)

    def shown_only(self, columns: Sequence[str]) -> CrossTable:
        """The same cells, with only those levels of these columns that some cell has, sorted by
        their values: a table that tells nothing of levels that it does not show."""
        levels, codes = list(self.categories.levels), self.codes.copy()
        for j in (self.categories.columns.index(name) for name in columns):
            used = [int(k) for k in np.unique(codes[:, j])]
            used.sort(key=lambda k: _sort_key(self.categories.levels[j][k]))
            levels[j] = tuple(self.categories.levels[j][k] for k in used)
            new_code = np.zeros(len(self.categories.levels[j]), dtype=codes.dtype)
            new_code[used] = np.arange(len(used))
            codes[:, j] = new_code[codes[:, j]]
        order = np.lexsort(codes.T[::-1])
        categories = replace(self.categories, levels=tuple(levels))
        return CrossTable(categories, codes[order], self.counts[order])

    def records(self, counts: Counts | None = None) -> pl.DataFrame:
        """One row per record, in the order of the cells."""
        repeats = self.counts if counts is None else counts
        used = repeats > 0
        return self.categories.frame(self.codes[used], repeats[used])


def _sort_key(level: Value | None) -> tuple[bool, bool, Any]:
    """Numbers, then texts, then a missing value."""
    return level is None, isinstance(level, str), 0 if level is None else level


def categories_of(
    survey: Survey, columns: Sequence[str], missing: MissingAs = "refuse"
) -> Categories:
    """The columns' levels from the codebook; with `missing="level"` also missing codes and null."""
    if missing not in ("refuse", "level"):
        raise UnknownName("way to treat missing values", str(missing), ("refuse", "level"))
    levels: list[tuple[Value | None, ...]] = []
    for name in columns:
        if name not in survey.columns:
            raise UnknownName("column", name, survey.columns)
        levels.append(_with_missing(_levels(survey, name), survey.codebook, name, missing))
    for name, column_levels in zip(columns, levels, strict=True):
        if len(column_levels) > MANY_LEVELS:
            raise Refused(
                f"Column `{name}` has {len(column_levels):,} levels, and all columns together make "
                f"{math.prod(map(len, levels)):,} cells; group its levels into fewer (at most "
                f"{MANY_LEVELS:,}) or leave the column out."
            )
    dtypes = tuple(published_dtype(survey, name) for name in columns)
    return Categories(tuple(columns), tuple(levels), dtypes)


def declared_categories(
    codebook: Codebook,
    columns: Sequence[str],
    types: Mapping[str, pl.DataType],
    missing: MissingAs = "refuse",
) -> Categories:
    """The same from declarations alone; refused where the codebook has no levels."""
    levels = []
    for name in columns:
        declared = codebook[name].levels
        if not declared:
            raise Refused(f"Column `{name}` has no levels in the codebook; declare them.")
        levels.append(_with_missing(declared, codebook, name, missing))
    return Categories(tuple(columns), tuple(levels), tuple(types[name] for name in columns))


def _with_missing(
    levels: tuple[Value, ...], codebook: Codebook, name: str, missing: MissingAs
) -> tuple[Value | None, ...]:
    """The levels with missing codes and null, where these are levels of their own."""
    if missing == "refuse":
        return levels
    extra = [code for code in codebook[name].missing if code not in levels]
    return (*levels, *extra, None)


def cross_tabulate(survey: Survey, categories: Categories, unit: Unit | None = None) -> CrossTable:
    """Count the records of every occupied cell in one GROUP BY; of a unit, at most its limit.

    Where the product of levels fits into 64 bits, the database groups by one number per record,
    the cell's place in the full domain: that is several times faster than by all columns.
    """
    names = list(categories.columns)
    coded = any(None in levels for levels in categories.levels)
    table = limited(survey.raw if coded else survey.table, unit, names)
    for name in names:
        if table[name].type().is_floating():
            table = table.mutate(**{name: table[name].nullif(float("nan"))})
    if categories.product < FITS:
        cell, shift = _cell_number(table, categories)
        grouped = table.select(cell=cell).group_by("cell").aggregate(records=ibis._.count())
        counted = grouped.to_polars().sort("cell")
        if not counted["cell"].null_count():
            return CrossTable(
                categories,
                _unpacked(counted["cell"].to_numpy() - shift, categories.sizes),
                counted["records"].to_numpy().astype(np.int64),
            )
    return _by_columns(table, categories)  # also finds out which column has a value without level


def _cell_number(table: ir.Table, categories: Categories) -> tuple[ir.Value, int]:
    """Each record's place in the full domain, plus a constant; null where a value has no level.

    Levels that are a run of whole numbers are used as they are, which costs the database least:
    the survey has checked that no other number occurs. The constant makes up for their start.
    """
    cell: Any = None
    shift = 0
    for block in _blocks(categories.sizes):
        part: Any = None
        for j in block:
            levels = categories.levels[j]
            code, first = _code(table[categories.columns[j]], levels)
            width = "int64" if cell is None else "int32"
            part = code.cast(width) if part is None else part * len(levels) + code
            shift = shift * len(levels) + first
        size = math.prod(categories.sizes[j] for j in block)
        cell = part if cell is None else cell * size + part
    return cell, shift


def _code(values: Any, levels: Sequence[Value | None]) -> tuple[Any, int]:
    """The place of each value among the levels, plus the second result."""
    first = levels[0]
    if (
        values.type().is_integer()
        and isinstance(first, int)
        and list(levels) == list(range(first, first + len(levels)))
    ):
        # a run that starts far from 0, such as years, would not fit into the sums
        return (values, first) if abs(first) <= len(levels) else (values - first, 0)
    places = [(level, k) for k, level in enumerate(levels) if level is not None]
    code = values.cases(*places, else_=None).cast("int32")
    if None in levels:
        code = ibis.ifelse(values.isnull(), levels.index(None), code)
    return code, 0


def _blocks(sizes: Sequence[int]) -> list[range]:
    """Runs of columns whose cells together can be numbered in 32 bits.

    The first column stands alone: as a number of 64 bits it makes the sum of all as wide.
    """
    starts, product = [0], SMALL
    for j, size in enumerate(sizes[1:], 1):
        if product * size > SMALL:
            starts.append(j)
            product = 1
        product *= size
    return [range(a, b) for a, b in zip(starts, [*starts[1:], len(sizes)], strict=True)]


def _unpacked(places: Counts, sizes: Sequence[int]) -> Codes:
    """Places in the full domain as rows of codes, the last column fastest."""
    codes = np.empty((len(sizes), places.size), dtype=np.int32)
    rest = places
    for block in reversed(_blocks(sizes)):
        product = math.prod(sizes[j] for j in block)
        above = rest // product  # by a constant: NumPy's divmod is not vectorised, this is
        inside = (rest - above * product).astype(np.int32)
        for j in reversed(block):
            quotient = inside // sizes[j]
            codes[j] = inside - quotient * sizes[j]
            inside = quotient
        rest = above
    return codes.T


def _by_columns(table: ir.Table, categories: Categories) -> CrossTable:
    """The same by all columns at once, for products beyond 64 bits."""
    names = list(categories.columns)
    count = "records" if "records" not in names else "records_"
    grouped = table.group_by(names).aggregate(**{count: table.count()}).to_polars()
    codes = np.empty((grouped.height, len(names)), dtype=np.int32)
    for j, name in enumerate(names):
        codes[:, j] = _codes(grouped[name], categories.levels[j])
    order = np.lexsort(codes.T[::-1])
    return CrossTable(categories, codes[order], grouped[count].to_numpy().astype(np.int64)[order])


def possible_cells(
    categories: Categories, codes: Codes, rules: Sequence[str], known: Mapping[str, object]
) -> NDArray[np.bool_]:
    """Which cells meet none of the codebook's `impossible` conditions.

    A rule that names a column of the codebook outside the table says nothing about its cells.
    """
    possible = np.ones(len(codes), dtype=bool)
    elsewhere = set(known) - set(categories.columns)
    applicable = [rule for rule in rules if not named_columns(rule) & elsewhere]
    if not applicable:
        return possible
    for start in range(0, len(codes), CODE_BLOCK):
        block = categories.frame(codes[start : start + CODE_BLOCK])
        table = ibis.memtable(block.with_row_index("cell_number_"))
        met = reduce(or_, [parse_domain(rule, table) for rule in applicable])
        ruled_out = table.filter(met).select("cell_number_").to_polars()["cell_number_"]
        possible[start + ruled_out.to_numpy().astype(np.int64)] = False
    return possible


def without_impossible(table: CrossTable, survey: Survey) -> CrossTable:
    """The table itself; refused where a record breaks an edit rule of the codebook."""
    rules = survey.codebook.impossible
    known = survey.codebook.columns
    if not possible_cells(table.categories, table.codes, rules, known).all():
        raise Refused(
            "Some records meet a condition that the codebook calls `impossible`; correct the "
            "records or the rule."
        )
    return table


def full_domain(table: CrossTable, survey: Survey) -> CrossTable:
    """The same counts over every cell that the codebook allows, empty ones included."""
    categories = table.categories
    counts = np.zeros(categories.product, dtype=np.int64)
    counts[categories.places(table.codes)] = table.counts
    codes = categories.all_codes()
    rules = survey.codebook.impossible
    if rules:
        possible = possible_cells(categories, codes, rules, survey.codebook.columns)
        codes, counts = codes[possible], counts[possible]
    return replace(table, codes=codes, counts=counts)


def _codes(values: pl.Series, levels: Sequence[Value | None]) -> NDArray[np.int32]:
    code_of = {level: k for k, level in enumerate(levels)}  # 1 and 1.0 are one key
    different = values.unique()
    missing = [value for value in different.to_list() if value not in code_of]
    if None in missing:
        raise Refused(
            f"Column `{values.name}` has missing values; make them a level of their own with "
            '`missing="level"`, or drop or impute these records first.'
        )
    if missing:
        raise Refused(
            f"Column `{values.name}` has values that are not among the codebook's levels; add the "
            "levels, declare them as missing codes, or correct the file."
        )
    numbers = [code_of[value] for value in different.to_list()]
    coded = values.replace_strict(different, numbers, return_dtype=pl.Int32)
    return coded.to_numpy()


def _levels(survey: Survey, name: str) -> tuple[Value, ...]:
    """The codebook's levels; where it declares a type and no levels, the values that occur."""
    column = survey.codebook.columns.get(name)
    if column is not None and column.levels:
        return column.levels
    if column is None or column.type not in ("text", "integer") or not column.declared("type"):
        _refuse_without_levels(survey, name)
    occurring = survey.table.select(name).distinct().limit(MANY_LEVELS + 1).to_polars()[name]
    return tuple(sorted(occurring.drop_nulls().cast(published_dtype(survey, name)).to_list()))


def _refuse_without_levels(survey: Survey, name: str) -> NoReturn:
    if survey.raw[name].type().is_numeric():
        raise Refused(
            f"Column `{name}` is numeric and has no levels; bin it into a few classes first and "
            "declare them in the codebook."
        )
    raise Refused(
        f"Column `{name}` has no levels in the codebook; declare them, or leave the column out."
    )
