"""Records on Spark: its session, and the tables that it reads; they stay on its workers."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow.parquet as pq
from ibis.util import gen_name

from understudy.cluster import spark_frame
from understudy.errors import Refused
from understudy.survey.engine import scratch
from understudy.survey.engine_setting import Engine
from understudy.survey.formats.parquet_folder import named_columns, parquet_files, partition_types

NEEDED = (
    'Spark is not installed; install the extra: pip install "understudy[spark]", and Java 17 or '
    "newer."
)


def session(engine: Engine) -> Any:
    """The session that is active in this process, or a new one at the engine's master."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pyspark.sql import SparkSession
    except ImportError:
        raise Refused(NEEDED) from None
    logging.getLogger("py4j").setLevel(logging.ERROR)
    active = SparkSession.getActiveSession()
    if active is not None:
        _same_master(active, engine)
        return active
    builder = SparkSession.builder.appName("understudy").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if engine.master is not None:
        builder = builder.master(engine.master)
    if engine.master is not None and engine.master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        # what Spark spills is confidential: it belongs to the folder that is removed at the end
        builder = builder.config("spark.local.dir", str(scratch() / "spark"))
        builder = builder.config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    try:
        started = builder.getOrCreate()
    except Exception:  # Java and Py4J break in many ways
        raise Refused(
            f"Spark could not be started{_at(engine)}; check its address, and that Java 17 or "
            "newer is installed."
        ) from None
    started.sparkContext.setLogLevel("OFF")  # errors of a query quote values of records,
    logging.getLogger("SQLQueryContextLogger").disabled = True  # and so does this one
    atexit.register(started.stop)
    return started


def _at(engine: Engine) -> str:
    return "" if engine.master is None else f" at `{engine.master}`"


def _same_master(active: Any, engine: Engine) -> None:
    running = active.conf.get("spark.master", "")
    if engine.master is not None and running != engine.master:
        raise Refused(
            f"Spark already runs in this process at `{running}`; leave `master` out to use it."
        )


def parquet_on_spark(
    path: Path, engine: Engine, naming: Callable[[list[str]], list[str]]
) -> ir.Table:
    """A Parquet file, or a folder of them with the columns that its folders make."""
    running = session(engine)
    files = parquet_files(path) if path.is_dir() else [path]
    partitions = partition_types(path, files) if path.is_dir() else {}
    sources = [path] if partitions else files
    inferred = "spark.sql.sources.partitionColumnTypeInference.enabled"
    before = running.conf.get(inferred)
    running.conf.set(inferred, "false")
    try:
        reader = running.read.option("mergeSchema", "true")
        frame = reader.parquet(*(source.resolve().as_uri() for source in sources))
    except Exception:  # a damaged file can break any step of two libraries
        raise Refused(
            f"Spark cannot read `{path.name}`: a file is damaged, has a column of another type "
            "than the others, or cannot be reached by the workers."
        ) from None
    finally:
        running.conf.set(inferred, before)
    table = _table(running, frame)
    typed = {name: kind for name, kind in partitions.items() if kind != "string"}
    table = table.mutate(**{name: table[name].cast(kind) for name, kind in typed.items()})
    if partitions:  # in DuckDB's order: those that the files lack come last, by their names
        last = sorted(set(partitions) - set(pq.read_schema(files[0]).names))
        table = table.select([name for name in table.columns if name not in last] + last)
    return named_columns(table, naming)


def write_folder(table: ir.Table, folder: Path) -> None:
    """The records of a table as a folder of Parquet files, by the workers; each file appears when
    it is complete."""
    try:
        spark_frame(table).write.parquet(folder.resolve().as_uri())
    except Exception:  # Java and Py4J break in many ways
        raise Refused(
            f"Spark cannot write `{folder.name}`; check that its workers reach the folder."
        ) from None


def catalogue_table(
    name: str, engine: Engine, naming: Callable[[list[str]], list[str]]
) -> ir.Table:
    """A table of Spark's catalogue: `people`, or `surveys.people`."""
    running = session(engine)
    try:
        known = running.catalog.tableExists(name)
    except Exception:  # a name that Spark cannot read
        known = False
    if not known:
        raise Refused(f"Spark's catalogue has no table `{name}`; check its name and database.")
    return named_columns(_table(running, running.table(name)), naming)


def _table(running: Any, frame: Any) -> ir.Table:
    """Spark's frame as an Ibis table; unsigned and short numbers are whole numbers like others."""
    name = gen_name("understudy")
    frame.createOrReplaceTempView(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ibis.pyspark.connect(running).table(name)
