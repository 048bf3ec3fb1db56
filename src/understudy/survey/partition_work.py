"""Work on records where they are: part by part on disk (DuckDB), or on the workers of Spark.

`in_partitions` gives a table back, which stays where it is; `gathered` gives small arrays, such as
sums. Neither brings a column of records here: on one machine a part is in memory while it is
worked on, on Spark never.
Spark's workers need this package, and `PYSPARK_PYTHON` names the interpreter that has it.
"""

from __future__ import annotations

import pickle
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
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
ROWS_OF_A_BATCH = 50_000  # that a worker hands back at once

Work = Callable[[pl.DataFrame], pl.DataFrame]
BlockWork = Callable[[pl.DataFrame, str], pl.DataFrame]
PartWork = Callable[[int], pl.DataFrame]
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


def in_pieces(
    table: ir.Table, spread: Work, marks: Mapping[str, pl.DataType], work: Work, schema: ibis.Schema
) -> ir.Table:
    """What `work` makes of each piece by itself, a table with this schema. `spread` gives records
    as often as there are pieces that need them, with the columns `marks`, first the piece."""
    piece = next(iter(marks))
    if on_cluster(table):
        from ibis.backends.pyspark.datatypes import PySparkSchema

        own = pl.Schema({**table.schema().to_polars(), **marks})
        records = frame_by_frame(spark_frame(table), spread, own)
        together = records.repartition(piece).sortWithinPartitions(piece)
        each = partial(_worked_by_piece, piece, work, schema)
        return viewed(together.mapInArrow(each, PySparkSchema.from_ibis(schema)), table)
    waiting, made = (new_scratch_file("") for _ in range(2))
    made.mkdir()
    for number, frame in enumerate(_batched(table)):
        for part in spread(frame).partition_by(piece):
            folder = waiting / str(part[piece][0])
            folder.mkdir(parents=True, exist_ok=True)
            part.write_parquet(folder / f"{number}.parquet")
    for folder in waiting.iterdir():
        done = work(pl.read_parquet(folder)).select(schema.names)
        done.write_parquet(made / f"{folder.name}.parquet")
    return connection().read_parquet([literal_path(path) for path in made.iterdir()]).cast(schema)


def gathered(table: ir.Table, work: Gathering) -> list[list[NDArray[Any]]]:
    """The few arrays that `work` makes of some records at a time, for all records: their sums,
    say. What they are together is for the caller to say."""
    if on_cluster(table):
        rows = spark_frame(table).mapInArrow(partial(_pickled, work), "made binary").collect()
        return [pickle.loads(bytes(row["made"])) for row in rows]
    return [work(frame) for frame in _batched(table)]


def _batched(table: ir.Table) -> Iterator[pl.DataFrame]:
    """The records of a table that is here, so many at a time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of DuckDB, in what Ibis calls
        yield from _frames(table.to_pyarrow_batches(chunk_size=ROWS_AT_A_TIME))


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

    records = spark_frame(table).orderBy(*table.columns)
    made = partial(_made_of_blocks, work, schema, rows)
    return kept_there(records.mapInArrow(made, PySparkSchema.from_ibis(schema)))


def part_by_part(like: ir.Table, parts: int, work: PartWork, schema: pl.Schema) -> Any:
    """Spark's frame of what the workers make of the numbers from 0 on, beside another table: each
    is a partition by itself."""
    numbers = spark_frame(like).sparkSession.range(0, parts, 1, parts)
    return _mapped(numbers, _made_of_numbers, work, schema)


def frame_by_frame(frame: Any, work: Work, schema: pl.Schema) -> Any:
    """Spark's frame of what the workers make of another one's rows, some at a time."""
    return _mapped(frame, _made_of_frames, work, schema)


def kept_there(frame: Any) -> Any:
    """Spark's frame, which its workers keep once it is made, in memory or on their disks."""
    from pyspark import StorageLevel

    return frame.persist(StorageLevel.MEMORY_AND_DISK)


def kept_as_long(owner: Any, frame: Any) -> None:
    """The workers let go of a frame when nobody has its owner any more."""
    weakref.finalize(owner, _let_go, frame).atexit = False


def _let_go(frame: Any) -> None:
    with suppress(Exception):  # the session may have ended before
        frame.unpersist()


def _mapped(frame: Any, made: Callable[..., Any], work: Any, schema: pl.Schema) -> Any:
    from ibis.backends.pyspark.datatypes import PySparkSchema

    typed = ibis.Schema.from_polars(schema)
    return frame.mapInArrow(partial(made, work, typed), PySparkSchema.from_ibis(typed))


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


def _made_of_numbers(
    work: PartWork, schema: ibis.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On a worker: a part from each number."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from _in_batches(work(number), schema)


def _made_of_frames(
    work: Work, schema: ibis.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On a worker: its part, some rows at a time."""
    for frame in _frames(batches):
        yield from _in_batches(work(frame), schema)


def _worked_by_piece(
    piece: str, work: Work, schema: ibis.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On a worker: its part, which is sorted by pieces, one of them after the other."""
    waiting: list[pl.DataFrame] = []
    for batch in batches:
        for part in _frame([batch]).partition_by(piece, maintain_order=True):
            if waiting and waiting[0][piece][0] != part[piece][0]:
                yield from _in_batches(work(pl.concat(waiting)), schema)
                waiting = []
            waiting.append(part)
    if waiting:
        yield from _in_batches(work(pl.concat(waiting)), schema)


def _in_batches(made: pl.DataFrame, schema: ibis.Schema) -> list[pa.RecordBatch]:
    table = made.select(list(schema.names)).to_arrow().cast(schema.to_pyarrow())
    return list(table.to_batches(max_chunksize=ROWS_OF_A_BATCH))


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
