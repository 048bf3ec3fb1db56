"""How many tables of a whole file are measured, at which shares of the budget, over which cells.

Set from the number of records, the columns and the budget by the rules below, which were tuned on
simulated files alone (docs/methods.md, whole files). The number of records is the noisy one of the
one-way tables, so that nothing here looks at a record.

- One-way tables of the fine cells: three tenths of the budget. The fit's distance from the records
  (misfit.py): a twentieth.
- So many tables that the noise of a cell has a standard deviation of at most 1/300 of the records,
  but at least two a column.
- With at most 12 columns and at least two fifths of all pairs affordable: all pairs, and nothing is
  chosen. Else a tenth of the budget for the choice, in three batches; the last one may also take
  tables of three columns, where two measured pairs share a column and the cells are few enough.
- A column has at most so many coarse cells that the noise of a pair of such columns moves it by a
  total variation of about .1: between 8 and 32. Each holds at least four standard deviations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from understudy.errors import Refused
from understudy.mechanisms.whole_file.budget import CellNoise, TableBudget

Order = Literal["chosen", 1, 2, 3]

ONE_WAY = Fraction(3, 10)  # share of the one-way tables
CHOICE = Fraction(1, 10)  # share of all choices together
MISFIT = Fraction(1, 20)  # share of the fit's distance from the records
BATCHES = 3
PRECISION = 300  # records over the standard deviation of a cell's noise
A_COLUMN = 2  # tables a column at least
FEW_COLUMNS = 12
AFFORDABLE = Fraction(2, 5)  # of all pairs
FEWEST_CELLS, MOST_CELLS = 8, 32  # coarse ones of a column with a grid
MOVED = 0.1  # total variation by noise that a pair or a triple may have
DEVIATIONS = 4  # records of a coarse cell over the noise's standard deviation
LARGEST_TABLE = 100_000  # cells


@dataclass(frozen=True)
class TablePlan:
    """What the second stage does. `batches` are the picks of each choice; none: all are measured.

    `share` is what all measured tables cost together.
    """

    order: Order
    tables: int
    share: Fraction
    batches: tuple[int, ...]
    noise: CellNoise  # of a cell, on average over the sets
    most_cells: int
    least_records: float
    most_triple: int  # cells of a table of three columns


def plan_of(
    order: Order, records: float, columns: int, kept: int, budget: TableBudget, datasets: int
) -> TablePlan:
    """The plan for a file of about so many records; `kept` of its columns are public and kept."""
    records = max(records, 1.0)
    candidates = math.comb(columns, 2) - math.comb(kept, 2)
    if order == 1 or candidates == 0:
        order, tables = 1, 0
    elif order in (2, 3):
        size = min(int(order), columns)
        tables = math.comb(columns, size) - math.comb(kept, size)
    else:
        tables = _affordable(records, columns, candidates, budget, datasets)
        wanted = tables >= AFFORDABLE * candidates if columns <= FEW_COLUMNS else False
        if wanted or tables >= candidates:
            order, tables = 2, candidates
    chosen = order == "chosen"
    share = 1 - ONE_WAY - MISFIT - (CHOICE if chosen else 0)
    noise = averaged(budget, max(tables, 1), share, datasets)
    deviation = math.sqrt(noise.variance)
    most = round(math.sqrt(2 * MOVED * records / max(noise.size, 1e-9)))
    return TablePlan(
        order,
        tables,
        share,
        _batches(tables) if chosen else (),
        noise,
        min(max(most, FEWEST_CELLS), MOST_CELLS),
        DEVIATIONS * deviation,
        int(2 * MOVED * records / max(noise.size, 1e-9)),
    )


def averaged(budget: TableBudget, tables: int, share: Fraction, datasets: int) -> CellNoise:
    """The noise of the average over m sets, each with an m-th of the share."""
    single = budget.noise(tables, share / datasets)
    return CellNoise(single.variance / datasets, single.size / math.sqrt(datasets))


def _affordable(
    records: float, columns: int, candidates: int, budget: TableBudget, datasets: int
) -> int:
    """The most tables whose noise is small enough, at least two a column."""
    share = 1 - ONE_WAY - MISFIT - CHOICE
    low, high = min(A_COLUMN * columns, candidates), candidates
    while low < high:
        middle = (low + high + 1) // 2
        noise = averaged(budget, middle, share, datasets)
        if math.sqrt(noise.variance) * PRECISION <= records:
            low = middle
        else:
            high = middle - 1
    return low


def _batches(tables: int) -> tuple[int, ...]:
    first = [tables // BATCHES] * (BATCHES - 1)
    return tuple(size for size in (*first, tables - sum(first)) if size)


def checked_order(order: object) -> Order | None:
    """`order` as Marginals has it, or refused."""
    if order in (None, "chosen", 1, 2, 3) and not isinstance(order, bool):
        return order
    raise Refused('`order`, the number of columns in a noisy table, must be 1, 2, 3 or "chosen".')
