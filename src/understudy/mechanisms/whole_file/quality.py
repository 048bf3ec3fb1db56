"""How far the tables that files are drawn from are from the confidential ones, for readers.

For all tables of one, two and three columns over coarse cells (of more than 500, as many evenly
spaced ones): the mean total variation

    1/J sum over tables   |T(D) - n p_hat(T)|_1 / (2 n)

A record moves the distance of a table by at most 1, so that the mean moves by 1/(2n) and hardly
any noise is needed. n is the noisy number of records; each of the three has a third of the share.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np

from understudy.dp.choice import UNITS, table_score
from understudy.mechanisms.whole_file.budget import TableBudget
from understudy.mechanisms.whole_file.fit import Fit
from understudy.mechanisms.whole_file.noisy_file import MeasuredQuality
from understudy.tables.coded_records import AnyCoded

ORDERS = (1, 2, 3)
TABLES = 500  # of each order
LARGEST = 100_000  # cells


def measured_quality(
    coarse: AnyCoded,
    fit: Fit,
    sensitive: tuple[int, ...],
    budget: TableBudget,
    share: Fraction,
) -> tuple[MeasuredQuality, ...]:
    """Orders with their number of tables, mean total variation and its standard error."""
    measured = []
    for order in ORDERS:
        names = [
            names
            for names in combinations(range(len(coarse.sizes)), order)
            if set(names) & set(sensitive) and np.prod([coarse.sizes[j] for j in names]) <= LARGEST
        ]
        if not names:
            continue
        if len(names) > TABLES:
            names = [names[int(k)] for k in np.linspace(0, len(names) - 1, TABLES)]
        distance = sum(
            table_score(np.rint(table).astype(np.int64), fit.expected(columns), 0.0)
            for columns, table in zip(names, coarse.count(names), strict=True)
        )
        noisy, error = budget.noisy_numbers(
            np.array([distance], dtype=np.int64), [UNITS * len(names)], share / len(ORDERS)
        )
        scale = float(2 * UNITS * len(names) * fit.total)
        mean = min(max(float(noisy[0]) / scale, 0.0), 1.0)
        measured.append(MeasuredQuality(order, len(names), mean, float(error / scale)))
    return tuple(measured)
