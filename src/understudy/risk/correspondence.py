"""Confidential and synthetic records side by side: by a declared id, or by order.

Risk compares each record with its own synthetic value, so it must be known which synthetic
row belongs to which record. Without an id the rows are taken in order, and the known
variables, which are then not synthesized, must agree row by row. With an id they may
differ: they count as synthesized, and the intruder finds a record in the pattern that its
synthetic row shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from understudy.errors import Refused, UnknownName
from understudy.risk.patterns import Floats, Integers
from understudy.survey.survey import Survey

Data: TypeAlias = Any  # a Survey, a polars or pandas frame, an Arrow or Ibis table


def frame_of(data: Data, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Some columns (or all) of any accepted input, in memory and in the order of its rows."""
    if isinstance(data, pl.LazyFrame):
        data = data.collect()
    if not isinstance(data, (Survey, pl.DataFrame)):
        is_pandas = type(data).__module__.split(".")[0] == "pandas"
        data = pl.from_pandas(data) if is_pandas else Survey(data)
    names = list(data.columns if columns is None else dict.fromkeys(columns))
    for name in names:
        if name not in data.columns:
            raise UnknownName("column", name, data.columns)
    return data.frame(names) if isinstance(data, Survey) else data.select(names)


def sensitive_values(frame: pl.DataFrame, targets: Sequence[str], whose: str) -> Floats:
    """The sensitive variables as (d, n) float64; missing or infinite values are refused."""
    rows = []
    for name in targets:
        column = frame[name]
        if not column.dtype.is_numeric():
            raise target_not_numeric(name, whose)
        values = column.cast(pl.Float64)
        if values.null_count() or not values.is_finite().all():
            raise target_missing(name, whose)
        rows.append(values.to_numpy())
    return np.vstack(rows).astype(np.float64, copy=False)


def refuse_constant(values: Floats, targets: Sequence[str]) -> None:
    """Refuse a confidential target that is the same for every record."""
    for name, row in zip(targets, values, strict=True):
        if row.min() == row.max():
            raise target_constant(name)


def target_not_numeric(name: str, whose: str) -> Refused:
    return Refused(
        f"The target `{name}` of {whose} is not numeric; a ball needs numbers, so name "
        "a numeric column (a categorical one belongs in `known`)."
    )


def target_missing(name: str, whose: str) -> Refused:
    return Refused(
        f"The target `{name}` of {whose} has missing or infinite values; drop or impute "
        "those records first, in all files alike."
    )


def target_constant(name: str) -> Refused:
    return Refused(
        f"The target `{name}` is the same for every record, so nobody can be told apart "
        "by it; name the variable that is sensitive."
    )


def bad_id(by_id: str, whose: str) -> Refused:
    return Refused(
        f"The id `{by_id}` is missing or repeated in {whose}; name a column with one "
        "different value per record."
    )


def pattern_codes(frame: pl.DataFrame, known: Sequence[str]) -> Integers:
    """A code 0..P-1 per record: equal exactly when the known variables agree.

    A missing value is a level of its own. No known variable: one pattern of all records.
    """
    if not known:
        return np.zeros(frame.height, np.int64)
    numbered = frame.select(known).with_row_index("__row")
    first = numbered.select(pl.col("__row").first().over(list(known))).to_series().to_numpy()
    is_first = first == np.arange(len(first))
    dense: Integers = (np.cumsum(is_first) - 1)[first]
    return dense


def aligned(
    confidential: pl.DataFrame,
    synthetic: pl.DataFrame,
    known: Sequence[str],
    by_id: str | None,
    number: int,
) -> pl.DataFrame:
    """The synthetic records in the order of the confidential ones, or a refusal.

    `number` is the position of the synthetic data set in the caller's list, from 1.
    """
    whose = f"synthetic data set {number}"
    synthetic = _same_types(confidential, synthetic, [*known, *([by_id] if by_id else [])], whose)
    if by_id is not None:
        return _by_id(confidential, synthetic, by_id, whose)
    if synthetic.height != confidential.height:
        raise Refused(
            f"The confidential data has {confidential.height} records and {whose} has "
            f"{synthetic.height}; records correspond by order, so give as many rows or declare "
            "the record's id with `by_id`."
        )
    for name in known:
        if not confidential[name].equals(synthetic[name], null_equal=True):
            raise Refused(
                f"The rows of {whose} do not correspond by order: the known variable `{name}` "
                "differs; restore the order, or declare the record's id with `by_id` (then known "
                "variables may be synthesized too). Files of a release are sorted: their risk is "
                "in its report."
            )
    return synthetic


def refuse_bad_id(frame: pl.DataFrame, by_id: str, whose: str) -> None:
    """An id must be present and different for every record."""
    if frame[by_id].null_count() or frame[by_id].n_unique() < frame.height:
        raise bad_id(by_id, whose)


def matching_rule(by_id: str | None, known: Sequence[str]) -> str:
    """How records were matched, in words for a report."""
    if by_id is not None:
        return f"by id `{by_id}`"
    if known:
        return "by order of rows (the known variables agree row by row)"
    return "by order of rows (no known variable to check it by)"


def _by_id(
    confidential: pl.DataFrame, synthetic: pl.DataFrame, by_id: str, whose: str
) -> pl.DataFrame:
    refuse_bad_id(synthetic, by_id, whose)
    if synthetic.height != confidential.height:
        raise Refused(
            f"The confidential data has {confidential.height} records and {whose} has "
            f"{synthetic.height}; by id `{by_id}` each record needs exactly one synthetic row."
        )
    rows = synthetic.select(by_id).with_row_index("__row")
    matched = confidential.select(by_id).join(rows, on=by_id, how="left", maintain_order="left")
    if matched["__row"].null_count():
        raise Refused(
            f"Some records have no row in {whose} by id `{by_id}`; the ids must be the same in "
            "both files."
        )
    return synthetic[matched["__row"].to_numpy()]


def _same_types(
    confidential: pl.DataFrame, synthetic: pl.DataFrame, names: Sequence[str], whose: str
) -> pl.DataFrame:
    """Compare like with like: a file may have read whole numbers as another integer type."""
    out = synthetic
    for name in names:
        column, wanted = synthetic[name], confidential[name].dtype
        if column.dtype == wanted:
            continue
        try:
            converted = column.cast(wanted)
            lossless = converted.cast(column.dtype).equals(column, null_equal=True)
        except pl.exceptions.PolarsError:
            lossless = False
        if not lossless:
            raise Refused(
                f"The column `{name}` has different types in {whose} and in the confidential data; "
                "write both files with the same types."
            )
        out = out.with_columns(converted)
    return out


def without_categories(frame: pl.DataFrame) -> pl.DataFrame:
    """Categories as text, so that files with different category codes compare by their text."""
    return frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
