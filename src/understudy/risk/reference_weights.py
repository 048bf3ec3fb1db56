"""Risk weights whose function was fixed on another file: each record against a reference.

The weights of `weights.py` depend on all records of the confidential file, so a claim with
epsilon holds only for fixed weights. Here a record's weight is a function of its own values and
of a reference file alone. With n reference records in the record's pattern, B_i the ball around
its value and m_h the number of reference balls that hold the reference value y_h:

    1 - sum_{h not in B_i} C(n - m_h, q - 1) / (n C(n, q - 1))

It averages, over all groups of record i with q - 1 reference records, the share of the reference
that lies in one of the group's balls: q = 1 is R eq. 3 and q = 2 R eq. 6-9, with the pattern's
other records taken from the reference.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from understudy.errors import Refused
from understudy.risk.correspondence import (
    Data,
    frame_of,
    pattern_codes,
    sensitive_values,
    without_categories,
)
from understudy.risk.identification import known_sets
from understudy.risk.patterns import (
    Floats,
    Integers,
    RadiusKind,
    ball_edges,
    ball_ranges,
    check_together,
    checked_radius,
    holders_by_position,
    patterns_of,
    sort_points,
)


def reference_risk_weights(
    confidential: Data,
    reference: Data,
    known: Sequence[str],
    target: str,
    radius: float = 0.2,
    q: int = 2,
    c: float = 1.0,
    g: float = 0.0,
    kind: RadiusKind = "relative",
) -> Floats:
    """Weights of the confidential records against a reference file, clip(c w + g, 0, 1); (n,).

    A pattern that has fewer than max(3, q) reference records says nothing about its records;
    they get weight 0.
    """
    check_together(q)
    names = list(known_sets(known)[0][0])
    reach = float(checked_radius(radius, (target,), kind)[0, 0])
    frames = [without_categories(frame_of(d, [*names, target])) for d in (confidential, reference)]
    own, other = (
        sensitive_values(frame, [target], whose)[0]
        for frame, whose in zip(frames, ("the confidential data", "the reference"), strict=True)
    )
    try:
        both = pl.concat([frame.select(names) for frame in frames]) if names else pl.DataFrame()
    except pl.exceptions.PolarsError:
        raise Refused(
            "The known variables have different types in the reference and in the confidential "
            "data; write both files with the same types."
        ) from None
    code = pattern_codes(both, names) if names else np.zeros(len(own) + len(other), np.int64)
    weights = weights_against(own, code[: len(own)], other, code[len(own) :], reach, q, kind)
    return np.where(np.isnan(weights), 0.0, np.clip(c * weights + g, 0.0, 1.0))


def weights_against(
    values: Floats,
    code: Integers,
    reference: Floats,
    reference_code: Integers,
    radius: float,
    q: int,
    kind: RadiusKind = "relative",
) -> Floats:
    """The formula above; NaN where a pattern has fewer than max(3, q) reference records."""
    patterns = patterns_of(reference_code, int(max(code.max(), reference_code.max())) + 1)
    points = sort_points(reference, patterns)
    order = points.order
    lower, upper = ball_edges(reference[order], radius, kind)
    first, past = ball_ranges(points, lower, upper, reference_code[order])
    holders = holders_by_position(first, past, len(order))
    size = patterns.size[reference_code[order]]
    share = np.ones(len(order))  # C(n - m_h, q - 1) / C(n, q - 1), factor by factor
    for step in range(q - 1):
        share *= np.maximum(size - holders - step, 0) / np.maximum(size - step, 1)
    prefix = np.concatenate([[0.0], np.cumsum(share)])
    lower, upper = ball_edges(values, radius, kind)
    first, past = ball_ranges(points, lower, upper, code)
    whole = prefix[points.start[code + 1]] - prefix[points.start[code]]
    outside = whole - (prefix[past] - prefix[first])
    n = patterns.size[code]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(n >= max(3, q), 1.0 - outside / n, np.nan)
