"""What the noise of a whole file will do to its tables, before anything is spent.

Expected total variation of a table with c cells by noise alone: c E|noise| / (2 n), on the average
over the data sets, and before the fit takes noise away. Only public facts and the number of records
come in: coarse cells are counted as the plan allows them, since the real ones are not known yet.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING

from understudy.mechanisms.whole_file.budget import TableBudget
from understudy.mechanisms.whole_file.plan import (
    ONE_WAY,
    Order,
    TablePlan,
    averaged,
    plan_of,
)
from understudy.survey.cells import ColumnCells
from understudy.survey.survey import Survey
from understudy.tables.units import unit_of

if TYPE_CHECKING:
    from understudy.models.contract import FileModel


def file_forecast(
    model: FileModel, survey: Survey, order: Order, budget: TableBudget, datasets: int
) -> list[str]:
    """Sentences for the steward: the plan, each one-way table, each pair, and what a unit costs."""
    unit, records = unit_of(survey), budget.records
    cells, kept = model.cells(survey), set(model.kept_positions())
    hidden = [j for j in range(len(cells)) if j not in kept]
    plan = plan_of(order, survey.n, len(cells), len(kept), budget, datasets)
    lines = [_said(plan, budget)]
    one_way = averaged(budget, len(hidden), ONE_WAY, datasets)
    shares = {cells[j].name: cells[j].size * one_way.size / (2 * survey.n) for j in hidden}
    listed = ", ".join(f"{name} {_share(share)}" for name, share in shares.items())
    lines.append(f"Noise alone moves the one-way tables by a total variation of: {listed}.")
    if plan.tables:
        lines += _pairs(cells, kept, plan, survey.n)
    if unit is not None and records > 1:
        factor = f"{records} times" if budget.measure == "epsilon" else f"{records} times (sigma)"
        lines.append(
            f"The claim is for each `{unit.column}` with up to {records} records: the noise is "
            f"{factor} that of a claim for one record."
        )
    return lines


def _said(plan: TablePlan, budget: TableBudget) -> str:
    law = "Laplace noise" if budget.measure == "epsilon" else "Gaussian noise"
    deviation = math.sqrt(plan.noise.variance)
    if plan.batches:
        how = f"{plan.tables} tables are chosen in {len(plan.batches)} batches"
    elif plan.tables:
        how = f"all {plan.tables} tables of {plan.order} columns are measured"
    else:
        how = "one-way tables alone are measured"
    return (
        f"Tables: {how}, with {law} of standard deviation {deviation:.3g} a cell on the average "
        "over the data sets."
    )


def _pairs(cells: tuple[ColumnCells, ...], kept: set[int], plan: TablePlan, n: int) -> list[str]:
    """Every pair, a line for each column with those that follow it."""
    sizes = [_coarse(column, plan) for column in cells]
    moved: dict[int, dict[str, float]] = {}
    for a, b in combinations(range(len(cells)), 2):
        if not {a, b} <= kept:
            share = sizes[a] * sizes[b] * plan.noise.size / (2 * n)
            moved.setdefault(a, {})[cells[b].name] = share
    every = sorted(share for shares in moved.values() for share in shares.values())
    chosen = ", if they are chosen," if plan.batches else ""
    lines = [  # one note: they are marked as internal together
        f"And the {len(every):,} pairs of columns{chosen} by {_share(every[0])} to "
        f"{_share(every[-1])}, half of them by less than {_share(every[len(every) // 2])}:"
    ]
    for a, shares in moved.items():
        listed = ", ".join(f"{name} {_share(share)}" for name, share in shares.items())
        lines.append(f"- {cells[a].name} with {listed}.")
    return ["\n".join(lines)]


def _coarse(column: ColumnCells, plan: TablePlan) -> int:
    return min(column.grid_size, plan.most_cells) + column.size - column.grid_size


def _share(share: float) -> str:
    return f"{min(share, 1.0):.3f}".removeprefix("0")
