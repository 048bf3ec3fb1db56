"""Record weights from identification risk: marginal, pairwise and q-way (R eq. 3, 6-9).

All are integer counts until one division. With c_i = the number of records in ball B_i,
m_h = the number of balls that hold y_h, n = the size of the pattern:

    marginal  1 - (n - c_i)/n
    pairwise  1 - sum_{h not in B_i} (n - 1 - m_h) / (n (n - 1))
    q-way     1 - sum_{h not in B_i} C(n - 1 - m_h, q - 1) / (n C(n - 1, q - 1))

The q-way weight averages, over all groups of q records with i among them, one minus the
share of the pattern that lies outside all of the group's balls; q = 2 is the paper's
pairwise weight, q = 1 its marginal one. Then clip(c * weight + g, 0, 1) (R supplement
eq. 10).

The equations do not protect small patterns: one record has no pairwise weight (0/0) and two
records get 1. So patterns below max(3, q + 1) records need a policy:

    refuse  say so (default)
    merge   small patterns that agree on all but the last known variable become one, then on
            all but the last two, and so on; what is left joins the smallest pattern
    zero    their records get weight 0, whatever c and g: the model does not see them
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import Literal, TypedDict, Unpack, get_args

import numpy as np
import polars as pl

from understudy.errors import Refused, UnknownName
from understudy.risk.boxes import box_holders, box_sums
from understudy.risk.correspondence import (
    Data,
    frame_of,
    pattern_codes,
    refuse_constant,
    sensitive_values,
    without_categories,
)
from understudy.risk.identification import columns_needed, known_sets
from understudy.risk.patterns import (
    Floats,
    Integers,
    Patterns,
    RadiusKind,
    ball_edges,
    ball_ranges,
    check_together,
    checked_radius,
    holders_by_position,
    patterns_of,
    range_sums,
    sort_points,
)
from understudy.risk.rectangles import rectangle_holders, rectangle_sums

__public__ = ("marginal_weights", "pairwise_weights", "q_way_weights")

SmallPatterns = Literal["refuse", "merge", "zero"]
ColumnNames = Sequence[str]
Target = str | Sequence[str]
Radius = float | Sequence[float]  # one for all targets, or one for each


class Choices(TypedDict, total=False):
    """What all weights take beside the variables and the radius; see `q_way_weights`."""

    c: float
    g: float
    small_patterns: SmallPatterns
    kind: RadiusKind


def marginal_weights(
    confidential: Data,
    known: ColumnNames,
    target: Target,
    radius: Radius = 0.2,
    **more: Unpack[Choices],
) -> Floats:
    """alpha_i = 1 - IR^c_i (R eq. 3), then clip(c alpha + g, 0, 1); (n,).

    `c`, `g`, `small_patterns` and `kind` as in `q_way_weights`.
    """
    return q_way_weights(confidential, known, target, radius, 1, **more)


def pairwise_weights(
    confidential: Data,
    known: ColumnNames,
    target: Target,
    radius: Radius = 0.2,
    **more: Unpack[Choices],
) -> Floats:
    """alpha_i = 1 - sum_{j != i} IR^c_ij / (n - 1) (R eq. 6-9), then clip(c alpha + g, 0, 1).

    `c`, `g`, `small_patterns` and `kind` as in `q_way_weights`.
    """
    return q_way_weights(confidential, known, target, radius, 2, **more)


def q_way_weights(
    confidential: Data,
    known: ColumnNames,
    target: Target,
    radius: Radius = 0.2,
    q: int = 3,
    c: float = 1.0,
    g: float = 0.0,
    small_patterns: SmallPatterns = "refuse",
    kind: RadiusKind = "relative",
) -> Floats:
    """Weights from the joint risk of q records, at the cost of the pairwise ones; (n,)."""
    check_together(q)
    check_adjustments(c, g)
    names = known_sets(known)[0][0]
    targets = (target,) if isinstance(target, str) else tuple(target)
    radii = checked_radius(radius, targets, kind)
    frame = without_categories(frame_of(confidential, columns_needed([names], targets, None)))
    values = sensitive_values(frame, targets, "the confidential data")
    refuse_constant(values, targets)
    code, dropped = patterns_by_policy(frame, names, small_patterns, least_records(q))
    weights = risk_weights(values, code, radii, q, kind)
    adjusted = np.clip(c * weights + g, 0.0, 1.0)
    adjusted[dropped] = 0.0
    return adjusted


def check_adjustments(c: float, g: float) -> None:
    """Of weights, c and g, or refused."""
    if not (np.isfinite(c) and np.isfinite(g) and c >= 0):
        raise Refused("The adjustments must be finite, with c at least 0.")


def least_records(q: int) -> int:
    """Of a pattern that the weights of q records protect."""
    return max(3, q + 1)


def risk_weights(
    values: Floats,
    code: Integers,
    radius: Floats | float,
    q: int,
    kind: RadiusKind = "relative",
    of_file: tuple[int, int] | None = None,
) -> Floats:
    """q-way weights of values (d, n) in patterns `code`, before any adjustment; (n,).

    A pattern with fewer than q records has no such group: its weights are NaN. `of_file` are the
    numbers of records of the largest pattern and of the whole file, where these are a part of it:
    they decide how finely groups are counted.
    """
    patterns = patterns_of(code)
    lower, upper = ball_edges(values, radius, kind)
    holders, inside_sum = _cover(values, patterns, lower, upper)
    size = patterns.record_size
    largest, records = of_file or (int(size.max()), len(size))
    numerator, unit = _groups_outside(size - 1 - holders, size - 1, q - 1, largest - 1, records)
    in_pattern = np.zeros(len(patterns.size), np.int64)
    np.add.at(in_pattern, code, numerator)
    outside = in_pattern[code] - inside_sum(numerator)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(size >= q, 1.0 - outside / (size * unit), np.nan)


def _cover(
    values: Floats, patterns: Patterns, lower: Floats, upper: Floats
) -> tuple[Integers, Callable[[Integers], Integers]]:
    """m_h for every record, and a function: integers per record -> their sum in each ball."""
    code = patterns.code
    if len(values) == 1:
        points = sort_points(values[0], patterns)
        order = points.order
        first, past = ball_ranges(points, lower[0, order], upper[0, order], code[order])

        def sum_in_interval(numbers: Integers) -> Integers:
            return _in_record_order(range_sums(numbers[order], first, past), order)

        return _in_record_order(
            holders_by_position(first, past, len(order)), order
        ), sum_in_interval
    sums, holders = (
        (rectangle_sums, rectangle_holders) if len(values) == 2 else (box_sums, box_holders)
    )

    def sum_in_box(numbers: Integers) -> Integers:
        return sums(values, patterns, lower, upper, code, numbers)

    return holders(values, patterns, lower, upper, code), sum_in_box


def _groups_outside(
    free: Integers, others: Integers, chosen: int, largest: int, records: int
) -> tuple[Integers, Integers | Floats]:
    """Integers u_h and units v with u_h / v = C(free_h, chosen) / C(others_h, chosen).

    Exact binomials while a pattern's sum fits 62 bits; beyond, the ratio as a fixed-point
    integer of at least 40 bits, so that prefix sums still add integers.
    """
    if chosen == 0:
        return np.ones_like(free), np.ones_like(free)
    if chosen == 1:
        return free, others
    if max(comb(largest, j) for j in range(chosen + 1)) * (largest + 1) < 2**62:
        return _binomial(free, chosen), _binomial(others, chosen)
    ratio = np.ones(len(free))
    for step in range(chosen):
        ratio *= np.maximum(free - step, 0) / np.maximum(others - step, 1)
    bits = 62 - records.bit_length()
    return np.rint(np.ldexp(ratio, bits)).astype(np.int64), np.full(len(free), 2.0**bits)


def _binomial(top: Integers, chosen: int) -> Integers:
    """C(top, chosen) in integers: the product of the first j + 1 factors divides exactly."""
    out = np.ones_like(top)
    for j in range(chosen):
        out = out * np.maximum(top - j, 0) // (j + 1)
    return out


def _in_record_order(by_position: Integers, order: Integers) -> Integers:
    out = np.empty_like(by_position)
    out[order] = by_position
    return out


def small_refused(small: int, patterns: int, minimum: int) -> Refused:
    return Refused(
        f"{small} of {patterns} patterns have fewer than {minimum} records, "
        'and the weights do not protect them; choose small_patterns="merge" or "zero", or '
        "name fewer known variables."
    )


def patterns_by_policy(
    frame: pl.DataFrame, known: Sequence[str], policy: SmallPatterns, minimum: int
) -> tuple[Integers, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Codes after the policy, and the records that get weight 0."""
    if policy not in get_args(SmallPatterns):
        raise UnknownName("policy for small patterns", str(policy), get_args(SmallPatterns))
    code = pattern_codes(frame, known)
    size = np.bincount(code)
    small = size[code] < minimum
    if policy == "refuse" and small.any():
        raise small_refused(int((size < minimum).sum()), len(size), minimum)
    if policy == "merge" and small.any():
        code = _merged(frame, known, code, minimum)
    return code, small if policy == "zero" else np.zeros_like(small)


def _merged(frame: pl.DataFrame, known: Sequence[str], code: Integers, minimum: int) -> Integers:
    """Small patterns pooled by fewer and fewer known variables; large ones stay as they are."""
    if frame.height < minimum:
        raise Refused(
            f"There are fewer than {minimum} records in all, so no merging reaches a pattern "
            "that the weights protect."
        )
    code = code.copy()
    for kept in reversed(range(len(known))):
        rows = np.flatnonzero(np.bincount(code)[code] < minimum)
        if len(rows) == 0:
            break
        pooled = pattern_codes(frame[rows], known[:kept])
        large = np.bincount(pooled)[pooled] >= minimum
        code[rows[large]] = code.max() + 1 + pooled[large]
    size = np.bincount(code)
    left = size[code] < minimum
    if left.any():
        enough = np.where(size >= minimum, size, frame.height + 1)
        code[left] = int(np.argmin(enough))
    return np.unique(code, return_inverse=True)[1].astype(np.int64)
