"""Balls around sensitive values, counted inside patterns without a loop over pairs.

A pattern is the set of records that agree on the known variables (R section 2.1). Once the
values are sorted inside their patterns, every ball is a range of positions, so counts and
sums over balls are differences of prefix sums: O(n log n) for all patterns together.

All patterns are searched at once. A point's key is the complex number pattern + i value:
NumPy orders complex numbers by their real and then by their imaginary part, so one search
compares first patterns, then values, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from understudy.errors import Refused, UnknownName

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Keys = npt.NDArray[np.complex128]
RadiusKind = Literal["relative", "absolute"]

SLACK = 1e-12  # keeps a value that lies on the edge by intention inside despite rounding


@dataclass(frozen=True)
class Patterns:
    """Which pattern every record belongs to, and how many records each pattern has."""

    code: Integers  # (n,), 0..P-1
    size: Integers  # (P,)

    @property
    def record_size(self) -> Integers:
        """|M_p,i|: the number of records in each record's own pattern, (n,)."""
        return self.size[self.code]


@dataclass(frozen=True)
class SortedPoints:
    """Points of one variable, sorted inside their patterns."""

    order: Integers  # (n,) record at each sorted position
    key: Keys  # (n,) pattern + i value, ascending
    start: Integers  # (P + 1,) first sorted position of each pattern


def patterns_of(code: Integers, count: int | None = None) -> Patterns:
    """Patterns from codes 0..P-1; `count` keeps room for patterns that have no record here."""
    return Patterns(code, np.bincount(code, minlength=count or 0).astype(np.int64))


def ball_edges(
    values: Floats, radius: Floats | float, kind: RadiusKind = "relative"
) -> tuple[Floats, Floats]:
    """Closed edges of B(y, r): y -+ r|y| (R section 2.1), or y -+ r for an absolute radius.

    The half-width is r|y|, never r*y, which would leave negative values an empty ball.
    """
    reach = np.abs(values)
    if kind == "relative":
        half = radius * reach
    else:
        half = np.broadcast_to(np.asarray(radius, dtype=np.float64), values.shape)
        reach = reach + half
    half = half + SLACK * reach
    return values - half, values + half


def check_together(q: int) -> None:
    """q, the number of records whose joint risk is taken, or refused."""
    if isinstance(q, bool) or not isinstance(q, int) or q < 1:
        raise Refused("The number of records that are taken together, q, must be 1, 2, 3, ...")


def checked_radius(
    radius: object, targets: tuple[str, ...], kind: str = "relative"
) -> npt.NDArray[np.float64]:
    """One radius per sensitive variable as a column (d, 1), or a refusal."""
    if kind not in ("relative", "absolute"):
        raise UnknownName("kind of radius", kind, ("relative", "absolute"))
    try:
        radii = np.atleast_1d(np.asarray(radius, dtype=np.float64))
    except (TypeError, ValueError):
        raise Refused("The radius must be a number, or one number per target.") from None
    if radii.ndim != 1 or radii.size not in (1, len(targets)):
        raise Refused(
            f"There are {len(targets)} targets but {radii.size} radii; give one radius for all "
            "or one for each."
        )
    if not (np.isfinite(radii).all() and (radii > 0).all()):
        raise Refused("The radius must be above 0; R uses 0.2, a fifth of the value, for income.")
    return np.broadcast_to(radii, (len(targets),)).reshape(-1, 1).astype(np.float64)


def keys_of(code: Integers, values: Floats) -> Keys:
    """pattern + i value; codes below 2^53 are exact."""
    key = np.empty(len(values), np.complex128)
    key.real, key.imag = code, values
    return key


def sort_points(values: Floats, patterns: Patterns) -> SortedPoints:
    """Sort one variable inside its patterns."""
    by_value = np.argsort(values)
    # NumPy sorts 16-bit integers by radix: several times faster than 64-bit ones.
    narrow = len(patterns.size) <= np.iinfo(np.uint16).max
    code = patterns.code.astype(np.uint16) if narrow else patterns.code
    order = by_value[np.argsort(code[by_value], kind="stable")]
    start = np.concatenate([np.zeros(1, np.int64), np.cumsum(patterns.size)])
    sorted_code = np.repeat(np.arange(len(patterns.size)), patterns.size)
    return SortedPoints(order, keys_of(sorted_code, values[order]), start)


def ball_ranges(
    points: SortedPoints, lower: Floats, upper: Floats, code: Integers
) -> tuple[Integers, Integers]:
    """First and past-the-last sorted position of the points inside each ball [lower, upper].

    Balls may come in any order; sorted by pattern and value they are found fastest.
    """
    first = np.searchsorted(points.key, keys_of(code, lower), "left")
    past = np.searchsorted(points.key, keys_of(code, upper), "right")
    return first, past


def holders_by_position(first: Integers, past: Integers, n: int) -> Integers:
    """m_h: how many of the balls [first, past) hold the point at each sorted position."""
    steps = np.bincount(first, minlength=n + 1) - np.bincount(past, minlength=n + 1)
    holders: Integers = np.cumsum(steps[:n])
    return holders


def range_sums(weights: Integers, first: Integers, past: Integers) -> Integers:
    """Sum of integer weights over the sorted positions first..past-1, by prefix sums."""
    prefix = np.concatenate([np.zeros(1, np.int64), np.cumsum(weights)])
    inside: Integers = prefix[past] - prefix[first]
    return inside
