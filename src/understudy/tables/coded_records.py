"""Records as the numbers of their cells, and tables of any columns counted from them.

The database computes each record's cells once (`ColumnCells`, from the codebook alone) and streams
them out as one or two bytes a value; large files lie on disk, in the scratch folder. Tables are
then counted block by block, all that are asked for in one pass. Records on a cluster stay there
(coded_on_spark.py).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import ibis
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.survey.cells import ColumnCells
from understudy.survey.engine import new_scratch_file
from understudy.survey.survey import ROWS_AT_A_TIME, Survey
from understudy.tables.coded_on_spark import CodedOnSpark, Merged, coded_on_spark
from understudy.tables.units import Unit, limited

SmallCodes = NDArray[np.uint8] | NDArray[np.uint16]
Counts = NDArray[np.int64]
Vector = NDArray[np.float64]
ColumnNumbers = tuple[int, ...]

IN_MEMORY = 400_000_000  # bytes of codes; more lie in a file that is mapped into memory
BLOCK = 1 << 16  # records whose cell numbers are computed at once: they stay in the cache


class Psus(Protocol):
    """The PSUs of records, here or on a cluster."""

    @property
    def stratum_of_psu(self) -> Counts: ...

    def grouped(self, records: Any, of_psu: Counts, count: int) -> Any: ...

    def cells(self, records: Any, column: int) -> Counts: ...


@dataclass(frozen=True, eq=False)
class Clusters:
    """The number of each record's PSU, and of each PSU's stratum, (PSUs,)."""

    psu: NDArray[np.int64]
    stratum_of_psu: NDArray[np.int64]

    @staticmethod
    def of(strata: Sequence[NDArray[np.int64]], psu: NDArray[np.int64]) -> Clusters:
        """From the number of each record's stratum, where there are strata, and of its PSU, among
        all or in the stratum."""
        most = int(psu.max()) + 1
        pairs, own = np.unique(most * sum(strata, np.zeros_like(psu)) + psu, return_inverse=True)
        return Clusters(own, np.unique(pairs // most, return_inverse=True)[1])

    def grouped(self, records: CodedRecords, of_psu: Counts, count: int) -> CodedRecords:
        """The records with the group of their PSU, one of `count`, as the first column."""
        of_record = of_psu[self.psu].astype(np.uint16)
        return CodedRecords((of_record, *records.codes), (count, *records.sizes))

    def cells(self, records: CodedRecords, column: int) -> Counts:
        """The cell of each PSU in a column in which all of its records have one, (PSUs,)."""
        cells = np.zeros(self.stratum_of_psu.size, dtype=np.int64)
        cells[self.psu] = records.codes[column]
        return cells


@dataclass(frozen=True, eq=False)
class CodedRecords:
    """`codes[j]` holds the cells of column j, (n,); there are `sizes[j]` of them.

    `weights`, where given, are what each record counts (kind `risk` alone).
    """

    codes: tuple[SmallCodes, ...]
    sizes: tuple[int, ...]
    weights: Vector | None = None
    clusters: Clusters | None = None

    @property
    def n(self) -> int:
        return int(self.codes[0].size)

    def count(self, tables: Sequence[ColumnNumbers]) -> list[NDArray[np.int64 | np.float64]]:
        """The tables over all cells, one axis for each column."""
        shapes = [tuple(self.sizes[column] for column in names) for names in tables]
        flat: list[NDArray[np.int64 | np.float64]] = [
            np.zeros(math.prod(shape), dtype=np.int64 if self.weights is None else np.float64)
            for shape in shapes
        ]
        for start in range(0, self.n, BLOCK):
            rows = slice(start, start + BLOCK)
            block = [codes[rows].astype(np.int64) for codes in self.codes]
            weights = None if self.weights is None else self.weights[rows]
            for names, counts in zip(tables, flat, strict=True):
                cell = block[names[0]]
                for name in names[1:]:
                    cell = cell * self.sizes[name] + block[name]
                block_counts = np.bincount(cell, weights, minlength=counts.size)
                np.add(counts, block_counts, out=counts, casting="unsafe")
        return [counts.reshape(shape) for counts, shape in zip(flat, shapes, strict=True)]

    def count_merged(self, asked: Sequence[Merged]) -> list[NDArray[np.int64 | np.float64]]:
        """Tables of some columns each, in coarser cells of their own."""
        parts = (self.only(columns, maps) for columns, maps in asked)
        return [part.count([tuple(range(len(part.sizes)))])[0] for part in parts]

    def rows(self, columns: Sequence[int]) -> NDArray[np.int32]:
        """The cells of some columns, record by record."""
        return np.column_stack([self.codes[j] for j in columns]).astype(np.int32)

    def coarse(self, maps: Sequence[NDArray[np.int32]]) -> CodedRecords:
        """The same records in coarser cells; `maps[j]` has the coarse cell of each fine one."""
        return self.only(range(len(maps)), maps)

    def only(self, columns: Sequence[int], maps: Sequence[NDArray[np.int32]]) -> CodedRecords:
        """Some columns of the same records in coarser cells."""
        sizes = tuple(int(maps[j].max()) + 1 for j in columns)
        codes: tuple[SmallCodes, ...] = tuple(
            self.codes[j] if size == self.sizes[j] else _merged(maps[j], size)[self.codes[j]]
            for j, size in zip(columns, sizes, strict=True)
        )
        return CodedRecords(codes, sizes, self.weights, self.clusters)


AnyCoded = CodedRecords | CodedOnSpark


def coded_records(
    survey: Survey,
    cells: Sequence[ColumnCells],
    unit: Unit | None = None,
    weights: Vector | None = None,
    clusters: tuple[str | None, str] | None = None,
) -> AnyCoded:
    """The cells of every record, at most the limit of records of each unit; `clusters` are the
    columns of its stratum, if there are strata, and of its PSU. On a cluster they stay there."""
    design = [name for name in clusters or () if name is not None]
    if survey.on_cluster:
        return coded_on_spark(survey, cells, unit, design)
    names = dict.fromkeys([*(column.name for column in cells), *design])
    records = limited(survey.raw, unit, list(names))
    n = int(records.count().execute())
    if n == 0:
        raise Refused("The survey has no records; check the file or the filter that made it.")
    if weights is not None and len(weights) != n:
        raise Refused("Record weights and a limit of records per unit do not go together.")
    codes = [column.codes(records[column.name]) for column in cells]
    sizes = tuple(column.size for column in cells)
    codes += [ibis.dense_rank().over(order_by=records[name]) for name in design]
    coded = records.select(**{f"c{j}": code for j, code in enumerate(codes)})
    arrays, ranks = _empty(n, sizes), [np.zeros(n, dtype=np.int64) for _ in design]
    start = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a method that Ibis calls
        for batch in coded.to_pyarrow_batches(chunk_size=ROWS_AT_A_TIME):
            for j, array in enumerate([*arrays, *ranks]):
                array[start : start + batch.num_rows] = _numbers(batch.column(j))
            start += batch.num_rows
    own = Clusters.of(ranks[:-1], ranks[-1]) if ranks else None
    return CodedRecords(tuple(arrays), sizes, weights, own)


def _numbers(column: pa.Array) -> NDArray[np.int64]:
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _merged(mapped: NDArray[np.int32], size: int) -> SmallCodes:
    return mapped.astype(np.uint8) if size <= 256 else mapped.astype(np.uint16)


def _width(size: int) -> type[np.uint8] | type[np.uint16]:
    return np.uint8 if size <= 256 else np.uint16


def _empty(n: int, sizes: Sequence[int]) -> list[SmallCodes]:
    kinds = [np.dtype(_width(size)) for size in sizes]
    if n * sum(kind.itemsize for kind in kinds) <= IN_MEMORY:
        return [np.empty(n, dtype=kind) for kind in kinds]
    return [np.memmap(new_scratch_file(".codes"), kind, "w+", shape=(n,)) for kind in kinds]
