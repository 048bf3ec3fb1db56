"""Checks that every posterior makes of its arguments."""

from __future__ import annotations

import math

from understudy.errors import Refused


def check_noise_level(partitions: int, epsilon: float) -> None:
    if isinstance(partitions, bool) or partitions < 1 or partitions != int(partitions):
        raise Refused("The number of partitions must be a whole number, 1 or more.")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise Refused("Epsilon must be a number above 0.")


def tail_of(probability: float) -> float:
    """The probability beyond either end of an equal-tailed interval."""
    if not 0 < probability < 1:
        raise Refused("The probability of an interval must lie between 0 and 1.")
    return (1 - probability) / 2
