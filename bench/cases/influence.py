"""Answers by influence: ten coefficients of a regression, clipped, rounded and summed exactly."""

from __future__ import annotations

from pathlib import Path

import ibis
import numpy as np
import polars as pl

import understudy as us
from bench.framework.case import Case, Side
from understudy.influence import influence_pass

PREDICTORS = 9


class Influence(Case):
    what = "ten coefficients verified by influence: the clipped exact sums"
    peers = {"duckdb": "plain sums of the same ten expressions"}
    sizes = (100_000, 300_000, 1_000_000)
    quick = (2_000, 4_000, 8_000)
    tiny = 500
    bars = {"duckdb": 2.0}
    most_growth = 1.1

    def sides(self, n: int, folder: Path) -> dict[str, Side]:  # noqa: ARG002
        design = us.Design(weight="w")
        formula = "y ~ " + " + ".join(f"x{j}" for j in range(PREDICTORS))
        plan = us.plan_influence(us.Survey(records(20_000, 2), design), formula, 1.0, delta=1e-6)
        backend = ibis.duckdb.connect()
        table = backend.create_table("records", records(n, 1).to_arrow())
        question, released = plan.prepared.questions[0], plan.prepared.released[0]
        plain = question.expressions(released, table, table["w"])
        rows = table.select(**{f"d{j}": value for j, value in enumerate(plain)})
        sums = rows.aggregate(**{f"s{j}": rows[f"d{j}"].sum() for j in range(len(plain))})
        both = [influence_pass(plan.prepared, table, table["w"], None), sums]
        ours, bare = (str(ibis.to_sql(query, dialect="duckdb")) for query in both)
        return {
            "ours": Side(lambda: backend.con.execute(ours).fetchall()),
            "duckdb": Side(lambda: backend.con.execute(bare).fetchall(), compared=False),
        }


def records(n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    columns = {f"x{j}": rng.normal(size=n) for j in range(PREDICTORS)}
    outcome = sum(columns.values()) + rng.normal(size=n)
    return pl.DataFrame({**columns, "y": outcome, "w": rng.gamma(2.0, 50.0, n)})
