"""Identification risk in fully synthetic files, where no row stands for a record.

R eq. 1 asks whether a record's own synthetic value is near the truth (T_i), and which share of its
pattern is not. Without an own row, every synthetic row of the pattern is as likely to be taken for
it: of m_i rows that show the pattern, c_i lie in the ball B_i. The expectation of eq. 1 over all of
them is (c_i/m_i) (1 - c_i/m_i), and 0 where no row shows the pattern.
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
    refuse_constant,
    sensitive_values,
    without_categories,
)
from understudy.risk.identification import columns_needed, count_inside, datasets
from understudy.risk.patterns import RadiusKind, ball_edges, checked_radius, patterns_of

__public__ = ("expected_matches",)


def expected_matches(
    confidential: Data,
    synthetic: Data | Sequence[Data],
    *,
    known: Sequence[str],
    target: str | Sequence[str],
    radius: float | Sequence[float] = 0.2,
    kind: RadiusKind = "relative",
) -> pl.DataFrame:
    """For every confidential record, averaged over the synthetic files: `shown`, the rows with its
    known values; `matches`, those of them near its true value; `risk`, the expected eq. 1 of R.

    Rows need not correspond, and files may have any number of them.
    """
    targets, names = ((target,) if isinstance(target, str) else tuple(target)), tuple(known)
    needed = columns_needed([names], targets, None)
    frame = without_categories(frame_of(confidential, needed))
    values = sensitive_values(frame, targets, "the confidential data")
    refuse_constant(values, targets)
    lower, upper = ball_edges(values, checked_radius(radius, targets, kind), kind)
    sums, number = np.zeros((3, frame.height)), 0
    for number, data in enumerate(datasets(synthetic), start=1):
        theirs = without_categories(frame_of(data, needed))
        points = sensitive_values(theirs, targets, f"synthetic data set {number}")
        code = pattern_codes(pl.concat([frame.select(needed), theirs.select(needed)]), names)
        sought, shown = code[: frame.height], code[frame.height :]
        patterns = patterns_of(shown, int(code.max()) + 1)
        rows = patterns.size[sought]
        inside = count_inside(points, patterns, lower, upper, sought)
        share = np.divide(inside, rows, out=np.zeros(frame.height), where=rows > 0)
        sums += [rows, inside, share * (1 - share)]
    if number == 0:
        raise Refused("The list of synthetic data sets is empty; give at least one.")
    return pl.DataFrame(dict(zip(("shown", "matches", "risk"), sums / number, strict=True)))
