"""Estimators that V does not study: the weighted median and a weighted regression slope.

Partitions are fitted by the server's own code (`verify.partition_fit`).
"""

from __future__ import annotations

from math import sqrt

import numpy as np

import understudy as us
from understudy_studies.framework import Vector
from understudy_studies.verification.samples import Population, systematic_pps

Numbers = tuple[float, float, float, Vector]  # tau_0, its se, tau_hat, tau_k


def median_and_slope(
    units: Population, n_k: int, m: int, rng: np.random.Generator
) -> dict[str, Numbers]:
    """The median of x and the slope of x on z, in a PPS sample and a simple random one."""
    chosen = systematic_pps(units, n_k * m, rng)
    x, z = units.x[chosen], units.z[chosen]
    columns = np.array([x, units.size / (len(x) * z), z])
    label = np.arange(len(x)) % m
    rng.shuffle(label)
    public = rng.choice(units.n, n_k * m, replace=False, shuffle=False)
    rest = 1 - len(public) / units.n
    centres = {
        "median": _median(units.x[public], rest),
        "slope": _slope(units.x[public], units.z[public], rest),
    }
    tasks = {"median": (2, "quantile", ()), "slope": (3, "linear", (0,))}
    numbers = {}
    for name, (used, kind, levels) in tasks.items():
        full, *parts = (
            us.estimate_partition(us.PartitionTask(kind, columns[:used, kept], levels=levels))
            for kept in [np.full(len(x), True), *(label == k for k in range(m))]
        )
        numbers[name] = (*centres[name], full, np.array(parts))
    return numbers


def _median(x: Vector, rest: float) -> tuple[float, float]:
    """The median and half of Woodruff's interval of one standard error on either side."""
    ordered, n = np.sort(x), len(x)
    reach = sqrt(rest * 0.25 / n)
    low, middle, high = (
        float(ordered[min(n - 1, max(0, int(np.ceil(p * n)) - 1))])
        for p in (0.5 - reach, 0.5, 0.5 + reach)
    )
    return middle, (high - low) / 2


def _slope(x: Vector, z: Vector, rest: float) -> tuple[float, float]:
    """Least squares, and its linearised standard error in a simple random sample."""
    apart = z - z.mean()
    spread = float(apart @ apart)
    slope = float(apart @ x) / spread
    residual = x - x.mean() - slope * apart
    scores = apart * residual
    return slope, sqrt(rest * len(x) / (len(x) - 1) * float(scores @ scores)) / spread
