"""A first codebook from the data, every guess marked as drafted.

Levels and bounds are read off the records, so they are confidential until the steward has
confirmed them from public documents and taken them off the column's `drafted` list. Columns
that the design does not name are drafted as sensitive, which is the safe side.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ibis
import ibis.expr.types as ir

from understudy.errors import Refused
from understudy.survey.codebook import Codebook, Column, Role, Type, Value
from understudy.survey.design import Design
from understudy.survey.draft_numbers import (
    CODE_SUMMARY,
    code_summary,
    date_bounds,
    drafted_codes,
    drafted_number,
    is_count,
    may_have_codes,
    shapes,
)

FEW_CODES = 30  # most levels of a categorical integer column
MANY_TEXTS = 1000  # a text column with more different texts has no levels
BLOCK = 60  # columns in one query
MANY_RECORDS = 1000  # of a file whose numbers may be identifiers whatever their name is
BY_CHANCE = 1e-4  # that numbers of an amount all differ, below which they are an identifier
EXACT = 2**53  # whole numbers below are exact as decimals

_ID_NAME = re.compile(
    r"(?i)(.*[_.\s-])?(id|ids|uuid|guid|caseid|recordid|respid|serial(no)?|seqn|recno)"
    r"|(case|record|resp|person|hh|house|pers|unit|row|obs)[_.\s-]?(id|no|num|nr|number)"
    r"|column1"
)
_ID_CAMEL = re.compile(r".*[a-z](Id|ID)")


def draft_codebook(table: ir.Table, design: Design, labels: Codebook | None = None) -> Codebook:
    """Draft the facts of every column in a few passes over the table.

    `labels` holds what came with the file (labels, value labels, missing codes): these facts
    are kept and are not marked as drafted.
    """
    known = labels or Codebook()
    roles = _roles(design, tuple(table.columns))
    names = list(table.columns)
    columns: dict[str, Column] = {}
    for start in range(0, len(names), BLOCK):
        block = names[start : start + BLOCK]
        described = {name: known.columns.get(name, Column(name)) for name in block}
        summaries = _summaries(table, described)
        _look_closer(table, described, summaries)
        for name in block:
            type_ = table[name].type()
            columns[name] = _column(described[name], type_, roles.get(name), summaries[name])
        _look_at_numbers(table, columns, block)
    return replace(known, columns=columns)


def _look_at_numbers(table: ir.Table, columns: dict[str, Column], block: list[str]) -> None:
    """Add what the shape of numbers suggests to columns that hold some."""
    numbers = {
        name: _usable(table, columns[name])
        for name in block
        if columns[name].role in ("public", "sensitive")
        and columns[name].type in ("integer", "continuous")
        and columns[name].bounds is not None
        and table[name].type().is_numeric()
    }
    if numbers:
        for name, shape in shapes(table, numbers).items():
            columns[name] = drafted_number(columns[name], shape)


def _roles(design: Design, names: tuple[str, ...]) -> dict[str, Role]:
    roles: dict[str, Role] = {}
    if design.replicates is not None and design.weight is not None:
        try:
            replicate_weights = design.replicates.matching(names, design.weight)
        except Refused:  # the replicate weights are not among these columns
            replicate_weights = ()
        roles.update(dict.fromkeys(replicate_weights, "replicate"))
    named: list[tuple[str | None, Role]] = [
        (design.fpc, "fpc"),
        (design.psu, "psu"),
        (design.strata, "stratum"),
        (design.weight, "weight"),
    ]
    roles.update({name: role for name, role in named if name in names and name is not None})
    return roles


def _usable(table: ir.Table, column: Column) -> Any:
    """The values that count: without missing codes, NaN and infinities."""
    values: Any = table[column.name]
    if column.missing:
        codes = [code for code in column.missing if _comparable(values, code)]
        if codes:
            values = ibis.ifelse(values.isin(codes), ibis.null(values.type()), values)
    if values.type().is_floating():
        strange = values.isnan() | values.isinf()
        values = ibis.ifelse(strange, ibis.null(values.type()), values)
    return values


def _comparable(values: Any, code: Value) -> bool:
    numeric = values.type().is_numeric()
    return isinstance(code, str) == values.type().is_string() and (
        isinstance(code, str) or numeric or values.type().is_boolean()
    )


_SUMMARY = ("known", "empty", "about", "low", "high")


def _summaries(table: ir.Table, described: Mapping[str, Column]) -> dict[str, dict[str, Any]]:
    """Known and different values (by a sketch) and the range of the numbers, in one pass."""
    wanted: dict[str, Any] = {"records": table.count()}
    for number, column in enumerate(described.values()):
        values = _usable(table, column)
        wanted[f"known_{number}"] = values.count()
        raw: Any = table[column.name]
        empty = raw.isnull() | raw.isnan() if raw.type().is_floating() else raw.isnull()
        wanted[f"empty_{number}"] = empty.sum()
        if _may_have_levels(values, column):
            wanted[f"about_{number}"] = values.approx_nunique()
        if values.type().is_numeric() or _is_day(values.type()):
            wanted[f"low_{number}"] = values.min()
            wanted[f"high_{number}"] = values.max()
    row = table.aggregate(**wanted).to_polars().row(0, named=True)
    return {
        name: {
            "records": row["records"],
            **{fact: row.get(f"{fact}_{number}") for fact in _SUMMARY},
        }
        for number, name in enumerate(described)
    }


def _may_have_levels(values: Any, column: Column) -> bool:
    type_ = values.type()
    return bool(
        type_.is_string()
        or type_.is_integer()
        or type_.is_floating()
        or (type_.is_numeric() and any(isinstance(v, (int, float)) for v in column.value_labels))
    )


def _look_closer(
    table: ir.Table, described: Mapping[str, Column], summaries: Mapping[str, dict[str, Any]]
) -> None:
    """Add the levels where the sketch says there are not too many, and exact counts where
    every record may have a value of its own."""
    wanted: dict[str, Any] = {}
    for number, (name, column) in enumerate(described.items()):
        summary = summaries[name]
        if may_have_codes(table[name].type(), summary) and not column.missing:
            for fact, aggregate in code_summary(_usable(table, column)).items():
                wanted[f"{fact}_{number}"] = aggregate
        about = summary["about"]
        if about is None or summary["known"] == 0:
            continue
        values = _usable(table, column)
        floating = values.type().is_floating() and not column.value_labels
        most = FEW_CODES if floating else MANY_TEXTS
        if about <= 1.3 * most:  # the sketch errs by a few per cent
            wanted[f"levels_{number}"] = values.collect(distinct=True)
        elif about > 0.8 * summary["records"]:
            wanted[f"different_{number}"] = values.nunique()
    if not wanted:
        return
    row = table.aggregate(**wanted).to_polars().row(0, named=True)
    for number, name in enumerate(described):
        summaries[name] |= {fact: row.get(f"{fact}_{number}") for fact in CODE_SUMMARY}
        levels = row.get(f"levels_{number}")
        if levels is not None:
            summaries[name]["levels"] = sorted(level for level in levels if level is not None)
            summaries[name]["different"] = len(summaries[name]["levels"])
        else:
            summaries[name]["different"] = row.get(f"different_{number}")


def _column(column: Column, type_: Any, role: Role | None, summary: Mapping[str, Any]) -> Column:
    drafted = {"type"} if role is not None else {"type", "role"}
    if role is None and _is_unit(column.name, type_, summary):
        kind: Type = "text" if type_.is_string() else "integer"
        return replace(column, role="unit", type=kind, drafted=frozenset(drafted))
    codes = () if role is not None or column.missing else drafted_codes(summary)
    if codes:
        column = replace(column, missing=codes)
        drafted.add("missing")
        summary = {**summary, "low": summary["others_low"], "high": summary["others_high"]}
        kept = [code for code in summary["codes"] if code not in codes]
        summary["low"] = min([summary["low"], *kept])
        summary["high"] = max([summary["high"], *kept])
    levels, declared = _levels(column, type_, role, summary)
    if levels is not None:
        kind, bounds = "categorical", None
        drafted |= set() if declared else {"levels"}
    elif _is_day(type_):
        kind, bounds = kind_of(type_), date_bounds((summary["low"], summary["high"]))
        drafted |= {"bounds"} if bounds is not None else set()
    else:
        kind, bounds = kind_of(type_), _bounds(summary)
        drafted |= {"bounds"} if bounds is not None else set()
    return replace(
        column,
        role=role or "sensitive",
        type=kind,
        levels=levels,
        bounds=bounds,
        blanks=bool(summary["empty"]) if role is None else None,
        drafted=frozenset(drafted | ({"blanks"} if role is None else set())),
    )


def _is_unit(name: str, type_: Any, summary: Mapping[str, Any]) -> bool:
    """Every record has a value of its own, in a column of texts or with the name of an id, or of
    whole numbers in a range where that many could hardly all differ by chance."""
    records = summary["records"]
    if records < 2 or summary.get("different") != records:
        return False
    if _ID_NAME.fullmatch(name) or _ID_CAMEL.fullmatch(name):
        return True
    if type_.is_integer():
        # n even draws from r values all differ with a chance of about exp(-n^2 / (2 r))
        room = summary["high"] - summary["low"] + 1
        # 1 to n may be a rank as well
        return bool(MANY_RECORDS < records < room < records**2 / (-2 * math.log(BY_CHANCE)))
    return bool(type_.is_string() and records > FEW_CODES)


def _levels(
    column: Column, type_: Any, role: Role | None, summary: Mapping[str, Any]
) -> tuple[tuple[Value, ...] | None, bool]:
    """The levels of a categorical column, and whether the file's value labels declare them."""
    if role in ("weight", "fpc", "replicate"):
        return None, False
    if type_.is_boolean():
        return (False, True), False
    seen = [level for level in summary.get("levels") or () if level not in column.missing]
    if not seen or len(seen) > MANY_TEXTS:
        return None, False
    labelled = [value for value in column.value_labels if value not in column.missing]
    if set(seen) <= set(labelled):
        return tuple(labelled), True
    most = MANY_TEXTS if role in ("stratum", "psu") else FEW_CODES
    if type_.is_string():
        # Texts that hardly repeat are answers or names in words, not categories.
        few = len(seen) <= FEW_CODES or 2 * len(seen) <= summary["known"]
    else:
        # codes that a file stores as decimals are whole numbers all the same
        codes = all(level == int(level) and abs(level) < EXACT for level in seen)
        few = len(seen) <= most and codes and (role is not None or not is_count(seen))
        seen = [int(level) for level in seen] if few else seen
    return (tuple(seen), False) if few else (None, False)


def kind_of(type_: Any) -> Type:
    """The kind of column that a storage type alone suggests."""
    if type_.is_integer():
        return "integer"
    if type_.is_numeric():
        return "continuous"
    return "date" if _is_day(type_) else "text"


def _is_day(type_: Any) -> bool:
    return bool(type_.is_date() or type_.is_timestamp())


def _bounds(summary: Mapping[str, Any]) -> tuple[float, float] | None:
    if summary["low"] is None or not summary["low"] < summary["high"]:
        return None
    low, high = float(summary["low"]), float(summary["high"])
    # A whole number beyond 2**53 may have been rounded into the range.
    low = math.nextafter(low, -math.inf) if low > summary["low"] else low
    high = math.nextafter(high, math.inf) if high < summary["high"] else high
    return low, high
