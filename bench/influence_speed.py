"""Answers by influence: ten coefficients on 1,000,000 records, against the engine's plain sums.

    python bench/influence_speed.py [spark]

The pass (clipped, rounded, exact sums of ten influences) against plain sums of the same ten
expressions, unclipped, in the same engine: at most twice as long. The two take turns, and the
medians of their times are compared: processor time for DuckDB, by the clock for Spark, whose work
is done by another process.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ibis
import ibis.expr.types as ir
import numpy as np
import polars as pl

import understudy as us
from understudy.influence import InfluencePlan, influence_pass

RECORDS, PREDICTORS, REPEATS = 1_000_000, 9, 5


def frame(n: int, seed: int) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    columns = {f"x{j}": draw.normal(size=n) for j in range(PREDICTORS)}
    outcome = sum(columns.values()) + draw.normal(size=n)
    return pl.DataFrame({**columns, "y": outcome, "w": draw.gamma(2.0, 50.0, n)})


def seconds(
    run: Callable[[ir.Table], object], both: list[ir.Table], clock: Callable[[], float]
) -> list[float]:
    """The median times of expressions that take turns."""
    times: list[list[float]] = [[] for _ in both]
    for _ in range(REPEATS):
        for expression, kept in zip(both, times, strict=True):
            start = clock()
            run(expression)
            kept.append(clock() - start)
    return [statistics.median(kept) for kept in times]


def compared(table: ir.Table, plan: InfluencePlan) -> list[ir.Table]:
    """The pass, and the plain sums."""
    question, released = plan.prepared.questions[0], plan.prepared.released[0]
    plain = question.expressions(released, table, table["w"])
    rows = table.select(**{f"d{j}": value for j, value in enumerate(plain)})
    sums = rows.aggregate(**{f"s{j}": rows[f"d{j}"].sum() for j in range(len(plain))})
    return [influence_pass(plan.prepared, table, table["w"], None), sums]


def on_duckdb(plan: InfluencePlan) -> list[float]:
    backend = ibis.duckdb.connect()
    both = compared(backend.create_table("records", frame(RECORDS, 1).to_arrow()), plan)
    sql = {id(e): str(ibis.to_sql(e, dialect="duckdb")) for e in both}
    return seconds(lambda e: backend.con.execute(sql[id(e)]).fetchall(), both, time.process_time)


def on_spark(plan: InfluencePlan) -> list[float]:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = session.config("spark.driver.host", "127.0.0.1").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "records.parquet")
        frame(RECORDS, 1).write_parquet(path)
        records = spark.read.parquet(path).cache()
        records.createOrReplaceTempView("records")
        records.count()
        both = compared(ibis.pyspark.connect(spark).table("records"), plan)
        sql = {id(e): str(ibis.to_sql(e, dialect="pyspark")) for e in both}
        times = seconds(lambda e: spark.sql(sql[id(e)]).collect(), both, time.perf_counter)
        spark.stop()
    return times


def main() -> None:
    design = us.Design(weight="w")
    formula = "y ~ " + " + ".join(f"x{j}" for j in range(PREDICTORS))
    plan = us.plan_influence(us.Survey(frame(20_000, 2), design), formula, 1.0, delta=1e-6)
    name, run = ("Spark", on_spark) if "spark" in sys.argv[1:] else ("DuckDB", on_duckdb)
    ours, theirs = run(plan)
    print(
        f"{name}, {PREDICTORS + 1} coefficients, n = {RECORDS:,}: {1000 * ours:.0f} ms, plain sums "
        f"{1000 * theirs:.0f} ms: {ours / theirs:.2f} times (at most 2)"
    )
    if ours > 2 * theirs:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
