"""Answers by influence: ten coefficients on 1,000,000 records, against DuckDB's plain sums.

    python bench/influence_speed.py

The pass (clipped, rounded, exact sums of ten influences) against plain sums of the same ten
expressions, unclipped, in the same engine: at most twice as long.
"""

from __future__ import annotations

import statistics
import time

import ibis
import numpy as np
import polars as pl

import understudy as us
from understudy.influence import influence_pass

RECORDS, PREDICTORS, REPEATS = 1_000_000, 9, 7


def frame(n: int, seed: int) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    columns = {f"x{j}": draw.normal(size=n) for j in range(PREDICTORS)}
    outcome = sum(columns.values()) + draw.normal(size=n)
    return pl.DataFrame({**columns, "y": outcome, "w": draw.gamma(2.0, 50.0, n)})


def seconds(expression: ibis.expr.types.Table) -> float:
    sql = str(ibis.to_sql(expression, dialect="duckdb"))
    connection = expression._find_backend().con
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        connection.execute(sql).fetchall()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    design = us.Design(weight="w")
    formula = "y ~ " + " + ".join(f"x{j}" for j in range(PREDICTORS))
    plan = us.plan_influence(us.Survey(frame(20_000, 2), design), formula, 1.0, delta=1e-6)
    table = ibis.duckdb.connect().create_table("records", frame(RECORDS, 1).to_arrow())
    weight = table["w"]
    question, released = plan.prepared.questions[0], plan.prepared.released[0]
    plain = question.expressions(released, table, weight)
    rows = table.select(**{f"d{j}": value for j, value in enumerate(plain)})
    sums = rows.aggregate(**{f"s{j}": rows[f"d{j}"].sum() for j in range(len(plain))})
    ours = seconds(influence_pass(plan.prepared, table, weight, None))
    theirs = seconds(sums)
    print(
        f"{len(plain)} coefficients, n = {RECORDS:,}: {1000 * ours:.0f} ms, plain sums "
        f"{1000 * theirs:.0f} ms: {ours / theirs:.2f} times (at most 2)"
    )
    if ours > 2 * theirs:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
