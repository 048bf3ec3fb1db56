"""The population of V §4, and samples of it: systematic PPS, simple random, and biased.

V gives z ~ Uniform(0, 10) and x | z ~ N(z + 5, 2), and a sample with chances proportional to z.
It does not say how that sample is drawn, nor whether 2 is the variance. Here 2 is the variance,
as in its N(mean, s^2), and the sample is systematic along a random order: E[1/z] is infinite, so a
design whose size varies (Poisson) has far larger errors.

A new order of all units for each sample would cost more than the sample. Units lie in an order
that is random once, in blocks; each sample takes the blocks in a new order with a new start, so
that the sample of every block is a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

import understudy as us
from understudy_studies.framework import Vector

Places = NDArray[np.int64]

BLOCKS = 1000
AT_ONCE = 10  # blocks whose numbers stay in the processor's cache


@dataclass(frozen=True)
class Population:
    """Units in random order: sizes z, values x."""

    z: Vector
    x: Vector

    @property
    def n(self) -> int:
        return len(self.z)

    @cached_property
    def reached(self) -> Vector:
        """Cumulative sizes."""
        return np.cumsum(self.z)

    @property
    def size(self) -> float:
        return float(self.reached[-1])


@dataclass(frozen=True)
class Moments:
    """Mean and variance of a synthetic file, all that its analyst needs."""

    mean: float
    variance: float


def population(n: int, rng: np.random.Generator, smallest: float = 0.0) -> Population:
    """V §4's population; `n` must be a multiple of the number of blocks.

    With `smallest` above 0 no unit has a chance near 0, and no weight is extreme.
    """
    if n < BLOCKS or n % BLOCKS:
        raise us.Refused(f"The population must be a multiple of {BLOCKS} units.")
    z = rng.uniform(smallest, 10.0, n)
    return Population(z, rng.normal(z + 5.0, np.sqrt(2.0)))


def systematic_pps(units: Population, n: int, rng: np.random.Generator) -> Places:
    """n units with chances n z / sum(z) (V §2.1), systematically along the blocks' new order."""
    if n * float(units.z.max()) > units.size:
        raise us.Refused(
            "The sample is so large that some units are certain to be drawn; take a smaller one."
        )
    ends = units.reached[units.n // BLOCKS - 1 :: units.n // BLOCKS]
    lengths = np.diff(ends, prepend=0.0)
    order = rng.permutation(BLOCKS)
    starts = np.empty(BLOCKS)
    starts[order] = np.cumsum(lengths[order]) - lengths[order]
    shift = starts - (ends - lengths)  # of a block, from where it lies to where it is taken
    return selected(units, n / units.size, shift, float(rng.uniform()))


def selected(units: Population, rate: float, shift: Vector, start: float) -> Places:
    """The units in whose stretch of cumulative sizes a point start + j, j = 0, 1, ..., falls."""
    ends = units.reached[units.n // BLOCKS - 1 :: units.n // BLOCKS]
    begins = np.concatenate([[0.0], ends[:-1]])
    first = np.ceil((begins + shift) * rate - start).astype(np.int64)
    counts = np.ceil((ends + shift) * rate - start).astype(np.int64) - first
    block = np.repeat(np.arange(BLOCKS), counts)
    within = np.arange(len(block)) - np.repeat(np.cumsum(counts) - counts, counts)
    points = (first[block] + within + start) / rate - shift[block]
    return np.asarray(np.minimum(np.searchsorted(units.reached, points), units.n - 1))


def simple_moments(units: Population, sizes: list[int], rng: np.random.Generator) -> list[Moments]:
    """Moments of simple random samples of these sizes, each exact, nested in each other.

    Blocks are shuffled within; a sample takes the first units of each, as many as a simple random
    sample has there (multivariate hypergeometric).
    """
    length = units.n // BLOCKS
    full = np.full(BLOCKS, length)
    takes = [rng.multivariate_hypergeometric(full, n, method="marginals") for n in sizes]
    centre = float(units.x[:1000].mean())  # keeps sums of squares small
    sums = np.zeros((len(sizes), 2))
    for block in range(0, BLOCKS, AT_ONCE):
        some = slice(block, block + AT_ONCE)
        values = rng.permuted(units.x.reshape(BLOCKS, length)[some], axis=1) - centre
        for power in (1, 2):
            reached = np.cumsum(values**power, axis=1)
            for row, take in enumerate(takes):
                taken = take[some]
                rows = np.flatnonzero(taken)
                sums[row, power - 1] += reached[rows, taken[rows] - 1].sum()
    return [
        Moments(centre + total / n, (squares - total**2 / n) / (n - 1))
        for (total, squares), n in zip(sums, sizes, strict=True)
    ]


def moments(values: Vector) -> Moments:
    return Moments(float(values.mean()), float(values.var(ddof=1)))


def biased_moments(sample: Moments, n: int, rng: np.random.Generator) -> Moments:
    """Moments of n draws from N(mean, variance) of the unweighted sample (V §4, second method).

    A normal sample's mean and variance are independent, a normal and a chi-square.
    """
    mean = rng.normal(sample.mean, np.sqrt(sample.variance / n))
    return Moments(float(mean), float(sample.variance * rng.chisquare(n - 1) / (n - 1)))
