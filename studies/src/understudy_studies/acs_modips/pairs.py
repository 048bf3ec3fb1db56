"""Two-way tables from MODIPS and from Marginals, side by side (methods §8, "Beyond").

A study page of report M would say nothing about this: the report looks at the cells of the full
cross. Most users look at tables of two columns, and there noise on the tables themselves is far
better than noise on a cross of hundreds of thousands of cells. Here the noise is OpenDP's, as in
a release.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

import understudy as us
from understudy_studies.acs_modips.replicate import DATASETS, PRIOR, Counts
from understudy_studies.framework import Row, Vector

EPSILON = 1.0


def compare_pairs(table: us.CrossTable, seed: int = 1) -> list[Row]:
    """MS, MODIPS and Marginals at the same total epsilon, over all pairs of the table's columns:
    the total variation distances of two-way tables from the true ones."""
    modips, marginals = us.Modips(EPSILON), us.Marginals(EPSILON)
    pairs = marginals.columns(len(table.categories.columns))
    true = [counts / table.n for counts in us.marginal_counts(table, pairs)]

    def generators() -> list[np.random.Generator]:
        return [np.random.default_rng([seed, number]) for number in range(DATASETS)]

    def each(basis: Callable[[], Vector | Counts]) -> list[us.CrossTable]:
        drawn = (us.synthetic_counts(basis(), table.n, PRIOR, rng) for rng in generators())
        return [replace(table, counts=counts) for counts in drawn]

    def noisy() -> Vector:
        return us.rescaled_counts(modips.noisy(table.counts, DATASETS), table.n)

    def all_possible(cells: us.CrossTable) -> NDArray[np.bool_]:
        return np.ones(len(cells.codes), dtype=bool)  # the drawn population knows no edit rules

    def from_pairs() -> list[us.CrossTable]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the distances say how useful it is
            return us.marginal_tables(
                table, marginals, DATASETS, table.n, generators(), all_possible
            )[0]

    ways = (
        ("MS", "risk", each(lambda: table.counts)),
        ("MODIPS, observed support", "local", each(noisy)),
        ("Marginals of order 2", "formal", from_pairs()),
    )
    return [
        {"method": method, "claim": claim, **distances(tables, true, pairs)}
        for method, claim, tables in ways
    ]


def distances(
    tables: Sequence[us.CrossTable], true: Sequence[Vector], pairs: list[tuple[int, ...]]
) -> Row:
    """Half the sum of absolute differences of shares: means over all pairs for single data sets and
    for the average of all, and the largest over the pairs for single ones."""
    shares = [[counts / table.n for counts in us.marginal_counts(table, pairs)] for table in tables]
    averaged = [np.mean(same, axis=0) for same in zip(*shares, strict=True)]
    *single, together = (
        [0.5 * float(np.abs(a - b).sum()) for a, b in zip(own, true, strict=True)]
        for own in (*shares, averaged)
    )
    return {
        "one_file": float(np.mean(single)),
        "mean_file": float(np.mean(together)),
        "worst": float(np.mean(single, axis=0).max()),
    }
