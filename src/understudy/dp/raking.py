"""The weights of a pool raked to given tables: iterative proportional fitting.

Every table in turn multiplies the weights in each of its cells by its share over theirs, which ends
at the distribution on the pool that has all tables and is nearest to the first one in relative
entropy. Passes over the pool are what takes the time, so tables that have few columns together take
their steps in one pass: the weights are added up in the table of all these columns, the steps are
taken there, and the pool takes their product. It is the same as one pass each, because a step
depends on a cell of that table alone.

Only noisy tables come in, so nothing here can see a record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.dp.record_pool import Codes, ColumnNumbers, Pool, Vector, cell_numbers

LARGEST_STEP = 20.0  # of a weight in one fit: a table that says 0 by noise does not erase records
TOGETHER = 4096  # cells of the table in which several tables take their steps
SETTLED = 1e-6  # mean total variation of tables of one column, at which they are met
LESS = 0.95  # of the distance before, which a sweep must reach for another one to follow


@dataclass(frozen=True, eq=False)
class _Batch:
    """Tables, by their numbers, that are raked in the table of `columns`; `places` of the pool's
    cells in it."""

    columns: ColumnNumbers
    shape: tuple[int, ...]
    tables: tuple[int, ...]
    places: NDArray[np.intp]


class Raking:
    """Rakes weights of the cells `codes` to tables of `columns`, whose cells are `shapes`; tables
    of one column come last."""

    def __init__(
        self, codes: Codes, columns: Sequence[ColumnNumbers], shapes: Sequence[tuple[int, ...]]
    ) -> None:
        self.columns = tuple(columns)
        sizes = {
            name: size
            for names, shape in zip(columns, shapes, strict=True)
            for name, size in zip(names, shape, strict=True)
        }
        self.batches = []
        for tables in batches_of(self.columns, sizes):
            names = tuple(sorted({name for number in tables for name in self.columns[number]}))
            shape = tuple(sizes[name] for name in names)
            places = cell_numbers(codes, names, shape)
            self.batches.append(_Batch(names, shape, tables, places))

    def __call__(
        self,
        weights: Vector,
        tables: Sequence[Vector],
        sweeps: int,
        tolerance: float,
        kept: tuple[NDArray[np.intp], Vector] | None = None,
        easing: float = 0.0,
    ) -> tuple[Vector, float]:
        """Weights whose tables are the given ones, and the mean total variation that is left.

        Starts from `weights`; stops when a sweep finds a mean total variation below `tolerance`, or
        no longer improves on it by a twentieth. `kept` are groups of cells, numbered, and the
        weight that each keeps. Noisy tables need not have a distribution that meets them all; then
        whole steps end at whatever the last table says. With `easing`, sweep s takes the power
        1/(1 + easing s) of each step, which settles between the tables. Tables of one column
        contradict no other one: they always take whole steps, and in the end sweeps of their own
        until they are met.
        """
        fitted, before, distance = weights.copy(), np.inf, 0.0
        for sweep in range(sweeps):
            power = 1 / (1 + easing * sweep)
            distance = sum(self._step(batch, fitted, tables, power) for batch in self.batches)
            _keep(fitted, kept)
            distance /= len(self.columns)
            if distance < tolerance or distance > LESS * before:
                break
            before = distance
        single = [batch for batch in self.batches if self.columns[batch.tables[0]][1:] == ()]
        for _ in range(sweeps if single and easing else 0):
            left = sum(self._step(batch, fitted, tables, 1.0) for batch in single)
            _keep(fitted, kept)
            if left < SETTLED * len(self.columns):
                break
        return fitted, distance

    def _step(self, batch: _Batch, fitted: Vector, tables: Sequence[Vector], power: float) -> float:
        """The steps of a batch's tables, one after the other; the sum of their distances before."""
        cells = math.prod(batch.shape)
        sums = np.bincount(batch.places, fitted, minlength=cells).reshape(batch.shape)
        factor, apart = np.ones(batch.shape), 0.0
        for number in batch.tables:
            names, table = self.columns[number], tables[number]
            target = table.transpose(np.argsort(names))
            others = tuple(k for k, name in enumerate(batch.columns) if name not in names)
            shares = sums.sum(axis=others, keepdims=True)
            target = target.reshape(shares.shape)
            apart += 0.5 * float(np.abs(shares - target).sum())
            with np.errstate(over="ignore"):  # of a share that is next to nothing
                step = np.divide(target, shares, out=np.ones_like(target), where=shares > 0)
            step = step.clip(1 / LARGEST_STEP, LARGEST_STEP)
            step = step**power if power < 1 and table.ndim > 1 else step
            sums *= step
            factor *= step
        fitted *= factor.ravel().take(batch.places)
        return apart


def _keep(fitted: Vector, kept: tuple[NDArray[np.intp], Vector] | None) -> None:
    """The weights with sum 1, and in every group with the sum that it keeps."""
    if kept is not None:
        groups, shares = kept
        sums = np.bincount(groups, fitted)
        fitted *= np.divide(shares, sums, out=np.ones_like(sums), where=sums > 0)[groups]
    fitted /= fitted.sum()


def rake_pool(
    pool: Pool,
    weights: Vector,
    tables: Sequence[Vector],
    columns: Sequence[ColumnNumbers],
    sweeps: int,
    tolerance: float,
) -> tuple[Vector, float]:
    """Weights of a pool whose tables are the given ones (`Raking`)."""
    raking = Raking(pool.codes, columns, [table.shape for table in tables])
    return raking(weights, tables, sweeps, tolerance)


def batches_of(
    columns: Sequence[ColumnNumbers], sizes: dict[int, int], most: int = TOGETHER
) -> list[tuple[int, ...]]:
    """The numbers of the tables that take their steps together, each table once: a table with more
    columns, one after the other, of those that complete the most tables, until the table of all of
    them would have more than `most` cells."""
    names = sorted(sizes)
    has = np.array([[name in table for name in names] for table in columns], dtype=bool)
    cells = np.array([sizes[name] for name in names])
    several = has.sum(axis=1) > 1
    batches = []
    for kind in (several, ~several):
        left = np.flatnonzero(kind)
        while left.size:
            inside = has[left[0]].copy()
            while True:
                lacking = has[left] & ~inside
                gain = lacking[lacking.sum(axis=1) == 1].sum(axis=0)
                gain[cells * cells[inside].prod() > most] = 0
                if not gain.any():
                    break
                # of those that complete as many, the one with the fewest cells
                inside[np.lexsort((cells, -gain))[0]] = True
            complete = ~(has[left] & ~inside).any(axis=1)
            batches.append(tuple(int(number) for number in left[complete]))
            left = left[~complete]
    return batches
