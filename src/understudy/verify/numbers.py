"""Numbers as people read them, in pages and sentences."""

from __future__ import annotations

import math


def short(value: float) -> str:
    """Four digits that matter, thousands apart, exponents only where nothing else helps."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "?"
    size = abs(value)
    if size >= 1e10 or size < 1e-4:
        text = f"{value:.3g}"
    elif size >= 1000:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.4g}"
    return text.replace("-", "−", 1) if value < 0 else text


def chance(probability: float) -> str:
    """Two digits; certainty is never claimed."""
    if probability > 0.99:
        return "over 0.99"
    return "under 0.01" if probability < 0.01 else f"{probability:.2f}"


def percent(probability: float) -> str:
    if probability > 0.99:
        return "Over 99 %"
    return "Under 1 %" if probability < 0.01 else f"{100 * probability:.0f} %"
