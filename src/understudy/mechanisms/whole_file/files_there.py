"""Files of a whole file whose records Spark's workers make, block by block, and keep.

A block is made of the fitted tables and of chance of its own. Both go to the workers, so that the
records are those of a file that is made here by the same chance. Weights depend on all records: of
these, sums come here, by combination of levels with public totals and by row of cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import ibis.expr.types as ir
import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.chance import Chance
from understudy.errors import Refused
from understudy.mechanisms.whole_file.calibration import (
    Calibration,
    CellNumbers,
    CellSums,
    Weighed,
    settled,
)
from understudy.mechanisms.whole_file.files import file_maker, published_codebook
from understudy.mechanisms.whole_file.noisy_file import NoisyFile
from understudy.mechanisms.whole_file.records import FileBlocks, moved
from understudy.mechanisms.whole_file.weights import (
    public_sums,
    published_design,
    smoothed,
    table_places,
    weight_bounds,
)
from understudy.one_blas_thread import one_blas_thread
from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.partition_work import (
    frame_by_frame,
    kept_as_long,
    kept_there,
    part_by_part,
    viewed,
)
from understudy.survey.survey import Survey

Vector = NDArray[np.float64]
Weights = Callable[[pl.DataFrame], Vector]

ROW, CELLS, LEVELS = "understudy_row", "understudy_cells", "understudy_levels"
NOW, HELD = "understudy_now", "understudy_held"
MOST_COMBINATIONS = 2**62
TOO_MANY = (
    "The levels with public totals have too many combinations for weights on Spark; declare totals "
    "of fewer columns, or read the file with DuckDB."
)


@one_blas_thread()
def files_there(
    noisy: NoisyFile, codebook: Codebook, design: Design, chance: Chance, like: ir.Table
) -> list[Survey]:
    """A file from each set of noisy tables, on the cluster that has the table `like`."""
    maker = file_maker(noisy, codebook, design, chance)
    published, shown = published_codebook(codebook, noisy, design), published_design(design)
    files = []
    for number in range(len(noisy.sets)):
        blocks = maker.file(number, chance.generator(f"file {number}"))
        schema = blocks.no_records.schema
        if shown.weight is None or shown.variance_weight is None:
            records = kept_there(part_by_part(like, blocks.parts, _Plain(blocks), schema))
        else:
            records = _with_weights(blocks, noisy, published, shown, like)
        file = Survey(viewed(records, like), shown, published)
        kept_as_long(file, records)
        files.append(file)
    return files


def _with_weights(
    blocks: FileBlocks, noisy: NoisyFile, codebook: Codebook, shown: Design, like: ir.Table
) -> Any:
    """Spark's frame of the records with drawn and smoothed weights, which its workers keep."""
    assert shown.weight is not None
    assert shown.variance_weight is not None
    drawn, plain = shown.variance_weight, blocks.no_records
    marks = {ROW: pl.Int32(), CELLS: pl.Binary(), LEVELS: pl.Int64()}
    work = _Marked(blocks, codebook, tuple(column.name for column in blocks.cells))
    made = part_by_part(like, blocks.parts, work, pl.Schema({**plain.schema, **marks}))
    there = _Records(kept_there(made), public_sums(plain, codebook))
    share = noisy.records / int(blocks.records.sum())  # weights are those of a file of its size
    bounds = weight_bounds(codebook, drawn, share)
    both = [there.calibrated(_Drawn(drawn, share), bounds)]
    cells = there.cells(both[0], blocks.pool)
    places = table_places(cells.codes, noisy, noisy.columns.index(drawn))
    both.append(
        there.calibrated(cells.weights(smoothed(cells.sums, cells.records, places)), bounds)
    )
    names = (drawn, shown.weight)
    schema = pl.Schema({**plain.schema, **dict.fromkeys(names, pl.Float64())})
    finished = kept_there(frame_by_frame(there.frame, _Finished(names, tuple(both)), schema))
    finished.count()  # made of the marked records, which go now
    there.frame.unpersist()
    return finished


@dataclass(frozen=True, eq=False)
class _Plain:
    """On a worker: the records of a block."""

    blocks: FileBlocks

    def __call__(self, part: int) -> pl.DataFrame:
        with one_blas_thread():
            return self.blocks(part).frame


@dataclass(frozen=True, eq=False)
class _Marked:
    """On a worker: the records of a block, with all that their weights depend on: the row of the
    pool, or -1 and the cells of a record that rules moved, and the levels with public totals."""

    blocks: FileBlocks
    codebook: Codebook
    names: tuple[str, ...]

    def __call__(self, part: int) -> pl.DataFrame:
        with one_blas_thread():
            block = self.blocks(part)
        other, codes = moved(block, self.blocks.cells, self.blocks.coarse, self.blocks.pool)
        rows = block.rows.copy()
        rows[other] = -1
        cells: list[bytes | None] = [None] * rows.size
        for record, own in zip(other.tolist(), codes, strict=True):
            cells[record] = own.tobytes()
        totals = public_sums(block.frame, self.codebook)
        levels = np.zeros(rows.size, dtype=np.int64)
        for places, sums in totals:
            levels = levels * (sums.size + 1) + places + 1
        return block.frame.with_columns(
            pl.Series(ROW, rows, pl.Int32),
            pl.Series(CELLS, cells, pl.Binary),
            pl.Series(LEVELS, levels, pl.Int64),
        )


@dataclass(frozen=True, eq=False)
class _Drawn:
    """The drawn weights of records."""

    name: str
    share: float

    def __call__(self, frame: pl.DataFrame) -> Vector:
        return np.asarray(frame[self.name].cast(pl.Float64).to_numpy() * self.share)


@dataclass(frozen=True, eq=False)
class _Smooth:
    """The smoothed weights of records, by row of the pool or by their own cells."""

    by_row: Vector
    by_cells: Mapping[bytes, float]

    def __call__(self, frame: pl.DataFrame) -> Vector:
        rows = frame[ROW].to_numpy()
        weights: Vector = self.by_row[rows]
        for record in np.flatnonzero(rows < 0).tolist():
            weights[record] = self.by_cells[frame[CELLS][record]]
        return weights


@dataclass(frozen=True, eq=False)
class _Calibrated:
    """Weights after a calibration to the combinations of levels that occur."""

    weights: Weights
    calibration: Calibration
    occurring: CellNumbers

    def __call__(self, frame: pl.DataFrame) -> Vector:
        if not self.calibration.factors:
            return self.weights(frame)
        places = np.searchsorted(self.occurring, frame[LEVELS].to_numpy())
        return self.calibration.of(self.weights(frame), places)


@dataclass(frozen=True, eq=False)
class _Numbers:
    """On a worker: the weights now, and held between the bounds, beside some columns."""

    columns: tuple[str, ...]
    weights: _Calibrated

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        now, calibration = self.weights(frame), self.weights.calibration
        held = calibration.inside(now) if calibration.factors else now
        return frame.select(*self.columns, pl.Series(NOW, now), pl.Series(HELD, held))


@dataclass(frozen=True, eq=False)
class _Finished:
    """On a worker: the records with both weights."""

    names: tuple[str, str]
    both: tuple[_Calibrated, ...]

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        made = [pl.Series(n, w(frame)) for n, w in zip(self.names, self.both, strict=True)]
        return frame.with_columns(made).drop(ROW, CELLS, LEVELS)


@dataclass(frozen=True, eq=False)
class _Cells:
    """The rows of cells that occur, with their records and the sums of their weights; the first
    `of_pool` are the pool's `rows`."""

    codes: NDArray[np.int32]
    records: Vector
    sums: Vector
    rows: NDArray[np.int32]
    pool_size: int

    def weights(self, by_row: Vector) -> _Smooth:
        of_pool = np.zeros(self.pool_size)
        of_pool[self.rows] = by_row[: self.rows.size]
        own = zip(self.codes[self.rows.size :], by_row[self.rows.size :].tolist(), strict=True)
        return _Smooth(of_pool, {codes.tobytes(): weight for codes, weight in own})


@dataclass(frozen=True, eq=False)
class _Records:
    """Marked records on the cluster, and what can be asked of them."""

    frame: Any  # Spark's, kept by its workers
    totals: Sequence[CellSums]  # without cells

    def calibrated(self, weights: Weights, bounds: tuple[float, float] | None) -> _Calibrated:
        """The weights on the public totals, in passes over the records."""
        if not self.totals:
            return _Calibrated(weights, Calibration(), np.empty(0, dtype=np.int64))

        def ask(calibration: Calibration) -> Weighed:
            sums = self._held(_Calibrated(weights, calibration, self.occurring)).sort(LEVELS)
            low, high = sums["low"].to_numpy().min(), sums["high"].to_numpy().max()
            return Weighed(sums["held"].to_numpy(), float(low), float(high))

        return _Calibrated(weights, settled(ask, self._steps, bounds), self.occurring)

    def cells(self, weights: _Calibrated, pool: NDArray[np.int32]) -> _Cells:
        """The rows of cells that occur, under these weights: as many as the pool has, and one for
        each combination of cells into which rules moved a record."""
        sums = self._summed((ROW, CELLS), weights).sort(ROW, CELLS)
        of_pool, own = sums.filter(pl.col(ROW) >= 0), sums.filter(pl.col(ROW) < 0)
        rows = of_pool[ROW].to_numpy()
        moved_to = [np.frombuffer(cells, dtype=np.int32) for cells in own[CELLS]]
        every = pl.concat([of_pool, own])
        return _Cells(
            np.vstack([pool[rows], *moved_to]),
            every["records"].to_numpy().astype(np.float64),
            every["sum"].to_numpy(),
            rows,
            len(pool),
        )

    @cached_property
    def occurring(self) -> CellNumbers:
        """The combinations of levels that occur, in order."""
        if prod(sums.size + 1 for _, sums in self.totals) > MOST_COMBINATIONS:
            raise Refused(TOO_MANY)
        return self._levels()

    @cached_property
    def _steps(self) -> list[CellSums]:
        """The cells of these combinations."""
        steps: list[CellSums] = []
        left = self.occurring
        for _, sums in reversed(self.totals):
            steps.append((left % (sums.size + 1) - 1, sums))
            left = left // (sums.size + 1)
        return steps[::-1]

    def _levels(self) -> CellNumbers:
        levels = self.frame.select(LEVELS).distinct().toArrow()
        return np.sort(levels.column(0).to_numpy())

    def _summed(self, by: tuple[str, ...], weights: _Calibrated) -> pl.DataFrame:
        """Records of each group, and the sum of their weights."""
        from pyspark.sql import functions as f

        return self._grouped(by, weights, records=f.count(f.lit(1)), sum=f.sum(NOW))

    def _held(self, weights: _Calibrated) -> pl.DataFrame:
        """Of each combination of levels the sum of the held weights, and the extremes of all."""
        from pyspark.sql import functions as f

        sums = {"held": f.sum(HELD), "low": f.min(NOW), "high": f.max(NOW)}
        return self._grouped((LEVELS,), weights, **sums)

    def _grouped(self, by: tuple[str, ...], weights: _Calibrated, **sums: Any) -> pl.DataFrame:
        types = {ROW: pl.Int32(), CELLS: pl.Binary(), LEVELS: pl.Int64()}
        numbers = {NOW: pl.Float64(), HELD: pl.Float64()}
        schema = pl.Schema({**{name: types[name] for name in by}, **numbers})
        made = frame_by_frame(self.frame, _Numbers(by, weights), schema)
        answer = made.groupBy(*by).agg(*(sum.alias(name) for name, sum in sums.items()))
        return pl.DataFrame(pl.from_arrow(answer.toArrow()))
