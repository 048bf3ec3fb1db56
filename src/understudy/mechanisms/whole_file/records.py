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
class FileBlocks:
    """What the blocks of one file are made of, each by itself: anywhere, in any order.

    `records` are those of each row of the pool; `kept_rows` has the row of every record where
    public columns stay as they are, which fixes their order. Each block has chance of its own.
    """

    cells: tuple[ColumnCells, ...]
    codebook: Codebook
    coarse: tuple[Codes, ...]
    measured: list[tuple[str, ...]]
    shares: list[Vector]  # of fine cells in coarse ones
    pool: Codes
    records: NDArray[np.int64]
    laws: dict[int, ScoreLaw]
    chances: tuple[np.random.Generator, ...]
    kept_rows: NDArray[np.int32] | None = None
    kept_values: pl.DataFrame | None = None

    @property
    def parts(self) -> int:
        return len(self.chances)

    @property
    def no_records(self) -> pl.DataFrame:
        """A block without records: its columns and their types."""
        return self._made(np.empty(0, dtype=np.int32), np.random.default_rng(0), None).frame

    def __call__(self, part: int) -> Block:
        """Block `part`, once: it uses up its chance."""
        kept = None
        if self.kept_values is not None:
            kept = self.kept_values.gather_every(self.parts, part)
        return self._made(self._rows(part), self.chances[part], kept)

    def _rows(self, part: int) -> NDArray[np.int32]:
        """The row of the pool of each of its records."""
        if self.kept_rows is not None:
            return self.kept_rows[part :: self.parts]
        ends = np.cumsum(self.records)
        places = np.arange(part, ends[-1], self.parts)
        return np.searchsorted(ends, places, side="right").astype(np.int32)

    def _made(
        self, rows: NDArray[np.int32], rng: np.random.Generator, kept: pl.DataFrame | None
    ) -> Block:
        coarse = np.empty((rows.size, self.pool.shape[1]), dtype=np.int32, order="F")
        for column in range(self.pool.shape[1]):
            np.take(self.pool[:, column], rows, out=coarse[:, column])
        scores = {column: law.drawn(rows, rng) for column, law in self.laws.items()}
        fine = fine_codes(coarse, self.shares, self.coarse, rng, scores)
        drawn = [column.values(codes, rng) for column, codes in zip(self.cells, fine, strict=True)]
        frame = pl.DataFrame(drawn)
        names = tuple(column.name for column in self.cells)
        ruled, effects = apply_rules(
            frame if kept is None else frame.with_columns(kept),
            self.codebook,
            {column.name: column for column in self.cells},
            rng,
            kept=() if kept is None else kept.columns,
            coarse=dict(zip(names, self.coarse, strict=True)),
            shares=dict(zip(names, self.shares, strict=True)),
            measured=self.measured,
        )
        return Block(ruled, rows, effects)


def moved(
    block: Block, cells: Sequence[ColumnCells], coarse: Sequence[Codes], pool: Codes
) -> tuple[NDArray[np.intp], Codes]:
    """The records of a block that rules put into other coarse cells, and these cells."""
    if not block.effects.changed:
        return np.empty(0, dtype=np.intp), np.empty((0, len(cells)), dtype=np.int32)
    codes = np.empty((block.frame.height, len(cells)), dtype=np.int32, order="F")
    for j, (column, mapped) in enumerate(zip(cells, coarse, strict=True)):
        codes[:, j] = mapped[column.codes(block.frame[column.name])]
    other = np.flatnonzero((codes != pool[block.rows]).any(axis=1))
    return other, codes[other]


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
        """The records of one file of the set `number`, block by block."""
        made = self.file(number, rng, size)
        return map(made, range(made.parts))

    def file(self, number: int, rng: np.random.Generator, size: int | None = None) -> FileBlocks:
        """One file of the set `number`, of `size` records, or as many as the release has: what its
        blocks are made of. Records are rounded together over the whole file; every block has each
        k-th of them, so that it is a small file of the same tables by itself."""
        weights, kept_rows = self.fit.weights_of(number), None
        if self.kept is not None and self.fit.groups is not None:
            kept_rows = _completed(self.kept, self.fit, weights, rng)
            records = np.bincount(kept_rows, minlength=weights.size)
        else:
            wanted, tables = size or self.noisy.records, self.fit.tables
            records = balanced(self.fit.pool, weights, wanted, tables, self.fit.sizes, rng)
        parts = max(1, -(-int(records.sum()) // BLOCK))
        runs = runs_of(self.noisy, [column.grid_size for column in self.cells])
        pool = self.fit.pool.codes
        laws = score_laws(pool, records.astype(np.float64), self.noisy.measured, runs)
        names = self.noisy.columns
        return FileBlocks(
            self.cells,
            self.codebook,
            self.noisy.coarse,
            [tuple(names[j] for j in table) for table in self.noisy.measured],
            self.shares[number],
            pool,
            records,
            laws,
            (rng, *rng.spawn(parts - 1)),
            kept_rows,
            self.kept_values,
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
