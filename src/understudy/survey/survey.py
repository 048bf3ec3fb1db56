"""A survey: a table that stays where it is, with its design and its codebook."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from ibis.expr.operations import Field, InMemoryTable, Project
from numpy.typing import NDArray

from understudy.cluster import on_cluster
from understudy.errors import Refused, UnknownName
from understudy.survey.codebook import Codebook, Column, Value
from understudy.survey.collected import collected
from understudy.survey.design import Design
from understudy.survey.engine import is_own_file, view_without_nan

__public__ = ("Survey",)

ROWS_AT_A_TIME = 250_000  # in a stream of records

NO_RECORDS = "The survey has no records; check the file or the filter that made it."
LONG_LIST = 500  # levels; a longer list is compared here and not written into a query


class Survey:
    """Records, how they were sampled, and what is public about their columns.

    `data` is a polars or pandas frame, an Arrow table, or an Ibis table of any backend
    (DuckDB on a file, Spark on a cluster); it is never copied into Python memory unless
    `frame()` asks for it. Without a codebook one is drafted when it is first needed.
    """

    def __init__(self, data: Any, design: Design | None = None, codebook: Codebook | None = None):
        self.design = design or Design()
        self._codebook = codebook
        named = [*self.design.named, *(c.name for c in codebook or ())]
        self.raw: ir.Table = as_ibis(data, named, self.design)
        self.untyped_by: Callable[[], ir.Table] | None = None
        self.stored: Path | None = None  # a Parquet file of just these records, with the codebook
        self.zero_weights = False  # whether there are any
        if codebook is not None:
            for column in codebook:
                if column.name not in self.raw.columns:
                    raise UnknownName("column (named in the codebook)", column.name, self.columns)
        self._check_weights()
        self._check_levels()

    @property
    def untyped(self) -> ir.Table:
        """The records before the codebook gave them types: texts, where the file holds texts."""
        return self.raw if self.untyped_by is None else self.untyped_by()

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.raw.columns)

    @property
    def on_cluster(self) -> bool:
        """Whether the records are on a cluster (Spark): only tables and moments come here."""
        return on_cluster(self.raw)

    @property
    def in_memory(self) -> bool:
        """Whether the records are in this process's memory: not on disk, and not on a cluster."""
        return bool(self.raw.op().find(InMemoryTable))

    def refuse_on_cluster(self, what: str) -> None:
        """Refuse `what`, which needs every record in memory, where the records are on a cluster."""
        if self.on_cluster:
            raise Refused(
                f"{what} needs every record in memory, and these are on Spark; take what fits from "
                "there first: Survey(survey.frame([...]), design, codebook)."
            )

    @property
    def declared(self) -> Codebook:
        """What was said about the columns; where nothing was, an empty codebook and no draft."""
        return self._codebook or Codebook()

    @cached_property
    def codebook(self) -> Codebook:
        if self._codebook is not None:
            return self._codebook
        from understudy.survey.draft import draft_codebook

        drafted: Codebook = draft_codebook(self.raw, self.design)
        return drafted

    def for_variances(self) -> Survey:
        """The same records with the weight from which variances are computed."""
        design = replace(self.design, weight=self.design.variance_weight, variance_weight=None)
        return Survey(self.raw, design, self._codebook)

    @cached_property
    def table(self) -> ir.Table:
        """The records as analyses see them: user-missing codes are null."""
        coded = [c for c in self._codebook or () if c.missing]
        if not coded:  # a projection of all columns would make every query slower to write
            return self.raw
        return self.raw.mutate(**{c.name: without_codes(self.raw, c) for c in coded})

    @cached_property
    def n(self) -> int:
        held = _held(self.raw, self.columns[:1])
        return int(self.raw.count().execute()) if held is None else held.height

    def frame(self, columns: list[str] | None = None) -> pl.DataFrame:
        """The records, or some columns of them, in memory (user-missing codes are null)."""
        for name in columns or ():
            if name not in self.columns:
                raise UnknownName("column", name, self.columns)
        held = _held(self.table, self.columns if columns is None else columns)
        if held is not None:
            return held
        table = self.table if columns is None else self.table.select(columns)
        return pl.DataFrame(table.to_polars())

    def taken(self, places: NDArray[np.int64]) -> Survey:
        """The records at these places, in ascending order, in memory."""
        held = _held(self.raw, self.columns)
        if held is not None:
            return Survey(held[places], self.design, self._codebook)
        parts, start = [], 0
        with self.batches() as records:
            for batch in records:
                first, last = np.searchsorted(places, [start, start + batch.num_rows])
                parts.append(batch.take(pa.array(places[first:last] - start)))
                start += batch.num_rows
        return Survey(pa.Table.from_batches(parts), self.design, self._codebook)

    @contextmanager
    def batches(self) -> Iterator[pa.RecordBatchReader]:
        """The records as they are in the file, as a stream of Arrow batches, from any backend."""
        with warnings.catch_warnings():
            # Ibis calls a method of DuckDB that has been renamed since.
            warnings.simplefilter("ignore", DeprecationWarning)
            yield self.raw.to_pyarrow_batches(chunk_size=ROWS_AT_A_TIME)

    def __repr__(self) -> str:
        return f"Survey({len(self.columns)} columns, {self.design})"

    def _check_weights(self) -> None:
        names = [n for n in self.design.columns(self.columns) if n not in self.design.classifying]
        for name in names:
            if not self.raw[name].type().is_numeric():
                raise Refused(
                    f"The weight column `{name}` is not numeric; convert it or name another column."
                )
        if self.design.weight is None:
            return
        known, lowest, highest, records = self._weight_facts(self.design.weight)
        self.n = records
        if records == 0:
            raise Refused(NO_RECORDS)
        if known < records or not (isfinite(lowest) and isfinite(highest)):
            raise Refused(
                f"The weight `{self.design.weight}` is missing or not finite for some records; "
                "remove those records or repair the weight."
            )
        if lowest < 0:
            raise Refused(
                f"The weight `{self.design.weight}` is negative for some records, as calibration "
                "without limits can make it; calibrate with limits, or set those weights to 0."
            )
        self.zero_weights = lowest == 0
        if highest == 0:
            raise Refused(
                f"The weight `{self.design.weight}` is 0 for every record; name another column."
            )

    def _weight_facts(self, name: str) -> tuple[int, float, float, int]:
        """How many weights are known, the lowest, the highest, and the number of records."""
        held = _held(self.table, [name])
        if held is not None:
            weights = held[name].cast(pl.Float64)
            known = len(weights) - weights.null_count()
            lowest, highest = weights.min(), weights.max()  # none where no weight is known
            return known, float(lowest or 0.0), float(highest or 0.0), len(weights)  # type: ignore[arg-type]
        weight = self.table[name].cast("float64")
        facts = self.table.aggregate(
            known=weight.count(),
            lowest=weight.min(),
            highest=weight.max(),
            records=self.table.count(),
        )
        known, lowest, highest, count = collected(facts).row(0)
        return known, lowest, highest, count

    def _holds_others(self, name: str, allowed: list[Value]) -> bool:
        """Whether a column holds other values; a query that names thousands of them is slow."""
        known, held = set(allowed), _held(self.raw, [name])
        if held is None:
            different = self.raw.select(name).distinct().limit(len(known) + 2).to_polars()[name]
        else:
            different = held[name].unique().head(len(known) + 2)
        return any(value is not None and value not in known for value in different.to_list())

    def _check_levels(self) -> None:
        columns = [c for c in self._codebook or () if c.levels is not None]
        if not columns:
            return
        outside, wrong = {}, []
        for column in columns:
            if not _same_kind(self.raw[column.name], column):
                raise Refused(
                    f"The codebook's levels of `{column.name}` differ in type from its values; "
                    "write numbers without quotes and text with them."
                )
            allowed = [*(column.levels or ()), *column.missing]
            if len(allowed) > LONG_LIST or _held(self.raw, [column.name]) is not None:
                if self._holds_others(column.name, allowed):
                    wrong.append(column.name)
            else:
                outside[column.name] = _any_outside(self.raw[column.name], allowed)
        if outside:
            answers = collected(self.raw.aggregate(**outside)).row(0, named=True)
            wrong += [name for name, any_outside in answers.items() if any_outside]
        if wrong:
            names = ", ".join(f"`{name}`" for name in wrong)
            raise Refused(
                f"Some values of {names} are not among the codebook's levels; add the levels, "
                "declare them as missing codes, or correct the file."
            )


def _any_outside(values: Any, allowed: list[Value]) -> Any:
    """Whether a value is none of these; where they are all whole numbers of a range, its ends say
    so, which a Parquet file has at hand."""
    if values.type().is_integer() and allowed and all(isinstance(v, int) for v in allowed):
        low, high = int(min(allowed)), int(max(allowed))
        if high - low == len(set(allowed)) - 1:
            return (values.min() < low) | (values.max() > high)
    return (values.notnull() & ~values.isin(allowed)).any()


def as_ibis(data: Any, keep: Iterable[str] = (), design: Design | None = None) -> ir.Table:
    """An Ibis table over frames and Arrow tables (without a copy), NaN as null."""
    table = _as_table(data, keep)
    if not isinstance(data, ir.Table):
        for name, kind in table.schema().items():
            if kind.is_interval():
                raise _not_held(name, "durations")
        empty = [name for name, kind in table.schema().items() if kind.is_null()]
        if empty:  # as an empty column of a CSV file
            table = table.mutate(**{name: ibis.null("string") for name in empty})
    return _without_nan(table, design or Design())


def _without_nan(table: ir.Table, design: Design) -> ir.Table:
    """NaN is not a value in a survey: it must not count as large, nor make a cell of its own.
    Replicate weights are left as they are: with NaN among them they are refused when used."""
    weights = set(design.columns(table.columns)) - set(design.named)
    floats = [
        name for name, kind in table.schema().items() if kind.is_floating() and name not in weights
    ]
    if isinstance(table.op(), InMemoryTable):
        floats = _with_nan(table.op().data.obj, floats)
    elif floats and is_own_file(table):  # queries of a view with many columns are written faster
        return view_without_nan(table, floats)
    if not floats:
        return table
    return table.mutate(
        **{
            name: ibis.ifelse(table[name].isnan(), ibis.null(table[name].type()), table[name])
            for name in floats
        }
    )


def refuse_unusable(table: ir.Table, names: Iterable[str]) -> None:
    """Refuse columns of lists, structures or bytes, of which no table can be made."""
    for name in names:
        kind = table[name].type()
        if not (
            kind.is_numeric() or kind.is_string() or kind.is_boolean()
            or kind.is_date() or kind.is_timestamp() or kind.is_time()
        ):  # fmt: skip
            raise Refused(
                f"Column `{name}` is {kind}, and only numbers, texts, dates, times and true/false "
                "can be used; convert it first."
            )


def _held(table: ir.Table, names: Sequence[str]) -> pl.DataFrame | None:
    """Columns of numbers and texts that are in memory as they are: quicker to take than to ask."""
    records = table.op()
    if not isinstance(records, InMemoryTable) or not names or len(set(names)) < len(names):
        return None
    data = records.data.obj
    if isinstance(data, pa.Table):
        data = pl.DataFrame(data.select(names))
    elif not isinstance(data, pl.DataFrame):
        return None
    kinds = set(data.select(names).dtypes)
    plain = all(kind.is_integer() or kind.is_float() or kind == pl.String for kind in kinds)
    return data.select(names) if plain else None


def _with_nan(data: Any, floats: list[str]) -> list[str]:
    """The columns in which NaN occurs: looking once is cheaper than asking in every query."""
    if isinstance(data, pl.DataFrame):
        return [name for name in floats if data[name].is_nan().any()]
    if isinstance(data, pa.Table):
        return [name for name in floats if pc.any(pc.is_nan(data[name])).as_py()]
    return floats


def _as_table(data: Any, keep: Iterable[str]) -> ir.Table:
    if isinstance(data, ir.Table):
        return _chosen(data)
    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    library = type(data).__module__.split(".")[0]
    if library == "pandas":
        names = [str(name) for name in data.columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise Refused(f"Two columns are called `{twice}`; rename one of them.")
        names = distinct_names(names, keep)
        try:
            return ibis.memtable(
                pa.Table.from_pandas(data.set_axis(names, axis="columns"), preserve_index=False)
            )
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise Refused(
                "A column of the pandas frame mixes kinds of values; give each column one type."
            ) from None
    if isinstance(data, pl.DataFrame):
        names = distinct_names(data.columns, keep)
        data = _storable(data)
        return ibis.memtable(data.rename(dict(zip(data.columns, names, strict=True))))
    if library == "pyarrow":
        return ibis.memtable(data.rename_columns(distinct_names(data.column_names, keep)))
    raise Refused(
        "A survey is made from a polars or pandas frame, an Arrow table or an Ibis table; "
        "for a file use `read_survey`."
    )


def _chosen(table: ir.Table) -> ir.Table:
    """Columns chosen from records in memory, as records in memory, which need no queries."""
    chosen = table.op()
    if not isinstance(chosen, Project) or not isinstance(chosen.parent, InMemoryTable):
        return table
    as_they_are = all(isinstance(v, Field) and v.name == n for n, v in chosen.values.items())
    data = chosen.parent.data.obj
    if not as_they_are or not isinstance(data, pl.DataFrame | pa.Table):
        return table
    held = ibis.memtable(data.select(list(chosen.values)))
    return held if held.schema() == table.schema() else table


def _storable(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame in types that databases have."""
    wide = [name for name, kind in frame.schema.items() if kind == pl.Int128]
    for name, kind in frame.schema.items():
        if kind == pl.Object:
            raise _not_held(name, "Python objects")
    try:
        return frame.with_columns(pl.col(wide).cast(pl.Int64))
    except pl.exceptions.InvalidOperationError:
        raise Refused(
            f"Column `{wide[0]}` has whole numbers beyond 64 bits; convert it to decimals or text."
        ) from None


def _not_held(name: str, what: str) -> Refused:
    return Refused(
        f"Column `{name}` holds {what}, which a survey cannot have; convert it to numbers or text, "
        "or leave it out."
    )


def distinct_names(names: list[str], keep: Iterable[str]) -> list[str]:
    """The names, with a number after those that differ from another one only in case.

    SQL databases do not tell `nh` from `Nh`, and would silently answer with the other column.
    The one in `keep` (named by the design or the codebook), else the first, keeps its name.
    """
    keep = set(keep)
    first: dict[str, str] = {}
    for name in sorted(names, key=lambda name: name not in keep):
        if name in keep and first.get(name.lower(), name) != name:
            raise Refused(
                f"Columns `{first[name.lower()]}` and `{name}` differ only in upper and lower "
                "case; rename one of them in the file to use both."
            )
        first.setdefault(name.lower(), name)
    taken = {name.lower() for name in names}
    out = []
    for name in names:
        new, number = name, 0
        while new != first.get(new.lower(), new) or (number and new.lower() in taken):
            number += 1
            new = f"{name}_{number}"
        taken.add(new.lower())
        out.append(new)
    return out


def without_codes(table: ir.Table, column: Column) -> ir.Value:
    values = table[column.name]
    return ibis.ifelse(values.isin(list(column.missing)), ibis.null(values.type()), values)


def _same_kind(values: ir.Value, column: Column) -> bool:
    numeric = values.type().is_numeric() or values.type().is_boolean()
    return all(isinstance(level, (int, float)) == numeric for level in column.levels or ())
