"""The cross-tabulation on Spark equals the one on DuckDB, cell by cell."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey
from understudy.tables.cross_table import categories_of, cross_tabulate

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


def test_spark_counts_the_same_cells(on_spark):
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "age": rng.integers(3, 8, 400),
            "sex": rng.choice(["f", "m", "x"], 400),
            "odd": rng.choice([1, 7, 20], 400),
        }
    ).with_columns(sex=pl.when(pl.col("sex") != "x").then("sex"))
    columns = {
        "age": Column("age", type="categorical", levels=(3, 4, 5, 6, 7, 8)),
        "sex": Column("sex", type="categorical", levels=("m", "f")),
        "odd": Column("odd", type="categorical", levels=(1, 7, 20)),
    }
    clustered = Survey(on_spark("cells", frame), codebook=Codebook(columns))
    table = cross_tabulate(clustered, categories_of(clustered, frame.columns, "level"))
    local = Survey(frame, codebook=Codebook(columns))
    expected = cross_tabulate(local, categories_of(local, frame.columns, "level"))
    assert np.array_equal(table.codes, expected.codes)
    assert table.counts.tolist() == expected.counts.tolist()
    assert table.records()["sex"].null_count() == frame["sex"].null_count()
