"""Two-way tables from MODIPS and from Marginals, side by side (methods §8, "Beyond").

A study page of report M would say nothing about this: the report looks at the cells of the full
cross. Most users look at tables of two columns, and there noise on the tables themselves is far
better than noise on a cross of hundreds of thousands of cells. Here the noise is OpenDP's, as in
a release.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import understudy as us

Vector = NDArray[np.float64]
Pairs = list[tuple[int, ...]]

EPSILON = 1.0
DATASETS = 5


@dataclass(frozen=True)
class PairDistance:
    """Total variation distance of two-way tables from the true ones.

    `one_file` and `mean_file` are means over all pairs, for single data sets and for the average
    of all; `worst` is the largest over the pairs, for single data sets.
    """

    method: str
    claim: str
    one_file: float
    mean_file: float
    worst: float


def compare_pairs(
    table: us.CrossTable, epsilon: float = EPSILON, datasets: int = DATASETS, seed: int = 1
) -> list[PairDistance]:
    """MS, MODIPS and Marginals at the same total epsilon, over all pairs of the table's columns."""
    pairs = us.Marginals(epsilon).columns(len(table.categories.columns))
    true = [counts / table.n for counts in us.marginal_counts(table, pairs)]
    modips, marginals = us.Modips(epsilon), us.Marginals(epsilon)

    def private(rng: np.random.Generator) -> us.CrossTable:
        basis = us.rescaled_counts(modips.noisy(table.counts, datasets), table.n)
        return replace(table, counts=us.synthetic_counts(basis, table.n, 0.5, rng))

    def plain(rng: np.random.Generator) -> us.CrossTable:
        return replace(table, counts=us.synthetic_counts(table.counts, table.n, 0.5, rng))

    def from_pairs(rngs: Sequence[np.random.Generator]) -> list[us.CrossTable]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the distances say how useful it is
            return us.marginal_tables(table, marginals, datasets, table.n, rngs, _all_possible)[0]

    def each(draw: Callable[[np.random.Generator], us.CrossTable]) -> list[us.CrossTable]:
        return [draw(rng) for rng in _generators(seed, datasets)]

    ways = (
        ("MS", "risk", each(plain)),
        ("MODIPS, observed support", "local", each(private)),
        ("Marginals of order 2", "formal", from_pairs(_generators(seed, datasets))),
    )
    return [
        PairDistance(method, claim, *distances(tables, true, pairs))
        for method, claim, tables in ways
    ]


def distances(
    tables: Sequence[us.CrossTable], true: Sequence[Vector], pairs: Pairs
) -> tuple[float, float, float]:
    """Half the sum of absolute differences of shares: (mean of one, mean of the average, worst)."""
    shares = [[counts / table.n for counts in us.marginal_counts(table, pairs)] for table in tables]
    single = np.array(
        [[_total_variation(a, b) for a, b in zip(own, true, strict=True)] for own in shares]
    )
    averaged = [np.mean(same, axis=0) for same in zip(*shares, strict=True)]
    together = [_total_variation(a, b) for a, b in zip(averaged, true, strict=True)]
    return float(single.mean()), float(np.mean(together)), float(single.mean(axis=0).max())


def _generators(seed: int, count: int) -> list[np.random.Generator]:
    return [np.random.default_rng([seed, number]) for number in range(count)]


def _total_variation(first: Vector, second: Vector) -> float:
    return 0.5 * float(np.abs(first - second).sum())


def _all_possible(cells: us.CrossTable) -> NDArray[np.bool_]:
    return np.ones(len(cells.codes), dtype=bool)  # the drawn population knows no edit rules
