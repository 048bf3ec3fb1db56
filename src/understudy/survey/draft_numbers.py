"""What a numeric column looks like, drafted: missing codes, special values, rounding and grid.

Every guess is read off the records, so it is marked as drafted until the steward confirms it.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ibis
import ibis.expr.types as ir

from understudy.survey.codebook import EPOCH, Column, Value

# What questionnaires use for "refused", "unknown" and "does not apply".
HIGH_CODES = [10**k - j for k in range(2, 11) for j in range(1, 5)]
LOW_CODES = [*range(-9, 0), -66, -77, -88, *(-code for code in HIGH_CODES if code < 10_000)]
CODE_SUMMARY = ("codes", "coded", "others_low", "others_high")
LONG_RUN = 10  # values without a gap before the first one: lists of codes have gaps early
OFTEN = 3  # records of a code, on average; a number that occurs once is a number
MOST_LOW_CODES = 4  # negative values of a column that are all codes; more are a scale

STEPS = (0.01, 0.1, 0.5, 1, 5, 10, 50, 100, 500, 1000)
HEAPED = 0.95  # share of multiples of a step that suggests a rounding: the others would move
SINGLE = 1.2e-7  # relative rounding of numbers that were stored in single precision
MOST_DUST = 1e-3  # of a step, by which a multiple may be off
FEWEST_STEPS = 50  # between the bounds: a coarser rounding would be most of the column
MANY_ZEROS = 0.05  # share of zeros that makes 0 a value of its own
MASS_AT_BOUND = 0.002  # share of records on a bound, with 3 times what a value has on average
SKEWED = 20  # times the median: a larger maximum wants a grid by ratios


def missing_codes(values: Sequence[float], low: float | None, high: float | None) -> list[float]:
    """Which of the values that look like codes stand apart from the other numbers, which lie
    between `low` and `high`."""
    below = [code for code in values if code < 0]
    above = [code for code in values if code >= 0]
    if low is None or high is None:
        return []
    codes = [*below] if low >= 0 and len(below) <= MOST_LOW_CODES else []
    # far above the others: at least as far as these reach themselves
    return codes + [code for code in above if code - high > max(high - low, 1)]


def may_have_codes(type_: Any, summary: Mapping[str, Any]) -> bool:
    """Whether the least or the largest value could be a code."""
    if not type_.is_numeric() or summary["low"] is None:
        return False
    return bool(summary["low"] in LOW_CODES or summary["high"] in HIGH_CODES)


def code_summary(values: Any) -> dict[str, Any]:
    """The aggregates that `drafted_codes` needs, by name."""
    candidates = values.isin([*LOW_CODES, *HIGH_CODES])
    return {
        "codes": values.collect(where=candidates, distinct=True),
        "coded": candidates.sum(),
        "others_low": values.min(where=~candidates),
        "others_high": values.max(where=~candidates),
    }


def drafted_codes(summary: Mapping[str, Any]) -> tuple[Value, ...]:
    seen = [code for code in summary.get("codes") or () if code is not None]
    low, high = summary.get("others_low"), summary.get("others_high")
    if (summary.get("coded") or 0) < OFTEN * len(seen):
        return ()
    codes = missing_codes(sorted(seen), low, high)
    return tuple(int(code) for code in codes)


def shapes(table: ir.Table, columns: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Counts that tell the shape of each column of numbers, in two passes; `columns` are its values
    without missing codes."""
    table = table.select(  # written once; decimals of 38 digits leave no room for comparisons
        [
            (values.cast("float64") if values.type().is_decimal() else values).name(name)
            for name, values in columns.items()
        ]
    )
    shapes = _answers(table, {name: {} for name in columns}, _summary)
    return _answers(table, shapes, _multiples)


def _answers(
    table: ir.Table,
    shapes: dict[str, dict[str, Any]],
    questions: Callable[[Any, Mapping[str, Any]], dict[str, Any]],
) -> dict[str, dict[str, Any]]:
    """The shapes with the answers to further questions, in one pass."""
    wanted = {
        f"{fact}_{number}": aggregate
        for number, name in enumerate(shapes)
        for fact, aggregate in questions(table[name], shapes[name]).items()
    }
    row = table.aggregate(**wanted).to_polars().row(0, named=True) if wanted else {}
    return {
        name: shape
        | {key.rsplit("_", 1)[0]: v for key, v in row.items() if key.endswith(f"_{number}")}
        for number, (name, shape) in enumerate(shapes.items())
    }


def _summary(values: Any, _: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "known": values.count(),
        "low": values.min(),
        "high": values.max(),
        "zeros": (values == 0).sum(),
        "median": values.cast("float64").abs().nullif(0).approx_median(),
        "different": values.approx_nunique(),
    }


def _multiples(values: Any, shape: Mapping[str, Any]) -> dict[str, Any]:
    """How many records are on the least and the largest value, and how many are multiples of a step
    that may be the column's rounding or tells whether they are whole."""
    if not shape["known"]:
        return {}
    counts = {
        f"at_{end}": values == ibis.literal(shape[end], values.type()) for end in ("low", "high")
    }
    least = 1 if values.type().is_integer() else 0
    for step in STEPS:
        if step == 1 or (least <= step and _is_fine(step, shape)):
            # a multiple of 0.1 is one up to the rounding of binary numbers, often of 24 digits
            steps = (values.cast("float64") / step).abs()
            dust = ibis.least(SINGLE * steps, MOST_DUST) + 1e-6
            counts[f"step{step}"] = (steps % 1 - 0.5).abs() > 0.5 - dust
    return {fact: records.sum() for fact, records in counts.items()}


def _is_fine(step: float, shape: Mapping[str, Any]) -> bool:
    return bool(step <= (shape["high"] - shape["low"]) / FEWEST_STEPS)


def is_count(values: Sequence[float]) -> bool:
    """Whether whole numbers look like a count or an amount rather than codes: dense from 0 or 1 on,
    and thin above."""
    low = int(values[0])
    dense = next((k for k, value in enumerate(values) if value != low + k), len(values))
    return low in (0, 1) and LONG_RUN <= dense < len(values)


def special_values(shape: Mapping[str, Any]) -> tuple[float, ...]:
    """0 where many records have it, and a bound where records pile up."""
    known, low, high = shape["known"], shape["low"], shape["high"]
    if not known or not low < high:
        return ()
    usual = max(3 * known / max(shape["different"], 1), MASS_AT_BOUND * known, 10)
    piles = [0.0] if shape["zeros"] > max(MANY_ZEROS * known, usual) else []
    piles += [float(low)] if shape["at_low"] > usual else []
    piles += [float(high)] if shape["at_high"] > usual else []
    return tuple(sorted(set(piles)))


def rounding_step(shape: Mapping[str, Any]) -> float | None:
    """The widest step that most values are multiples of; None where none is, or where it is 1."""
    known = shape["known"] - shape["zeros"]  # 0 is a multiple of everything
    if known <= 0:
        return None
    least = 1 if is_whole(shape) else 0
    met = [
        step
        for step in STEPS
        if least <= step
        and _is_fine(step, shape)
        and shape[f"step{step}"] - shape["zeros"] >= HEAPED * known
    ]
    return float(met[-1]) if met else None


def on_steps(bounds: tuple[float, float], step: float) -> tuple[float, float]:
    """The multiples of the step around the bounds: 6.9 and 20.3 for 6.9000001 and 20.200001."""
    low, high = (value / step for value in bounds)
    ends = math.floor(low + 1e-9), math.ceil(high - 1e-9)
    return round(ends[0] * step, 2), round(ends[1] * step, 2)  # no step has more digits


def is_whole(shape: Mapping[str, Any]) -> bool:
    """Whether all values are whole numbers."""
    return bool(shape["known"] and shape["step1"] == shape["known"])


def drafted_number(column: Column, shape: Mapping[str, Any]) -> Column:
    """The column with what its shape suggests; what the file declared stays."""
    drafted = set(column.drafted)
    facts: dict[str, Any] = {}
    if column.type == "continuous" and is_whole(shape):
        facts["type"] = "integer"
    special, step = special_values(shape), rounding_step(shape)
    if special and not column.special:
        facts["special"] = special
    if step is not None and step != (1.0 if facts.get("type", column.type) == "integer" else None):
        facts["rounding"] = step
        whole = facts.get("type", column.type) == "integer"
        if not whole and column.bounds is not None and "bounds" in column.drafted:
            facts["bounds"] = on_steps(column.bounds, step)
    median = shape["median"]
    if median and max(abs(shape["low"]), abs(shape["high"])) > SKEWED * median:
        facts["grid"] = "log"
    drafted |= set(facts)
    return replace(column, **facts, drafted=frozenset(drafted))


def date_bounds(values: Iterable[Any]) -> tuple[float, float] | None:
    """Whole years around the first and the last day."""
    first, last = values
    if first is None or last is None:
        return None
    low, high = datetime.date(first.year, 1, 1), datetime.date(last.year, 12, 31)
    return float((low - EPOCH).days), float((high - EPOCH).days)
