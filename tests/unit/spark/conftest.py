"""One Spark session for all its tests: a JVM takes longer to start than they take to run."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator

import ibis
import ibis.expr.types as ir
import polars as pl
import pytest

OnSpark = Callable[[str, pl.DataFrame], ir.Table]


@pytest.fixture(scope="session")
def on_spark() -> Iterator[OnSpark]:
    """Gives a function that makes a table of a session on this machine."""
    pytest.importorskip("pyspark", reason="the spark extra is not installed")
    if shutil.which("java") is None:
        reason = "Spark needs Java: run scripts/test-components"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of the workers
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        session = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            # code that runs for seconds is not worth optimising: two thirds of the time
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .getOrCreate()
        )
        backend = ibis.pyspark.connect(session)

        def table_of(name: str, frame: pl.DataFrame) -> ir.Table:
            session.createDataFrame(frame.to_pandas()).createOrReplaceTempView(name)
            return backend.table(name)

        yield table_of
        session.stop()
