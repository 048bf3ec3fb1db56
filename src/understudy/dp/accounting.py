"""Accounting: pure epsilon, (epsilon, delta) and rho (zCDP), converted, composed and grouped.

A claim under zCDP says that the Renyi divergence of order a between the outputs for two
neighbouring databases is at most rho a, for every a > 1 (Bun and Steinke 2016). What is used here:

    pure epsilon         is rho = epsilon^2 / 2                         (their prop. 1.4)
    (epsilon, delta)     is rho = epsilon^2 / 2 but for an event of chance delta   (their §8)
    rho_1, ..., rho_k    compose to their sum, also when chosen one after the other
    rho                  is (epsilon, delta) for every epsilon at the delta of Canonne, Kamath and
                         Steinke 2020, §2.3:
                         min over a > 1 of exp((a-1)(a rho - epsilon)) / (a-1) (1 - 1/a)^a

The last one is computed by OpenDP, whose floating-point bounds are proved; claims rest on it. What
a figure costs is rounded up and what it allows is rounded down, so every sentence that says "at
most" is true of the doubles as well. Sums are over exact fractions, rounded up once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

from understudy.claim import RECORD, Relation, checked_epsilon
from understudy.errors import Refused

LARGEST_RHO = 10_000.0  # epsilon about 10,600 at delta 1e-5; beyond it OpenDP's sums overflow


@dataclass(frozen=True)
class Cost:
    """What a release costs one unit under each of its relations: epsilon and delta, or rho."""

    relations: tuple[Relation, ...]
    epsilon: Fraction | None = None
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None
    unit: str = RECORD

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None) or (self.rho is not None and self.delta):
            raise Refused("A cost is an epsilon, perhaps with a delta, or a rho.")

    @property
    def as_rho(self) -> Fraction:
        """rho; of an epsilon with a delta, but for an event of chance delta."""
        return self.rho if self.rho is not None else pure_rho(self.epsilon or 0)

    def under(self, relation: Relation, unit: str = RECORD, records: int = 1) -> Cost:
        """The same release for another relation and unit, where that follows; otherwise refused.

        A replacement is two steps under `blank` or `add-remove` through a third database. A unit of
        `records` records is that many steps for a record. A figure for a whole unit holds for one
        of its records: under `replace` as it is, under `add-remove` as two steps, because the unit
        is there with or without the record.
        """
        steps = 1
        if relation not in self.relations:
            if relation != "replace":
                raise Refused(
                    f"A claim under `{self.relations[0]}` says nothing under `{relation}`; declare "
                    f"the population with relation `replace`, or use a mechanism of `{relation}`."
                )
            steps = 2
        if unit != self.unit:
            if self.unit == RECORD:
                steps *= checked_size(records)
            elif unit != RECORD:
                raise Refused(
                    f"Figures for one `{self.unit}` cannot be added to figures for one `{unit}`; "
                    "declare one unit for the population."
                )
            elif relation == "add-remove":
                steps *= 2
        return replace(self._grouped(steps), relations=(relation,), unit=unit)

    def _grouped(self, steps: int) -> Cost:
        if self.rho is not None:
            return replace(self, rho=group_rho(self.rho, steps))
        epsilon = self.epsilon or Fraction(0)
        delta = group_delta(epsilon, self.delta, steps)
        return replace(self, epsilon=group_epsilon(epsilon, steps), delta=delta)


def epsilon_of(rho: float, delta: float) -> float:
    """The least epsilon with (epsilon, delta)-privacy that OpenDP proves for rho-zCDP."""
    checked_delta(delta)
    return float(_profile(rho).epsilon(delta))


def delta_of(rho: float, epsilon: float) -> float:
    """The least delta with (epsilon, delta)-privacy that OpenDP proves for rho-zCDP."""
    return float(_profile(rho).delta(checked_epsilon(epsilon)))


def rho_of(epsilon: float, delta: float) -> float:
    """The largest rho whose releases are (epsilon, delta)-private: a budget for zCDP.

    0.0305566 for epsilon 1 and delta 1e-5. The bisection ends at neighbouring doubles; what is
    returned keeps the promise, by OpenDP's delta and by its epsilon.
    """
    checked_epsilon(epsilon)
    checked_delta(delta)
    low, high = 0.0, LARGEST_RHO
    while (middle := (low + high) / 2) not in (low, high):
        if delta_of(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    while low > 0 and epsilon_of(low, delta) > epsilon:  # OpenDP rounds its two ways up
        low = math.nextafter(low, 0.0)
    if low == 0:
        raise Refused("No rho is this small; ask for a larger epsilon or delta.")
    return low


def pure_rho(epsilon: float | Fraction) -> Fraction:
    """rho = epsilon^2 / 2 of a pure epsilon, exactly."""
    checked_epsilon(epsilon)
    return Fraction(epsilon) ** 2 / 2


def composed(figures: Iterable[float | Fraction]) -> float:
    """The sum of epsilons, of deltas or of rhos, never rounded down."""
    return rounded_up(sum((Fraction(figure) for figure in figures), Fraction(0)))


def rounded_up(figure: Fraction) -> float:
    """The smallest double that is not below an exact figure."""
    near = float(figure)
    return math.nextafter(near, math.inf) if Fraction(near) < figure else near


def rounded_down(figure: Fraction) -> float:
    """The largest double that is not above an exact figure."""
    near = float(figure)
    return math.nextafter(near, -math.inf) if Fraction(near) > figure else near


def group_epsilon(epsilon: float | Fraction, size: int) -> Fraction:
    """Pure epsilon for `size` records that change together: size times epsilon."""
    return Fraction(epsilon) * checked_size(size)


def group_rho(rho: float | Fraction, size: int) -> Fraction:
    """rho for `size` records that change together: size^2 rho (Bun and Steinke, prop. 1.9)."""
    return Fraction(rho) * checked_size(size) ** 2


def group_delta(epsilon: float | Fraction, delta: float | Fraction, size: int) -> Fraction:
    """delta at `group_epsilon`: delta (1 + e^epsilon + ... + e^((size-1) epsilon)), rounded up.

    The factors are doubles that are each raised by four units in the last place, more than `exp`
    can be wrong by. A figure of 1 or more says nothing and is refused.
    """
    checked_size(size)
    if not delta:
        return Fraction(0)
    total = Fraction(0)
    for step in range(size):
        power = rounded_up(step * Fraction(epsilon))
        factor = math.exp(power) if power < 700 else math.inf
        if not math.isfinite(factor) or (total := total + _raised(factor)) * Fraction(delta) >= 1:
            raise Refused(
                f"At this epsilon a group of {size} records has no delta below 1; ask for a "
                "smaller epsilon or delta."
            )
    return total * Fraction(delta)


def checked_delta(delta: Any) -> float:
    """delta as a float strictly between 0 and 1, or refused."""
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 0 < delta < 1:
        raise Refused("delta must be a number above 0 and below 1.")
    return float(delta)


def checked_size(size: Any) -> int:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise Refused("The number of records of a unit is a whole number of at least 1.")
    return size


def _raised(factor: float) -> Fraction:
    if factor == 1.0:
        return Fraction(1)
    for _ in range(4):
        factor = math.nextafter(factor, math.inf)
    return Fraction(factor)


def _profile(rho: float) -> Any:
    """OpenDP's curve of epsilon against delta for rho: that of a Gaussian of scale 1 whose input
    moves by sqrt(2 rho), rounded up."""
    if isinstance(rho, bool) or not isinstance(rho, (int, float)) or not 0 < rho <= LARGEST_RHO:
        raise Refused(f"rho must be a number above 0 and at most {LARGEST_RHO:g}.")
    gaussian, converted = _conversion()
    distance = math.sqrt(2 * rho)
    while gaussian.map(distance) < rho:
        distance = math.nextafter(distance, math.inf)
    return converted.map(distance)


@cache
def _conversion() -> tuple[Any, Any]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    numbers = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    gaussian = dp.m.make_gaussian(*numbers, scale=1.0)
    return gaussian, dp.c.make_zCDP_to_approxDP(gaussian)
