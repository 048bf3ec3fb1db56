"""Numbers as the pages print them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from understudy.report.plain import finite

NOTHING = "–"  # where there is no number
WIDEST = 100  # standard errors on either side that are still printed as limits


def shown(value: Any, se: Any = None) -> str:
    """A number with thousands apart; with its SE, as many decimals as give the SE three digits."""
    if isinstance(value, str):
        return {"inf": "∞", "-inf": "−∞"}.get(value, value)
    number = finite(value)
    if number is None:
        return NOTHING
    scale = finite(se)
    if scale is None or scale <= 0 or not math.isfinite(scale):
        scale = abs(number) / 100
    if number != 0 and (abs(number) >= 1e12 or abs(number) < 1e-6):
        return _minus(f"{number:.3g}")
    if scale == 0:
        return "0"
    decimals = min(max(0, 2 - math.floor(math.log10(scale))), 9)
    return _minus(f"{number:,.{decimals}f}")


def limits(side: Mapping[str, Any]) -> str:
    """Lower to upper; with next to no degrees of freedom they say nothing, and that is said."""
    se, lower, upper = finite(side["se"]), finite(side["lower"]), finite(side["upper"])
    if se is None or lower is None or upper is None:
        return NOTHING
    if upper - lower > 2 * WIDEST * se > 0:
        return f"over ±{WIDEST} SE"
    return f"{shown(lower, se)} to {shown(upper, se)}"


def digits(value: Any, count: int = 3) -> str:
    """A number to so many digits, without exponents where they can be avoided."""
    number = finite(value)
    if number is None:
        return shown(value)
    if number == 0:
        return "0"
    size = math.floor(math.log10(abs(number)))
    if size >= 12 or size < -6:
        return _minus(f"{number:.{count}g}")
    return _minus(f"{number:,.{max(0, count - 1 - size)}f}")


def fixed(value: Any, decimals: int) -> str:
    number = finite(value)
    return shown(value) if number is None else _minus(f"{number:,.{decimals}f}")


def percent(share: Any) -> str:
    """A share in per cent; something that is there never reads as 0 %."""
    number = finite(share)
    if number is None:
        return NOTHING
    if 0 < number < 0.0005:
        return "under 0.1 %"
    return f"{100 * number:.1f} %" if number < 0.9995 or number == 1 else "over 99.9 %"


def listed(names: list[str]) -> str:
    """a, b and c."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _minus(text: str) -> str:
    """A true minus; and no minus before a number that was rounded to zero."""
    if not text.startswith("-"):
        return text
    return text[1:] if not text.strip("-0.,") else "−" + text[1:]
