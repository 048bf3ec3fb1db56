"""Plain JSON values: what the evidence document is made of.

Numbers are rounded to a fixed number of digits, so that the document is small and does not carry
the last bit of a sum. NaN becomes null; infinities become the texts "inf" and "-inf".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

NUMBER_DIGITS = 12  # estimates: every digit that a table could show
CURVE_DIGITS = 6  # points of a curve: more than a picture can show


def plain(value: Any, digits: int = NUMBER_DIGITS) -> Any:
    """The value as JSON knows it: None, bool, int, float, str, list or dict."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, np.generic):
        return plain(value.item(), digits)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return number(value, digits)
    if isinstance(value, np.ndarray):
        return [plain(item, digits) for item in value.tolist()]
    if isinstance(value, Mapping):
        return {str(key): plain(item, digits) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [plain(item, digits) for item in value]
    return str(value)  # a date, a decimal


def number(value: float, digits: int = NUMBER_DIGITS) -> float | str | None:
    """One number, rounded; None for NaN, a text for an infinity."""
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    rounded = float(f"{value:.{digits}g}")
    return rounded + 0.0  # -0.0 and 0.0 are the same number and shall be the same bytes


def curve(values: Any) -> list[Any]:
    """The points of a curve."""
    return [plain(float(point), CURVE_DIGITS) for point in np.asarray(values, dtype=np.float64)]


def finite(value: Any) -> float | None:
    """A number of the document where it is one; None for null, "inf" and "-inf"."""
    return None if value is None or isinstance(value, str) else float(value)
