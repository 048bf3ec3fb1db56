"""Work on records where they are: part by part on disk (DuckDB), or on the workers of Spark.

`in_partitions` gives a table back, which stays where it is; `gathered` gives small arrays, such as
sums. Neither brings a column of records here: on one machine a part is in memory while it is
worked on, on Spark never.
Spark's workers need this package, and `PYSPARK_PYTHON` names the interpreter that has it.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import ibis
import ibis.expr.types as ir
import polars as pl
import pyarrow as pa
from ibis.util import gen_name
from numpy.typing import NDArray

from understudy.cluster import on_cluster, spark_frame
from understudy.survey.engine import connection, literal_path, new_scratch_file
from understudy.survey.rows_here import even_blocks

PART = "understudy_part"  # the column that says where a record belongs, while it is worked on
ROWS_IN_MEMORY = 2_000_000  # of a part on disk, on average
ROWS_AT_A_TIME = 250_000  # of a stream of which arrays are made

Work = Callable[[pl.DataFrame], pl.DataFrame]
BlockWork = Callable[[pl.DataFrame, str], pl.DataFrame]
Gathering = Callable[[pl.DataFrame], list[NDArray[Any]]]


def in_partitions(
    table: ir.Table, keys: Sequence[str], work: Work, schema: ibis.Schema
) -> ir.Table:
    """What `work` makes of the records, a table with this schema. Records that agree on the keys
    are always worked on together; without keys all are."""
    marked = table.mutate(**{PART: _mark(table, keys)})
    if on_cluster(table):
        return _on_spark(marked, work, schema)
    rows = int(table.count().execute())
    parts = max(1, -(-rows // ROWS_IN_MEMORY)) if keys else 1
    folder = new_scratch_file("")
    folder.mkdir()
    for number in range(parts):
        mine = marked.filter(marked[PART] % parts == number).drop(PART)
        made = work(pl.DataFrame(mine.to_polars()))
        made.write_parquet(folder / f"{number}.parquet")
    files = [literal_path(path) for path in sorted(folder.iterdir())]
    return connection().read_parquet(files).cast(schema)


def gathered(table: ir.Table, work: Gathering) -> list[list[NDArray[Any]]]:
    """The few arrays that `work` makes of some records at a time, for all records: their sums,
    say. What they are together is for the caller to say."""
    if on_cluster(table):
        rows = spark_frame(table).mapInArrow(partial(_pickled, work), "made binary").collect()
        return [pickle.loads(bytes(row["made"])) for row in rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of DuckDB, in what Ibis calls
        batches = table.to_pyarrow_batches(chunk_size=ROWS_AT_A_TIME)
        return [work(frame) for frame in _frames(batches)]


def _mark(table: ir.Table, keys: Sequence[str]) -> ir.IntegerValue:
    """A whole number from 0 for each record, the same wherever the keys agree."""
    number: Any = ibis.literal(0)
    for name in keys:
        value = table[name]
        if value.type().is_floating():
            value = value + 0.0  # -0 is 0
        text = value.cast("string").fill_null("")
        number = (number * 31 + text.hash() % 1_000_003) % 1_000_003
    return (number + 1_000_003) % 1_000_003


def _on_spark(marked: ir.Table, work: Work, schema: ibis.Schema) -> ir.Table:
    from ibis.backends.pyspark.datatypes import PySparkSchema

    records = spark_frame(marked).repartition(PART).drop(PART)
    made = records.mapInArrow(partial(_worked, work, schema), PySparkSchema.from_ibis(schema))
    return viewed(made, marked)


def viewed(frame: Any, like: ir.Table) -> ir.Table:
    """Spark's frame as a table beside another one."""
    name = gen_name("understudy")
    frame.createOrReplaceTempView(name)
    return like.get_backend().table(name)


def in_blocks(table: ir.Table, work: BlockWork, schema: ibis.Schema, rows: int) -> Any:
    """Spark's frame of what `work` makes of the rows in the order of their values, so many at a
    time; it is told the numbers of partition and block. The workers keep what they made."""
    from ibis.backends.pyspark.datatypes import PySparkSchema
    from pyspark import StorageLevel

    records = spark_frame(table).orderBy(*table.columns)
    made = partial(_made_of_blocks, work, schema, rows)
    frame = records.mapInArrow(made, PySparkSchema.from_ibis(schema))
    return frame.persist(StorageLevel.MEMORY_AND_DISK)


def _worked(
    work: Work, schema: ibis.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On a worker: all records of its part at once."""
    whole = list(batches)
    if whole:
        yield from work(_frame(whole)).to_arrow().cast(schema.to_pyarrow()).to_batches()


def _made_of_blocks(
    work: BlockWork, schema: ibis.Schema, rows: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On a worker: its part in blocks."""
    from pyspark import TaskContext

    partition = TaskContext.get().partitionId()
    for number, frame in enumerate(even_blocks(batches, rows)):
        made = work(frame, f"{partition} {number}").select(list(schema.names))
        yield from made.to_arrow().cast(schema.to_pyarrow()).to_batches()


def _pickled(work: Gathering, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On a worker: what is made of its part."""
    for frame in _frames(batches):
        yield pa.RecordBatch.from_pydict({"made": [pickle.dumps(work(frame))]})


def _frames(batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """Batches joined until there are enough records for an array."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= ROWS_AT_A_TIME:
            yield _frame(waiting)
            waiting = []
    if sum(each.num_rows for each in waiting):
        yield _frame(waiting)


def _frame(batches: list[pa.RecordBatch]) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(pa.Table.from_batches(batches)))
