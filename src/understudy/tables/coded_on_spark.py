"""Records on Spark as the numbers of their cells, and tables of any columns counted there.

The workers compute each record's cells once and keep them (in memory, or on their disks). A table
is counted by them block by block, as coded_records.py does it here, and added up over partitions by
Spark: what comes here is as long as the tables. A partition whose worker is lost is counted again,
and counts are whole numbers, so that nothing depends on who counted what.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from understudy.cluster import shipped, spark_frame
from understudy.errors import Refused
from understudy.survey.cells import ColumnCells
from understudy.survey.partition_work import kept_as_long
from understudy.survey.survey import NO_RECORDS, Survey
from understudy.tables.units import Unit, limited

Counts = NDArray[np.int64]
ColumnNumbers = tuple[int, ...]
Merged = tuple[ColumnNumbers, Sequence[NDArray[np.int32]]]  # columns, coarser cells of all

AT_ONCE = 4_000_000  # cells of the tables that are counted in one pass
PSU = "psu"  # the column with the number of a record's PSU


@dataclass(frozen=True, eq=False)
class CodedOnSpark:
    """`frame` holds the cells of every record; column j is its `names[j]`, whose cells are taken
    together as `maps[j]` says, into `sizes[j]`."""

    frame: Any  # Spark's, kept by its workers
    names: tuple[str, ...]
    maps: tuple[Counts | None, ...]
    sizes: tuple[int, ...]
    n: int
    clusters: ClustersOnSpark | None = None

    def count(self, tables: Sequence[ColumnNumbers]) -> list[NDArray[np.int64 | np.float64]]:
        """The tables over all cells, one axis for each column."""
        shapes = [tuple(self.sizes[column] for column in names) for names in tables]
        made: list[NDArray[np.int64 | np.float64]] = []
        for part in _parts([math.prod(shape) for shape in shapes]):
            flat = self._counted([tables[k] for k in part])
            ends = np.cumsum([math.prod(shapes[k]) for k in part])[:-1]
            each = zip(np.split(flat, ends), part, strict=True)
            made += [counts.reshape(shapes[k]) for counts, k in each]
        return made

    def _counted(self, tables: Sequence[ColumnNumbers]) -> Counts:
        """The cells of these tables one after another."""
        used = sorted({column for names in tables for column in names})
        number = {column: k for k, column in enumerate(used)}
        numbered = [[number[column] for column in names] for names in tables]
        sent = sorted({self.names[j] for j in used})  # each once, however it is merged
        columns = [(sent.index(self.names[j]), self.maps[j], self.sizes[j]) for j in used]
        total = sum(math.prod(self.sizes[j] for j in names) for names in tables)
        cells = self.frame.select(*sent)
        work = partial(_count_blocks, numbered, columns)
        sums = shipped(cells, work, "cell long, records long").groupBy("cell").sum("records")
        arrived = sums.toArrow()
        counts = np.zeros(total, dtype=np.int64)
        counts[arrived.column(0).to_numpy()] = arrived.column(1).to_numpy()
        return counts

    def count_merged(self, asked: Sequence[Merged]) -> list[NDArray[np.int64 | np.float64]]:
        """Tables of some columns each, in coarser cells of their own, in one pass."""
        parts = [self.only(columns, maps) for columns, maps in asked]
        ends = np.cumsum([0, *(len(columns) for columns, _ in asked)]).tolist()
        together = replace(
            self,
            names=tuple(name for part in parts for name in part.names),
            maps=tuple(merged for part in parts for merged in part.maps),
            sizes=tuple(size for part in parts for size in part.sizes),
        )
        return together.count([tuple(range(a, b)) for a, b in pairwise(ends)])

    def rows(self, columns: Sequence[int]) -> NDArray[np.int32]:  # noqa: ARG002
        """Refused: records do not come here."""
        raise Refused(
            "Columns that are kept as they are come row by row, which records on Spark do not; "
            "leave `keep` out, or read the file with DuckDB."
        )

    def coarse(self, maps: Sequence[NDArray[np.int32]]) -> CodedOnSpark:
        """The same records in coarser cells; `maps[j]` has the coarse cell of each fine one."""
        return self.only(range(len(maps)), maps)

    def only(self, columns: Sequence[int], maps: Sequence[NDArray[np.int32]]) -> CodedOnSpark:
        """Some columns of the same records in coarser cells."""
        merged = (_after(self.maps[j], maps[j].astype(np.int64)) for j in columns)
        sizes = tuple(int(maps[j].max()) + 1 for j in columns)
        names = tuple(self.names[j] for j in columns)
        return replace(self, names=names, maps=tuple(merged), sizes=sizes)


@dataclass(frozen=True, eq=False)
class ClustersOnSpark:
    """The stratum of each PSU, (PSUs,); the PSU of each record is in the records' frame."""

    stratum_of_psu: Counts

    def grouped(self, records: CodedOnSpark, of_psu: Counts, count: int) -> CodedOnSpark:
        """The records with the group of their PSU, one of `count`, as the first column."""
        return replace(
            records,
            names=(PSU, *records.names),
            maps=(of_psu, *records.maps),
            sizes=(count, *records.sizes),
        )

    def cells(self, records: CodedOnSpark, column: int) -> Counts:
        """The cell of each PSU in a column in which all of its records have one, (PSUs,)."""
        arrived = records.frame.groupBy(PSU).max(records.names[column]).toArrow()
        cells = np.zeros(self.stratum_of_psu.size, dtype=np.int64)
        stored = arrived.column(1).to_numpy().astype(np.int64)
        merged = records.maps[column]
        cells[arrived.column(0).to_numpy()] = stored if merged is None else merged[stored]
        return cells


def coded_on_spark(
    survey: Survey, cells: Sequence[ColumnCells], unit: Unit | None, design: Sequence[str]
) -> CodedOnSpark:
    """The cells of every record, at most the limit of records of each unit; `design` are the
    columns of its stratum, if there are strata, and of its PSU."""
    from pyspark import StorageLevel

    wanted = dict.fromkeys([*(column.name for column in cells), *design])
    records = limited(survey.raw, unit, list(wanted))
    names = tuple(f"c{j}" for j in range(len(cells)))
    codes = {
        name: column.codes(records[column.name]).cast("int32")
        for name, column in zip(names, cells, strict=True)
    }
    labels = {f"d{k}": records[name] for k, name in enumerate(design)}
    frame = spark_frame(records.select(**codes, **labels))
    clusters = None
    if design:
        frame, clusters = _with_psus(frame, list(labels))
    frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
    n = int(frame.count())
    if n == 0:
        raise Refused(NO_RECORDS)
    sizes = tuple(column.size for column in cells)
    coded = CodedOnSpark(frame, names, (None,) * len(cells), sizes, n, clusters)
    kept_as_long(coded, frame)
    return coded


def _with_psus(frame: Any, labels: list[str]) -> tuple[Any, ClustersOnSpark]:
    """The records with the number of their PSU in the place of its label and its stratum's; PSUs
    stand in the order of their strata, then of their labels."""
    from pyspark.sql import functions as f

    known = pl.DataFrame(pl.from_arrow(frame.select(*labels).distinct().toArrow()))
    known = known.sort(labels, nulls_last=True)
    strata = known.select(labels[:-1]).unique(maintain_order=True).with_row_index("stratum")
    if len(labels) > 1:
        joined = known.join(strata, on=labels[:-1], nulls_equal=True, maintain_order="left")
        stratum_of_psu = joined["stratum"].to_numpy().astype(np.int64)
    else:
        stratum_of_psu = np.zeros(known.height, dtype=np.int64)
    numbers = known.with_row_index(PSU).rename({name: f"known_{name}" for name in labels})
    there = frame.sparkSession.createDataFrame(
        numbers.with_columns(pl.col(PSU).cast(pl.Int32)).to_arrow()
    )
    same = [frame[name].eqNullSafe(there[f"known_{name}"]) for name in labels]
    joined = frame.join(f.broadcast(there), same)
    kept = [name for name in frame.columns if name not in labels]
    return joined.select(*kept, PSU), ClustersOnSpark(stratum_of_psu)


def _after(first: Counts | None, second: Counts) -> Counts:
    """The cell of each stored one, after two maps."""
    return second if first is None else second[first]


def _parts(sizes: Sequence[int]) -> list[list[int]]:
    """Runs of tables with at most so many cells together as are counted at once."""
    parts: list[list[int]] = []
    room = 0
    for number, size in enumerate(sizes):
        if not parts or size > room:
            parts.append([])
            room = AT_ONCE
        parts[-1].append(number)
        room -= size
    return parts


def _count_blocks(
    tables: list[list[int]],
    columns: list[tuple[int, Counts | None, int]],
    blocks: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The occupied cells of the tables over one partition, numbered through, and their records; of
    a column its position in the block, the coarser cells and their number."""
    sizes = [size for _, _, size in columns]
    totals = [math.prod(sizes[k] for k in names) for names in tables]
    flat = [np.zeros(total, dtype=np.int64) for total in totals]
    for block in blocks:
        sent = [column.to_numpy(zero_copy_only=False) for column in block.columns]
        codes = [
            sent[k].astype(np.int64) if merged is None else merged[sent[k]]
            for k, merged, _ in columns
        ]
        for names, counts in zip(tables, flat, strict=True):
            cell = codes[names[0]]
            for k in names[1:]:
                cell = cell * sizes[k] + codes[k]
            np.add(counts, np.bincount(cell, minlength=counts.size), out=counts)
    counts = np.concatenate(flat)
    occupied = np.flatnonzero(counts)
    yield pa.RecordBatch.from_pydict({"cell": occupied, "records": counts[occupied]})
