"""quantile: psi = p - 1(y <= c), H = f(c) sum w, with the density f of the synthetic files.

Where records share the released quantile (incomes rounded to thousands, ages in years), the
distribution function jumps there and has no derivative. Then every value is spread evenly over
value -+ h, as if it had been jittered, and the quantiles Q_s of the spread values are compared:
psi = p - P(y + U <= c_s). A quantile is a spread one, rounded to a heap: Q(p) = Q_s(p) + r(p). The
synthetic files show r over the probabilities that a sampling error reaches; its mean there is
added, and its standard deviation is part of the errors. The answer says so. Where no values are
shared, what the straight line leaves is known in closed form (docs/proofs/influence.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, pi, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

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

SMALLEST_TAIL = 0.02  # of the bandwidth: it stays inside (0, 1) by this part of the nearer tail
REACHED = np.array([NormalDist().inv_cdf((k + 0.5) / 41) for k in range(41)])  # normal errors


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
        size = averaged([file.size for file in used])
        shared = any(np.sum(f.columns["y"] == v) > 1 for f, v in zip(used, values, strict=True))
        if high > low and not shared:
            centre, spread, constant, note = quantile, 0.0, 0.0, ""
            density = 2 * wide / (high - low)
            left = line_remainder(p, effective, wide, len(used)) / density
        else:
            spread = _spread(y, quantile, (high - low) / 2)
            centre = float(spread_quantiles(y, share, np.array([p]), spread)[0])
            density = float(share @ (np.abs(y - centre) <= spread)) / (2 * spread)
            added, left = _rounding(y, share, p, spread, effective, wide, density, len(used))
            constant = quantile - centre - added
            note = (
                f"records share the value {quantile:g}, so values were spread evenly over "
                f"±{spread:.3g} and the difference is that of quantiles of the spread values"
            )
        return ReleasedEquation(
            np.array([quantile]), np.array([[1 / (size * density)]]), np.array([constant]),
            {"c": centre, "spread": spread}, note, (float(left[0]), float(left[1])),
        )  # fmt: skip

    def psi(self, columns: RecordColumns, public: Mapping[str, Any]) -> Psi:
        below = share_at_most(columns["y"], public["c"], public["spread"])
        return Psi(self.probability - below, [1.0])


def places(files: int) -> Floats:
    """How far the population's quantile, and that of another sample, lie from the synthetic files':
    variances in those of one sample."""
    return np.array([1 / files, 1 + 1 / files])


def line_remainder(p: float, n: float, wide: float, files: int) -> Floats:
    """What the straight line leaves in the corrected estimate and in the difference, as shares: the
    sample's steps between two places, and the error of the slope over `wide` (Bahadur 1966)."""
    variance = p * (1 - p) / n
    steps = np.sqrt(2 * places(files) * variance / pi) / n
    slope = (1 + 1 / files) * variance / (2 * wide * n * files)
    return np.sqrt(steps + slope)


def _rounding(
    y: Floats, share: Floats, p: float, spread: float, n: float, wide: float, density: float,
    files: int,
) -> tuple[float, Floats]:  # fmt: skip
    """The mean of r = Q - Q_s, and what rounding leaves in the corrected estimate and in the
    difference: the variance of r over the places, and that of one file's r about another's."""
    variances = []
    for variance in places(files):
        error = np.sqrt(variance * p * (1 - p) / n)
        reached = np.clip(p + error * REACHED, p - wide, p + wide)
        rounding = quantiles_of(y, share, reached) - spread_quantiles(y, share, reached, spread)
        variances.append(rounding.var())
    local = spread / (6 * n * density)
    return float(rounding.mean()), np.sqrt(np.array(variances) + places(files) * local)


def bandwidth(p: float, n: float) -> float:
    """Hall and Sheather's (1988) half width of a probability interval for a quantile's density,
    n^(-1/3) z^(2/3) (1.5 phi(q)^2/(2 q^2 + 1))^(1/3) with z for 95 %."""
    q, z = NormalDist().inv_cdf(p), NormalDist().inv_cdf(0.975)
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


def spread_quantiles(y: Floats, share: Floats, probabilities: Floats, spread: float) -> Floats:
    """Where sum share P(y + U <= c) reaches the probabilities: it is linear between y -+ spread."""
    order = np.argsort(y)
    y, share = y[order], share[order]
    below, first = (np.concatenate([[0.0], np.cumsum(part)]) for part in (share, share * y))

    def area(at: Floats) -> Floats:
        """The integral of the distribution function up to `at`."""
        count = np.searchsorted(y, at, side="right")
        return np.asarray(below[count] * at - first[count])

    knots = np.sort(np.concatenate([y - spread, y + spread]))
    reached = (area(knots + spread) - area(knots - spread)) / (2 * spread)
    rising = np.maximum.accumulate(reached)
    return np.asarray(np.interp(probabilities * below[-1], rising, knots))
