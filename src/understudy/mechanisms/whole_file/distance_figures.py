"""From noisy distances of tables to figures: the variance of a deviation per unit of sampling
variance, as it is expected given the distances.

A deviation is taken as the sum of a double exponential one with variance t e, e the expected
records of a group, and of normal noise with variance b, that of the average over the files, which
their spread shows; its expected size has a closed form (`expected_size`), so that a distance gives
t.

A distance has much noise. Those of a number's tables together are drawn to what all numbers
suggest, and a table's to what its number's suggest, as far as noise is large beside the differences
(`drawn_to`). What is left is a normal law of the distance without noise; a table that was not
looked at differs from those that were as these do from each other. The figure is the mean of t over
this law: an interval needs the expected variance, and t at the expected distance is less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtri

Vector = NDArray[np.float64]

WIDEST = 1e6  # misfit, where the distance is beyond all measure
STEPS = np.concatenate([[0.0], np.geomspace(1e-3, WIDEST, 46)])  # of t, between which is a line
LAW = ndtri((np.arange(15) + 0.5) / 15)  # a standard normal law in fifteen equal parts


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of some tables: what each has of a misfit, in records, the variance of the average
    over the sets, the part of the sampling variance that the fit does not follow, and the variance
    of what else is known of a deviation, that part among it."""

    expected: Vector
    spread: Vector
    free: float
    shared: Vector | None = None

    @staticmethod
    def of(parts: Sequence[Groups]) -> Groups:
        sizes = [part.expected.size for part in parts]
        return Groups(
            np.concatenate([part.expected for part in parts]),
            np.concatenate([part.spread for part in parts]),
            float(np.average([part.free for part in parts], weights=sizes)),
            np.concatenate([part.in_common for part in parts]),
        )

    @property
    def in_common(self) -> Vector:
        return np.zeros_like(self.expected) if self.shared is None else self.shared

    def distance(self, t: float) -> float:
        """What a misfit of t lets expect."""
        heavy = t * self.expected + self.in_common
        return max(float(expected_size(heavy, self.spread).sum()), 1e-9)

    def plain(self, distance: float) -> float:
        return misfit_of(distance, self.expected, self.spread, self.in_common)

    def figure(self, distance: float, error: float) -> float:
        """What is published: the mean of t where the distance has this error, less the part of the
        sampling variance that the estimate lacks."""
        if error <= 0:
            return max(self.plain(distance) - self.free, 0.0)
        sizes = np.array([self.distance(t) for t in STEPS])
        t = np.interp(distance + error * LAW, sizes, np.sqrt(STEPS)) ** 2
        return float(np.maximum(t - self.free, 0.0).mean())


@dataclass(frozen=True)
class Figures:
    """Of any table, of any of each number, and of each table that was looked at."""

    together: float
    of_numbers: dict[int, float]
    of_tables: list[float]


@dataclass(frozen=True)
class DrawnDistances:
    """Distances without noise, as they are expected, with their errors; `variance` is that between
    them, over their bases."""

    laws: list[tuple[float, float]]
    variance: float


def figures_of(
    distances: Vector, noise: float, tables: Sequence[Groups], numbers: Sequence[int]
) -> Figures:
    """The figures of tables, each of one of the `numbers`, from distances with this noise."""
    every, total = Groups.of(tables), float(distances.sum())
    t, error = every.plain(total), noise * len(tables) ** 0.5
    names = sorted(set(numbers))
    inside = [[k for k, y in enumerate(numbers) if y == name] for name in names]
    groups = [Groups.of([tables[k] for k in places]) for places in inside]
    sums = np.array([distances[places].sum() for places in inside])
    errors = noise * np.sqrt([len(places) for places in inside])
    bases = [(t, error / every.distance(t))] * len(names)
    of_numbers = drawn_to(bases, sums, errors, groups)
    of_number = {
        name: (mine.plain(distance), wrong / mine.distance(mine.plain(distance)))
        for name, mine, (distance, wrong) in zip(names, groups, of_numbers.laws, strict=True)
    }
    bases = [of_number[y] for y in numbers]
    of_tables = drawn_to(bases, distances, np.full(len(tables), noise), tables)

    def of_any(mine: Groups, law: tuple[float, float], variance: float) -> float:
        distance, wrong = law
        least = max(distance, mine.distance(0.0))
        return mine.figure(distance, float(np.hypot(wrong, least * variance**0.5)))

    between = of_tables.variance
    return Figures(
        of_any(every, (total, error), of_numbers.variance + between),
        {
            y: of_any(mine, law, between)
            for y, mine, law in zip(names, groups, of_numbers.laws, strict=True)
        },
        [mine.figure(*law) for mine, law in zip(tables, of_tables.laws, strict=True)],
    )


def common_and_own(
    distances: Vector, noise: float, tables: Sequence[Groups]
) -> tuple[float, float, list[float]]:
    """The figure of any table with the error that noise gives it, and that of each."""
    figures = figures_of(distances, noise, tables, [0] * len(tables))
    every, error = Groups.of(tables), noise * len(tables) ** 0.5
    least = max(float(distances.sum()), every.distance(0.0))
    return figures.together, every.plain(least + error) - every.plain(least), figures.of_tables


def drawn_to(
    bases: Sequence[tuple[float, float]],
    distances: Vector,
    errors: Vector,
    groups: Sequence[Groups],
) -> DrawnDistances:
    """Distances with their errors, drawn to what `bases` let expect: a misfit for each, and the
    relative error of that expectation.

    Over the expectation, distances vary around 1 with variance v, found by moments beyond their
    noise s, sum (d - 1)^2 / s^2 = sum (1 + v / s^2); a share v / (v + s^2) of a deviation is kept
    (empirical Bayes). Noise differs much: that of small groups must not stand for differences.
    """
    expected = np.array([mine.distance(t) for mine, (t, _) in zip(groups, bases, strict=True)])
    ratio, s = distances / expected, errors / expected
    precision = 1 / np.maximum(s, 1e-9) ** 2
    v = max(float(np.sum(precision * (ratio - 1) ** 2 - 1) / np.sum(precision)), 0.0)
    kept = v / (v + s**2) if errors.any() else np.ones_like(s)
    drawn = expected * (1 + kept * (ratio - 1))
    of_base = np.array([error for _, error in bases])
    wrong = expected * np.sqrt(kept * s**2 + ((1 - kept) * of_base) ** 2)
    return DrawnDistances([(float(d), float(e)) for d, e in zip(drawn, wrong, strict=True)], v)


def misfit_of(
    distance: float, expected: Vector, spread: Vector, shared: Vector | float = 0.0
) -> float:
    """t whose expected distance this is; 0 where the spread, and what groups share, explain it."""
    from scipy.optimize import brentq  # which takes a tenth of the time of a release's imports

    def missing(t: float) -> float:
        return float(expected_size(t * expected + shared, spread).sum()) - distance

    if missing(0.0) >= 0:
        return 0.0
    return WIDEST if missing(WIDEST) <= 0 else float(brentq(missing, 0.0, WIDEST, rtol=1e-6))


def expected_size(heavy: Vector, normal: Vector) -> Vector:
    """E|L + N| of a double exponential L and a normal N with these variances, elementwise.

    E|L + x| = |x| + l exp(-|x|/l) for L of scale l; E exp(-a|N|) = exp(a^2 s^2/2) erfc(a s/2^.5).
    """
    scale, s = np.sqrt(heavy / 2), np.sqrt(normal)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        part = scale * erfcx(s / (np.sqrt(2) * scale))
    return np.asarray(s * np.sqrt(2 / np.pi) + np.where(scale > 0, part, 0.0), dtype=np.float64)
