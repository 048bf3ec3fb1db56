"""How epsilon is divided over a table and its margins: a matrix mechanism (Li et al. 2010, 2014).

The workload is every cell and margin. The strategy measures table S of margins with Laplace noise
of scale sensitivity_S / (epsilon share_S), and least squares turns all measurements into answers
that add up (tables/consistency.py). Shares are the weights of the margins in the strategy: equal
ones are T §2.4's, all on the cells is the plain histogram, and the best are those with the least
expected squared error over the workload. That error depends on public numbers alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.tables.consistency import left_noise

Floats = NDArray[np.float64]

RANGE = np.linspace(0.0, 0.9, 10)  # shares that are tried of each margin
STEPS = np.array([0.5, 0.8, 0.9, 0.97, 1.03, 1.1, 1.25, 2.0])  # and those about the best so far
ENOUGH = 1e-4  # of the error, gained in a round, to go on


def expected_error(
    shares: Floats, sensitivity: Floats, table: NDArray[np.int64], design: Floats
) -> float:
    """Sum over the workload's entries of the noise variance after least squares, at epsilon 1.

    `table` is the number of the table that each entry lies in, `design` (entries, cells) what each
    entry is of the cells: 1 where a cell lies in a count, its share in a mean.
    """
    with np.errstate(divide="ignore"):  # a table without a share is not measured
        variance = 2.0 * (sensitivity / shares)[table] ** 2
    return float(left_noise(design, variance).sum())


def best_shares(sensitivity: Floats, table: NDArray[np.int64], design: Floats) -> Floats:
    """Shares of epsilon, one for each table, the cells first, that add up to 1 and make
    `expected_error` least. A margin with a share of 0 comes from the cells.

    One margin's share is searched at a time, over its whole range: a margin that is not measured
    stays so under small steps, so that slopes lead nowhere. Equal shares where a table needs no
    noise.
    """
    count = len(sensitivity)
    alike = np.full(count, 1.0 / count)
    if count == 1 or sensitivity.min() <= 0:
        return alike

    def error(shares: Floats) -> float:
        return expected_error(shares, sensitivity, table, design)

    def improved(shares: Floats) -> Floats:
        for margin in range(1, count):
            own = np.unique([*RANGE, *(shares[margin] * STEPS)])
            rest = np.delete(shares, margin)
            rest = rest / rest.sum()
            tried = [np.insert(rest * (1 - share), margin, share) for share in own[own < 1]]
            shares = min([shares, *tried], key=error)
        return shares

    def searched(shares: Floats) -> Floats:
        better = improved(shares)
        while error(better) < (1 - ENOUGH) * error(shares):
            shares, better = better, improved(better)
        return better

    return min((searched(start) for start in (alike, np.eye(count)[0])), key=error)
