"""quantile: psi = p - 1(y <= c), H = f(c) sum w, with the density f of the synthetic files.

Where many records share the released quantile (incomes rounded to thousands, ages in years), the
distribution function jumps there and has no derivative. Then every value is spread evenly over
value -+ h, as if it had been jittered, and the quantile of the spread values is asked for:
psi = p - P(y + U <= c). The answer says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, pi, sqrt
from typing import Any

import numpy as np
from scipy import special

from understudy.tables.influence.arithmetic import share_at_most
from understudy.tables.influence.equation import (
    Equation,
    FileColumns,
    Floats,
    Psi,
    RecordColumns,
    ReleasedEquation,
    averaged,
)

HEAPED = 1.0  # share at the quantile, in standard errors of a share, from which it is a heap
SMALLEST_TAIL = 0.02  # of the bandwidth: it stays inside (0, 1) by this part of the nearer tail


@dataclass(frozen=True)
class QuantileEquation(Equation):
    """The smallest value at which the weighted distribution function reaches `probability`."""

    name = "quantile"
    everyone = False

    probability: float

    def released(self, files: Sequence[FileColumns]) -> ReleasedEquation:
        used = [file.used() for file in files]
        p = self.probability
        values = [quantiles_of(f.columns["y"], f.weight, np.array([p]))[0] for f in used]
        y = np.concatenate([file.columns["y"] for file in used])
        share = np.concatenate([file.weight / file.size / len(used) for file in used])
        quantile = float(averaged(values))
        effective = float(np.mean([f.size**2 / (f.weight @ f.weight) for f in used]))
        wide = bandwidth(p, effective)
        low, high = quantiles_of(y, share, np.array([p - wide, p + wide]))
        at = float(averaged([f.weight @ np.isin(f.columns["y"], values) / f.size for f in used]))
        size = averaged([file.size for file in used])
        if high > low and at <= HEAPED * np.sqrt(p * (1 - p) / effective):
            density, spread, centre, note = 2 * wide / (high - low), 0.0, quantile, ""
        else:
            spread = _spread(y, quantile, (high - low) / 2)
            centre = _spread_quantile(y, share, p, spread, quantile)
            density = float(share @ (np.abs(y - centre) <= spread)) / (2 * spread)
            note = (
                f"many records share the value {quantile:g}, so values were spread evenly over "
                f"±{spread:.3g} and the difference is that of quantiles of the spread values"
            )
        bread = np.array([[1 / (size * density)]])
        return ReleasedEquation(
            np.array([quantile]), bread, np.zeros(1), {"c": centre, "spread": spread}, note
        )

    def psi(self, columns: RecordColumns, public: Mapping[str, Any]) -> Psi:
        below = share_at_most(columns["y"], public["c"], public["spread"])
        return Psi(self.probability - below, [1.0])


def bandwidth(p: float, n: float) -> float:
    """Hall and Sheather's (1988) half width of a probability interval for a quantile's density,
    n^(-1/3) z^(2/3) (1.5 phi(q)^2/(2 q^2 + 1))^(1/3) with z for 95 %."""
    q, z = special.ndtri(p), special.ndtri(0.975)
    density = exp(-(q**2) / 2) / sqrt(2 * pi)
    wide = n ** (-1 / 3) * z ** (2 / 3) * (1.5 * density**2 / (2 * q**2 + 1)) ** (1 / 3)
    return float(min(wide, (1 - SMALLEST_TAIL) * min(p, 1 - p)))


def quantiles_of(values: Floats, weight: Floats, probabilities: Floats) -> Floats:
    """The smallest values at which the weighted distribution function reaches the probabilities;
    a share that equals one but for rounding reaches it, as in `tabulate`."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    position = np.searchsorted(reached, (probabilities - 1e-12) * reached[-1], side="left")
    return np.asarray(values[order][np.minimum(position, len(values) - 1)])


def _spread(y: Floats, quantile: float, half: float) -> float:
    """At least half the distance to the next value on either side, so that heaps meet."""
    others = y[y != quantile]
    if not others.size:
        return max(half, abs(quantile), 1.0)
    above, below = others[others > quantile], others[others < quantile]
    gaps = [float(np.min(np.abs(side - quantile))) for side in (above, below) if side.size]
    return max(half, max(gaps) / 2)


def _spread_quantile(y: Floats, share: Floats, p: float, spread: float, near: float) -> float:
    """The root of sum share (p - P(y + U <= c))."""

    def lacking(c: float) -> float:
        return float(share @ np.asarray(share_at_most(y, c, spread))) - p

    from scipy.optimize import brentq  # loads much: where it is used

    low, high = float(y.min()) - spread, float(y.max()) + spread
    return float(brentq(lacking, low, high, xtol=1e-12 * max(1.0, abs(near))))
