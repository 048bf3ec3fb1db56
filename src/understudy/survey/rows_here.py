"""Columns that are published as they are, from a disk or a cluster into one sorted file here.

Rows that agree in all of these columns are the same, so that their order says nothing of the file
that they come from, and is the same whichever engine has it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import ibis.expr.types as ir
import polars as pl
import pyarrow as pa

from understudy.cluster import brought, on_cluster
from understudy.survey.engine import new_scratch_file, parquet_table
from understudy.survey.formats.parquet import write_frames


def write_sorted(table: ir.Table, path: Path) -> None:
    """The rows in the order of their values; those on a cluster come block by block."""
    if on_cluster(table):
        unsorted = new_scratch_file(".parquet")
        write_frames((_frame([block]) for block in brought(table)), None, unsorted)
        table = parquet_table(unsorted)
    table.order_by(list(table.columns)).to_parquet(path)


def rows_here(table: ir.Table) -> ir.Table:
    """The same as a table over a file in the scratch folder."""
    path = new_scratch_file(".parquet")
    write_sorted(table, path)
    return parquet_table(path)


def blocks_of(table: ir.Table, rows: int) -> Iterator[pl.DataFrame]:
    """The rows of a table here in their order, so many at a time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of DuckDB, in what Ibis calls
        yield from even_blocks(table.to_pyarrow_batches(chunk_size=rows), rows)


def even_blocks(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pl.DataFrame]:
    """Batches of any size as frames of so many rows, but for the last."""
    waiting: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        waiting.append(batch)
        held += batch.num_rows
        if held < rows:
            continue
        frame = _frame(waiting)
        while frame.height >= rows:
            yield frame.head(rows)
            frame = frame[rows:]
        waiting, held = frame.to_arrow().to_batches(), frame.height
    if held:
        yield _frame(waiting)


def _frame(batches: list[pa.RecordBatch]) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(pa.Table.from_batches(batches)))
