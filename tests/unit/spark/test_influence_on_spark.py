"""The one pass of an answer by influence on Spark: the same whole numbers as on DuckDB."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from influence_samples import people, survey

from understudy.influence import influence_pass, plan_influence
from understudy.survey.survey import as_ibis
from understudy.tables.influence.unit_sums import steps_of

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

QUESTIONS: tuple[tuple[Any, dict[str, Any], str | None], ...] = (
    ("y ~ x + g", {"delta": 1e-6}, None),
    (["mean(x)", "quantile(r, 0.5)", "total(y)"], {"where": 'g in ("a", "b")'}, "u"),
    ("count", {"by": "g"}, "u"),
)


def test_sums_agree_with_duckdb_to_the_last_step(on_spark: Any) -> None:
    released = [survey(people(300, 11)), survey(people(300, 12))]
    odd = pl.Series([np.nan, np.inf, -np.inf, 1e308])
    frame = people(200, 13)
    frame = frame.with_columns(x=pl.concat([odd, frame["x"][4:]]))
    engines = (as_ibis(frame), on_spark("influenced", frame))
    for statistics, settings, unit in QUESTIONS:
        plan = plan_influence(released, statistics, 1.0, units=200, unit=unit, **settings)
        sums = []
        for table in engines:
            weight = table["w"].cast("float64")
            row = influence_pass(plan.prepared, table, weight, unit).to_pyarrow().to_pylist()[0]
            sums.append(steps_of(row, len(plan.prepared.estimates)))
        np.testing.assert_array_equal(sums[0], sums[1])
        assert np.abs(sums[0]).min() > 0
