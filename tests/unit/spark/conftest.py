"""One Spark session for all its tests: a cluster of two workers on this machine, each a process of
its own. Java takes longer to start than the tests take to run."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import polars as pl
import pytest

from understudy.survey.engine_setting import Engine

OnSpark = Callable[[str, pl.DataFrame], ir.Table]

MASTER = "local-cluster[2,1,1024]"
# code that runs for seconds is not worth optimising: two thirds of the time
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pytest.importorskip("pyspark", reason="the spark extra is not installed")
    if shutil.which("java") is None:
        reason = "Spark needs Java: run scripts/test-components"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setenv("SPARK_HOME", str(own_home(tmp_path_factory.mktemp("spark"))))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        from pyspark.sql import SparkSession

        session = (
            SparkSession.builder.master(MASTER)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.default.parallelism", "2")
            .config("spark.executor.memory", "512m")
            .config("spark.driver.extraJavaOptions", JAVA)
            .config("spark.executor.extraJavaOptions", JAVA)
            .config("spark.sql.codegen.wholeStage", "false")
            .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


def own_home(folder: Path) -> Path:
    """Spark's files under another folder, because workers write beside them."""
    import pyspark

    for entry in Path(pyspark.__file__).parent.iterdir():
        (folder / entry.name).symlink_to(entry)
    return folder


@pytest.fixture(scope="session")
def on_spark(spark_session: Any) -> OnSpark:
    """A function that makes a table of the session."""
    backend = ibis.pyspark.connect(spark_session)

    def table_of(name: str, frame: pl.DataFrame) -> ir.Table:
        spark_session.createDataFrame(frame.to_pandas()).createOrReplaceTempView(name)
        return backend.table(name)

    return table_of


@pytest.fixture(scope="session")
def spark_engine(spark_session: Any) -> Engine:  # noqa: ARG001
    """The session as the setting of an engine that finds it."""
    return Engine("spark")
