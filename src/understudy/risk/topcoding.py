"""Topcoding, the practice that risk-weighted synthesis is compared with (R section 2.3).

Values above a threshold are replaced by the threshold. It protects the largest values only:
every other record keeps its true value, and an isolated one its full risk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from understudy.errors import Refused
from understudy.risk.correspondence import Data, frame_of, sensitive_values
from understudy.risk.identification import identification_risk
from understudy.risk.patterns import Floats, RadiusKind

__public__ = ("topcode", "topcoding_risk")


@dataclass(frozen=True)
class Topcoded:
    """Topcoded values and what was done to get them."""

    values: Floats  # (n,)
    threshold: float
    share: float  # share of records whose value was replaced


def topcode(values: Floats, share: float | None = None, threshold: float | None = None) -> Topcoded:
    """Replace the values above a threshold by it.

    Give the threshold, or the `share` of records to replace: the threshold is then the
    smallest value that at most this share lies above (about 6 % in R; ties can make the
    share that results smaller, and it is reported).
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
        raise Refused("Topcoding needs a column of finite numbers.")
    if (share is None) == (threshold is None):
        raise Refused("Topcoding needs either the share to topcode or a threshold, and not both.")
    if threshold is None:
        if share is None or not 0 < share < 1:
            raise Refused("The share to topcode must lie between 0 and 1; R's is about 0.06.")
        # The k-th largest value may stay when at most `share` of the records lie above it.
        above = int(np.floor(share * len(values) + 1e-9))
        at = len(values) - 1 - above
        threshold = float(np.partition(values, at)[at])
    elif not np.isfinite(threshold):
        raise Refused("The topcoding threshold must be a finite number.")
    replaced = values > threshold
    return Topcoded(np.where(replaced, threshold, values), float(threshold), float(replaced.mean()))


def topcoding_risk(
    confidential: Data,
    *,
    known: Sequence[str],
    target: str,
    share: float | None = None,
    threshold: float | None = None,
    radius: float | Sequence[float] = 0.2,
    kind: RadiusKind = "relative",
) -> tuple[Floats, Topcoded]:
    """Identification risk when the topcoded file is released (R Tables 2-3), and the topcoding.

    The topcoded file is one released data set whose rows are the confidential ones in order.
    """
    names = list(known)
    frame = frame_of(confidential, [*names, target])
    coded = topcode(sensitive_values(frame, [target], "the confidential data")[0], share, threshold)
    released = frame.with_columns(pl.Series(target, coded.values))
    risk = identification_risk(
        frame, released, known=names, target=target, radius=radius, kind=kind
    )
    return risk, coded
