"""Epsilon as an exact number: decimal text in, whole millionths inside, decimal text out.

Budgets are never floats. A sum of integers has no drift, and there is no NaN, no infinity
and no negative amount that a ledger would have to guard against later.
"""

from __future__ import annotations

import re
from fractions import Fraction

from understudy.errors import Refused

__public__ = ("parse_epsilon",)

MICRO = 1_000_000
LARGEST = 1_000 * MICRO

_DECIMAL = re.compile(r"(\d{1,4})(?:\.(\d{1,6}))?", re.ASCII)


def parse_epsilon(text: str) -> int:
    """Micro-epsilon from decimal text: "0.25" -> 250000; exact, or refused."""
    match = _DECIMAL.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise Refused(
            'Epsilon must be a plain decimal such as "0.25", with at most six '
            "digits after the point."
        )
    micro = int(match[1]) * MICRO + int((match[2] or "").ljust(6, "0"))
    if not 0 < micro <= LARGEST:
        raise Refused(f"Epsilon must be above 0 and at most {LARGEST // MICRO}.")
    return micro


def show_epsilon(micro: int) -> str:
    """The shortest decimal text: 250000 -> "0.25"."""
    sign = "-" if micro < 0 else ""
    whole, rest = divmod(abs(micro), MICRO)
    digits = f"{rest:06d}".rstrip("0")
    return f"{sign}{whole}.{digits}" if digits else f"{sign}{whole}"


def exact_epsilon(micro: int) -> Fraction:
    return Fraction(micro, MICRO)
