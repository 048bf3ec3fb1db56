"""Synthetic records from the noisy tables of a whole file and the codebook: post-processing.

noisy tables -> pool with weights (fit.py) -> coarse cells of each record -> fine cells
(within_cells.py) -> values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.dp.balanced import balanced
from understudy.mechanisms.whole_file.fit import (
    Codes,
    Fit,
    Kept,
    Vector,
    allowed_by,
    fine_shares,
    fitted,
    runs_of,
)
from understudy.mechanisms.whole_file.noisy_file import NoisyFile
from understudy.mechanisms.whole_file.within_cells import fine_codes, scores_within
from understudy.survey.cells import ColumnCells
from understudy.survey.codebook import Codebook
from understudy.tables.rule_cells import ruled_out
from understudy.tables.ruled_file import RuleEffects
from understudy.tables.rules import apply_rules


@dataclass(frozen=True, eq=False)
class Synthesizer:
    """Draws files from the fitted tables: as many and as large ones as anyone likes.

    `kept` are the rows of public columns that stay, and `kept_values` their values.
    """

    noisy: NoisyFile
    cells: tuple[ColumnCells, ...]
    fit: Fit
    shares: list[list[Vector]]  # of fine cells in coarse ones, [set][column]
    codebook: Codebook
    kept: Kept | None = None
    kept_values: pl.DataFrame | None = None

    def file(
        self, number: int, rng: np.random.Generator, size: int | None = None
    ) -> tuple[pl.DataFrame, RuleEffects]:
        """One file of the set `number`; of `size` records, or as many as the release has; and what
        the codebook's rules changed in it."""
        weights = self.fit.weights_of(number)
        if self.kept is not None and self.fit.groups is not None:
            coarse = _completed(self.kept, self.fit, weights, rng)
        else:
            pool, records = self.fit.pool, size or self.noisy.records
            counts = balanced(pool, weights, records, self.fit.tables, self.fit.sizes, rng)
            coarse = np.repeat(pool.codes, counts, axis=0)
        runs = runs_of(self.noisy, [column.grid_size for column in self.cells])
        scores = scores_within(coarse, np.ones(len(coarse)), self.noisy.measured, runs, rng)
        fine = fine_codes(coarse, self.shares[number], self.noisy.coarse, rng, scores)
        drawn = [column.values(codes, rng) for column, codes in zip(self.cells, fine, strict=True)]
        frame = pl.DataFrame(drawn)
        if self.kept_values is not None:
            frame = frame.with_columns(self.kept_values)
        names = self.noisy.columns
        return apply_rules(
            frame,
            self.codebook,
            {column.name: column for column in self.cells},
            rng,
            kept=() if self.kept_values is None else self.kept_values.columns,
            coarse=dict(zip(names, self.noisy.coarse, strict=True)),
            shares=dict(zip(names, self.shares[number], strict=True)),
            measured=[tuple(names[j] for j in table) for table in self.noisy.measured],
        )


def synthesizer(
    noisy: NoisyFile,
    cells: Sequence[ColumnCells],
    codebook: Codebook,
    rng: np.random.Generator,
    kept_values: pl.DataFrame | None = None,
) -> Synthesizer:
    """Everything that the files of a release are drawn from; `kept_values` are the public columns
    that stay as they are, one row for each record."""
    kept = None
    if kept_values is not None:
        places = {column.name: j for j, column in enumerate(cells)}
        columns = tuple(places[name] for name in kept_values.columns)
        codes = [noisy.coarse[j][cells[j].codes(kept_values[cells[j].name])] for j in columns]
        kept = Kept(columns, np.column_stack(codes).astype(np.int32))
    rules = ruled_out(codebook, {column.name: column for column in cells})
    grids = [column.grid_size for column in cells]
    fit = fitted(noisy, rng, kept=kept, possible=allowed_by(rules, noisy), grids=grids)
    shares = fine_shares(noisy, fit, grids)
    return Synthesizer(noisy, tuple(cells), fit, shares, codebook, kept, kept_values)


def _completed(kept: Kept, fit: Fit, weights: Vector, rng: np.random.Generator) -> Codes:
    """Coarse cells for the kept rows in their order: in every group of equal public rows as many
    cells of the pool as it has rows, in proportion to their weights, in random order."""
    assert fit.groups is not None
    of_pool = fit.pool.codes[:, list(kept.columns)]
    row_group = _numbered(kept.codes, of_pool, fit.groups)
    counts = np.bincount(row_group, minlength=int(fit.groups.max()) + 1)
    order = np.argsort(fit.groups, kind="stable")
    drawn = _within_groups(weights[order], fit.groups[order], counts, rng)
    cells = np.repeat(order, drawn)  # by group
    rows = rng.permutation(len(row_group))
    rows = rows[np.argsort(row_group[rows], kind="stable")]
    completed = np.empty((len(row_group), fit.pool.codes.shape[1]), dtype=np.int32)
    completed[rows] = fit.pool.codes[cells]
    return completed


def _within_groups(
    weights: Vector, groups: NDArray[np.intp], counts: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Whole numbers with the given sum in each group, within one of their expectation."""
    sums = np.bincount(groups, weights, minlength=counts.size)
    scaled = weights * np.where(sums > 0, counts / np.maximum(sums, 1e-300), 0.0)[groups]
    before = np.cumsum(counts) - counts
    inside = np.cumsum(scaled)
    first = np.searchsorted(groups, np.arange(counts.size))
    starts = (inside - scaled)[np.minimum(first, groups.size - 1)]
    reached = before[groups] + np.minimum(
        np.floor(inside - starts[groups] + rng.random(counts.size)[groups]), counts[groups]
    )
    last = np.append(first[1:], groups.size) - 1
    reached[last] = before + counts  # the end of a group is its sum, whatever rounding did
    return np.diff(reached, prepend=0.0).astype(np.int64)


def _numbered(rows: Codes, of_pool: Codes, groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """The pool's group of each public row."""
    order = np.unique(groups, return_index=True)[1]
    distinct = of_pool[order]  # in the order of the groups
    together, numbers = np.unique(np.vstack([distinct, rows]), axis=0, return_inverse=True)
    numbers = np.asarray(numbers).ravel()
    position = np.full(len(together), -1, dtype=np.intp)
    position[numbers[: len(distinct)]] = np.arange(len(distinct))
    return position[numbers[len(distinct) :]]
