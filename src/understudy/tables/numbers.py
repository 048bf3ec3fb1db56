"""Columns as numbers."""

from __future__ import annotations

import ibis
import ibis.expr.types as ir
from ibis.expr.operations import Field


def as_float(value: ir.Value) -> ir.FloatingValue:
    """float64, with NaN read as missing; columns of a survey have none."""
    number = value.cast("float64")
    if value.type().is_floating() and not isinstance(value.op(), Field):
        number = number.nullif(float("nan"))
    return number


ONE = ibis.literal(1.0)
