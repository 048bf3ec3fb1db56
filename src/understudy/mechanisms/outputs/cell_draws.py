"""Outputs of mechanisms for models of whole rows: noisy counts of cells, or of low-order tables."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from understudy.chance import Chance
from understudy.dp.balanced import balanced
from understudy.dp.consistent import consistent
from understudy.dp.raking import rake_pool
from understudy.dp.record_pool import Pool, draw_pool
from understudy.errors import Refused
from understudy.mechanisms.outputs.output import DrawnOutput, DrawValues, Ground, without_drafts
from understudy.mechanisms.side_by_side import side_by_side
from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.engine import new_scratch_file, parquet_table
from understudy.survey.partition_work import kept_as_long, kept_there, part_by_part, viewed
from understudy.survey.survey import Survey
from understudy.tables.cross_table import (
    Categories,
    CrossTable,
    declared_categories,
    possible_cells,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from understudy.models.contract import RowsModel

__public__ = ("rescaled as rescaled_counts",)

Vector = NDArray[np.float64]
ColumnNumbers = tuple[int, ...]

IN_MEMORY = 5_000_000  # values of one data set; larger ones are written to the scratch folder
SMALLEST_POOL, LARGEST_POOL = 200_000, 2_000_000
SWEEPS = 40
BLOCK = 500_000  # records that a worker makes at once


@dataclass(frozen=True, eq=False)
class RowsOutput(DrawnOutput):
    """Records come from tables of cells, in the order of the cells."""

    @abstractmethod
    def tables(self, ground: Ground, chance: Chance) -> list[CrossTable]:
        """Each data set as counts of cells."""

    def datasets(self, ground: Ground, chance: Chance) -> list[Survey]:
        return surveys_of(self.tables(ground, chance), ground)


def surveys_of(tables: Sequence[CrossTable], ground: Ground) -> list[Survey]:
    """The records of each table, with the codebook of these columns alone."""
    names = list(ground.columns)
    kept = without_drafts(ground.codebook.only(names), names).without_unit()
    ordered = {name: kept[name] for name in names}
    codebook = replace(kept, columns=ordered, population_by={})
    if ground.cluster is not None:
        return [_made_there(table, ground.cluster, ground.design, codebook) for table in tables]
    return [Survey(stored_records(table), ground.design, codebook) for table in tables]


@dataclass(frozen=True, eq=False)
class _RowsOf:
    """On a worker: the records of a table, a part of them at a time."""

    table: CrossTable

    def __call__(self, part: int) -> pl.DataFrame:
        ends = np.cumsum(self.table.counts)
        first, past = part * BLOCK, (part + 1) * BLOCK
        inside = ends.clip(first, past) - (ends - self.table.counts).clip(first, past)
        return self.table.records(inside)


def _made_there(table: CrossTable, like: ir.Table, design: Design, codebook: Codebook) -> Survey:
    """The records of a table, made by the workers of the cluster that has the table `like`."""
    work, schema = _RowsOf(table), table.records(np.zeros_like(table.counts)).schema
    records = kept_there(part_by_part(like, max(1, -(-table.n // BLOCK)), work, schema))
    file = Survey(viewed(records, like), design, codebook)
    kept_as_long(file, records)
    return file


@dataclass(frozen=True, eq=False)
class CellCounts(RowsOutput):
    """Counts of cells with noise: `levels` of each column, `codes` of the cells, `noisy_counts`.

    `exact` counts are those of a mechanism that adds no noise: they are not scaled to the number
    of records that are drawn.
    """

    exact: bool = False

    def tables(self, ground: Ground, chance: Chance) -> list[CrossTable]:
        model: RowsModel = ground.models[0]  # type: ignore[assignment]
        size = model.size or ground.records
        rngs = {number: chance.generator(f"rows {number}") for number in range(len(self.drawn))}

        def one_set(number: int) -> CrossTable:
            cells = noted_cells(self.drawn[number], ground)
            counts = cells.counts if self.exact else rescaled(cells.counts, size)
            return replace(cells, counts=model.draw(counts, size, rngs[number]))

        return side_by_side(one_set, list(rngs))


def noted(table: CrossTable) -> DrawValues:
    """Cells and their noisy counts as a draw."""
    levels = dict(zip(table.categories.columns, table.categories.levels, strict=True))
    return {"levels": levels, "codes": table.codes, "noisy_counts": table.counts}


def noted_cells(draw: DrawValues, ground: Ground) -> CrossTable:
    """The cells that `noted` wrote, in the types that the ground has for their columns."""
    columns = tuple(draw["levels"])
    levels = tuple(tuple(draw["levels"][name]) for name in columns)
    dtypes = tuple(ground.types[name] for name in columns)
    codes = np.asarray(draw["codes"], dtype=np.int32).reshape(-1, len(columns))
    counts = np.asarray(draw["noisy_counts"], dtype=np.int64)
    return CrossTable(Categories(columns, levels, dtypes), codes, counts)


@dataclass(frozen=True, eq=False)
class MarginalTables(RowsOutput):
    """Noisy tables of a few columns each: `columns` by their numbers, `noisy_tables`."""

    def tables(self, ground: Ground, chance: Chance) -> list[CrossTable]:
        """The pool of the first data set serves them all: it was made from released figures."""
        model: RowsModel = ground.models[0]  # type: ignore[assignment]
        size = model.size or ground.records
        categories = declared_categories(
            ground.codebook, model.columns, ground.types, model.missing
        )
        rngs = [chance.generator(f"rows {number}") for number in range(len(self.drawn))]
        return tables_from(self.drawn, categories, size, rngs, allowed_by(ground.codebook))


def tables_from(
    draws: Sequence[DrawValues],
    categories: Categories,
    size: int,
    rngs: Sequence[np.random.Generator],
    possible: Callable[[CrossTable], NDArray[np.bool_]],
) -> list[CrossTable]:
    """Synthetic tables of cells from noisy tables; `possible` says which cells the codebook's edit
    rules allow."""
    made = []
    pool, weights = None, np.empty(0)
    sizes = [len(levels) for levels in categories.levels]
    for draw, rng in zip(draws, rngs, strict=True):
        columns = [tuple(int(j) for j in names) for names in draw["columns"]]
        noisy = [np.asarray(table, dtype=np.float64) for table in draw["noisy_tables"]]
        fitted = consistent(noisy, columns)
        if pool is None:
            pool = _pool(categories, fitted, columns, size, rng, possible)
            weights = pool.weights
        weights, _ = rake_pool(pool, weights, fitted, columns, SWEEPS, _tolerance(columns, size))
        counts = balanced(pool, weights, size, columns, sizes, rng)
        used = counts > 0
        made.append(CrossTable(categories, pool.codes[used], counts[used]))
    return made


def allowed_by(codebook: Codebook) -> Callable[[CrossTable], NDArray[np.bool_]]:
    """Which cells of a table the codebook's edit rules allow."""
    rules, known = codebook.impossible, codebook.columns
    return lambda table: possible_cells(table.categories, table.codes, rules, known)


def _pool(
    categories: Categories,
    fitted: Sequence[Vector],
    columns: Sequence[ColumnNumbers],
    size: int,
    rng: np.random.Generator,
    possible: Callable[[CrossTable], NDArray[np.bool_]],
) -> Pool:
    drawn = draw_pool(fitted, columns, min(max(size, SMALLEST_POOL), LARGEST_POOL), rng)
    allowed = possible(CrossTable(categories, drawn.codes, np.ones(len(drawn.codes), int)))
    if not allowed.any():
        raise Refused("The codebook's `impossible` conditions leave no cell; correct the rules.")
    weights = drawn.weights[allowed]
    return Pool(drawn.codes[allowed], weights / weights.sum())


def _tolerance(columns: Sequence[ColumnNumbers], size: int) -> float:
    """The mean total variation at which raking stops: what is left is lost in the rounding.

    A tenth of a record for each table or of one in a thousand; of a small file, one in a thousand.
    """
    return max(1e-4, len(columns) / (10.0 * size)) if size > 1000 else 1e-3


@dataclass(frozen=True, eq=False)
class OwnTables(RowsOutput):
    """Synthetic tables that a mechanism of the steward's own made inside. They are handed out as
    rows, and its class says so (`hands_out = "rows"`)."""

    noted = False

    drawn: tuple[DrawValues, ...] = ()
    made: tuple[CrossTable, ...] = ()

    def tables(self, ground: Ground, chance: Chance) -> list[CrossTable]:  # noqa: ARG002
        return list(self.made)


def rescaled(noisy: ArrayLike, size: int) -> Vector:
    """Negative counts to 0, then all multiplied so that they add up to `size` (M §2.2.4).

    Where nothing is left above 0 the cells share alike, which is what public facts alone say.
    """
    positive = np.maximum(np.asarray(noisy), 0).astype(np.float64)
    total = positive.sum()
    if total == 0:
        return np.full(positive.size, size / positive.size)
    return np.asarray(positive * (size / total), dtype=np.float64)


def stored_records(table: CrossTable) -> Any:
    """The records as a frame, or as a Parquet file on disk when they are many."""
    frame = table.records()
    if frame.height * frame.width <= IN_MEMORY:
        return frame
    path = new_scratch_file(".parquet")
    frame.write_parquet(path, compression="zstd", compression_level=1, statistics=False)
    return parquet_table(path)
