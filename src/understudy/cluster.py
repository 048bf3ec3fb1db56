"""One pass over records in blocks, where the records are: in this process, or on Spark's workers.

What is done with the blocks is a function that gives a few bytes for all blocks of a partition; no
record comes here from a cluster. The function goes to the workers with all that it uses of its own
file, so that these need NumPy and PyArrow, and nothing of ours.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import ibis.expr.types as ir

Batches = Iterator[pa.RecordBatch]
Summarize = Callable[[Batches], Iterator[bytes]]

CLUSTER = "pyspark"  # as Ibis calls it


def on_cluster(table: ir.Table) -> bool:
    """Whether a table's records are on a cluster, and must stay there."""
    return bool(table.get_backend().name == CLUSTER)


def spark_frame(table: ir.Table) -> Any:
    """A table of a cluster as Spark's own frame."""
    backend = table.get_backend()
    return backend.raw_sql(backend.compile(table))


def summaries(table: ir.Table, summarize: Summarize, records: int) -> Iterator[bytes]:
    """What the function gives for the table's blocks, of at most so many records each, in their
    order; on a cluster for those of each partition by themselves."""
    if not on_cluster(table):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a method that Ibis calls
            yield from summarize(iter(table.to_pyarrow_batches(chunk_size=records)))
        return
    made = shipped(spark_frame(table), partial(_as_rows, summarize), "summary binary", summarize)
    for row in made.collect():
        yield bytes(row["summary"])


def brought(table: ir.Table) -> Iterator[pa.RecordBatch]:
    """The rows of a table on a cluster, a block at a time: of columns that are published."""
    made = shipped(spark_frame(table), _as_bytes, "block binary")
    for row in made.toLocalIterator():
        with pa.ipc.open_stream(bytes(row["block"])) as blocks:
            yield from blocks


def shipped(frame: Any, work: Callable[[Batches], Batches], schema: str, *uses: Any) -> Any:
    """Spark's frame of what the workers make of another one's blocks; `uses` are functions of other
    files that the work calls."""
    from pyspark.cloudpickle import register_pickle_by_value

    for function in (work, _as_rows, *uses):
        plain = function.func if isinstance(function, partial) else function
        register_pickle_by_value(sys.modules[plain.__module__])
    return frame.mapInArrow(work, schema)


def _as_rows(summarize: Summarize, blocks: Batches) -> Batches:
    for summary in summarize(blocks):
        yield pa.RecordBatch.from_pydict({"summary": pa.array([summary], pa.binary())})


def _as_bytes(blocks: Batches) -> Batches:
    for block in blocks:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, block.schema) as stream:
            stream.write_batch(block)
        packed = sink.getvalue().to_pybytes()
        yield pa.RecordBatch.from_pydict({"block": pa.array([packed], pa.binary())})
