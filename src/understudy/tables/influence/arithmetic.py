"""The few functions that an estimating equation needs beyond + - * /, on arrays and Ibis columns.

The synthetic files are small and public: their influences are NumPy arrays. The confidential file
stays in its engine: there the same formulas are expressions. A missing value is NaN in an array
and null in a table, and whatever is computed from it is missing too.
"""

from __future__ import annotations

from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np

RecordNumber = Any  # an array, an Ibis column, or a plain number
NOT_A_NUMBER = ibis.literal(float("nan"))  # equal to itself in DuckDB and in Spark


def unit_weight() -> Any:
    """The weight of records that have none; a double, which a plain literal is not in DuckDB."""
    return ibis.literal(1).cast("float64")


def exp(value: RecordNumber) -> RecordNumber:
    if isinstance(value, ir.Value):
        # engines refuse what overflows; a record beyond this is clipped whatever it says
        return _held(value, -700.0, 700.0).exp()
    return np.exp(np.clip(value, -700.0, 700.0))


def expit(value: RecordNumber) -> RecordNumber:
    return 1.0 / (1.0 + exp(-1.0 * value))


def absolute(value: RecordNumber) -> RecordNumber:
    return value.abs() if isinstance(value, ir.Value) else np.abs(value)


def at_most(value: RecordNumber, limit: float) -> RecordNumber:
    """1 where the value is at most the limit, 0 where it is above, missing where it is missing."""
    if isinstance(value, ir.Value):
        return ibis.ifelse(
            value.isnull(), ibis.null("float64"), ibis.ifelse(value <= limit, 1.0, 0.0)
        )
    return np.where(np.isnan(value), np.nan, np.where(value <= limit, 1.0, 0.0))


def share_at_most(value: RecordNumber, limit: float, spread: float) -> RecordNumber:
    """The same for a value that is spread evenly over value -+ spread; `spread` 0 is `at_most`."""
    if spread == 0:
        return at_most(value, limit)
    share = (limit - value) / (2 * spread) + 0.5
    if isinstance(value, ir.Value):
        return ibis.ifelse(share.isnull(), ibis.null("float64"), _held(share, 0.0, 1.0))
    return np.clip(share, 0.0, 1.0)


def known_or_zero(value: RecordNumber) -> RecordNumber:
    """A missing number counts as 0."""
    if isinstance(value, ir.Value):
        number: Any = value
        # the value once: engines compute what is written twice two times
        return number.nullif(NOT_A_NUMBER).fill_null(0.0)
    return np.where(np.isnan(value), 0.0, value)


def where_inside(inside: RecordNumber, value: RecordNumber) -> RecordNumber:
    """The value inside of a domain, 0 outside, whatever stands there."""
    if isinstance(inside, ir.Value):
        return ibis.ifelse(inside, value, 0.0)
    return np.where(inside, value, 0.0)


def _held(value: Any, low: float, high: float) -> Any:
    # `least` and `greatest` skip nulls: callers keep what is missing missing
    bounded = ibis.greatest(ibis.least(value, high), low)
    return ibis.ifelse(value.isnull(), ibis.null("float64"), bounded)
