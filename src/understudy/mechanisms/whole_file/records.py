"""Synthetic records from the noisy tables of a whole file and the codebook: post-processing.

noisy tables -> pool with weights (fit.py) -> a row of the pool for each record, rounded together
(dp/balanced.py) -> block by block: fine cells (within_cells.py), values, rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from understudy.mechanisms.whole_file.within_cells import ScoreLaw, fine_codes, score_laws
from understudy.survey.cells import ColumnCells
from understudy.survey.codebook import Codebook
from understudy.tables.rule_cells import ruled_out
from understudy.tables.ruled_file import RuleEffects
from understudy.tables.rules import apply_rules

BLOCK = 500_000  # records that are made at once


@dataclass(frozen=True, eq=False)
class Block:
    """Some records of a file, the row of the pool that each was made from, and what the codebook's
    rules changed in them."""

    frame: pl.DataFrame
    rows: NDArray[np.int32]
    effects: RuleEffects


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

    def blocks(
        self, number: int, rng: np.random.Generator, size: int | None = None
    ) -> Iterator[Block]:
        """The records of one file of the set `number`, block by block; of `size` records, or as
        many as the release has. Records are rounded together over the whole file; every block has
        each k-th of them, so that it is a small file of the same tables by itself."""
        rows = self._rows(number, rng, size or self.noisy.records)
        parts = max(1, -(-rows.size // BLOCK))
        runs = runs_of(self.noisy, [column.grid_size for column in self.cells])
        pool = self.fit.pool.codes
        records = np.bincount(rows, minlength=len(pool)).astype(np.float64)
        laws = score_laws(pool, records, self.noisy.measured, runs)
        for part in range(parts):
            yield self._block(number, rows[part::parts], (part, parts), laws, rng)

    def _rows(self, number: int, rng: np.random.Generator, size: int) -> NDArray[np.int32]:
        """The row of the pool for each record of a file."""
        weights = self.fit.weights_of(number)
        if self.kept is not None and self.fit.groups is not None:
            return _completed(self.kept, self.fit, weights, rng)
        pool, sizes = self.fit.pool, self.fit.sizes
        counts = balanced(pool, weights, size, self.fit.tables, sizes, rng)
        return np.repeat(np.arange(counts.size, dtype=np.int32), counts)

    def _block(
        self,
        number: int,
        rows: NDArray[np.int32],
        part_of: tuple[int, int],
        laws: dict[int, ScoreLaw],
        rng: np.random.Generator,
    ) -> Block:
        pool = self.fit.pool.codes
        coarse = np.empty((rows.size, pool.shape[1]), dtype=np.int32, order="F")
        for column in range(pool.shape[1]):
            np.take(pool[:, column], rows, out=coarse[:, column])
        scores = {column: law.drawn(rows, rng) for column, law in laws.items()}
        fine = fine_codes(coarse, self.shares[number], self.noisy.coarse, rng, scores)
        drawn = [column.values(codes, rng) for column, codes in zip(self.cells, fine, strict=True)]
        frame = pl.DataFrame(drawn)
        if self.kept_values is not None:
            part, parts = part_of
            frame = frame.with_columns(self.kept_values.gather_every(parts, part))
        names = self.noisy.columns
        ruled, effects = apply_rules(
            frame,
            self.codebook,
            {column.name: column for column in self.cells},
            rng,
            kept=() if self.kept_values is None else self.kept_values.columns,
            coarse=dict(zip(names, self.noisy.coarse, strict=True)),
            shares=dict(zip(names, self.shares[number], strict=True)),
            measured=[tuple(names[j] for j in table) for table in self.noisy.measured],
        )
        return Block(ruled, rows, effects)


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


def _completed(
    kept: Kept, fit: Fit, weights: Vector, rng: np.random.Generator
) -> NDArray[np.int32]:
    """A row of the pool for each of the kept rows in their order: in every group of equal public
    rows as many cells of the pool as it has rows, in proportion to their weights, in random
    order."""
    assert fit.groups is not None
    of_pool = fit.pool.codes[:, list(kept.columns)]
    row_group = _numbered(kept.codes, of_pool, fit.groups)
    counts = np.bincount(row_group, minlength=int(fit.groups.max()) + 1)
    order = np.argsort(fit.groups, kind="stable")
    drawn = _within_groups(weights[order], fit.groups[order], counts, rng)
    cells = np.repeat(order, drawn)  # by group
    rows = rng.permutation(len(row_group))
    rows = rows[np.argsort(row_group[rows], kind="stable")]
    completed = np.empty(len(row_group), dtype=np.int32)
    completed[rows] = cells
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
