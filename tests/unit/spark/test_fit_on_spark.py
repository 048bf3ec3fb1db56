"""FBS on records that stay on Spark, against the same fits of records in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ibis.expr.types as ir
import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.chance import chance_of
from understudy.fitting.fit_settings import Settings
from understudy.fitting.placed_fitter import PlacedFitter
from understudy.fitting.placed_records import PlacedRecords

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

N = 1200
CODEBOOK = us.Codebook(
    {
        "group": us.Column("group", role="public", type="categorical", levels=("a", "b", "c")),
        "salary": us.Column("salary", role="sensitive", bounds=(100.0, 1e7)),
        "w": us.Column("w", role="weight", bounds=(0.1, 1e4)),
    },
    population_size=1e5,
)
DESIGN = us.Design(weight="w")
MODEL = us.FBS("salary", "group")


def records(seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, N)
    return pl.DataFrame(
        {
            "group": np.array(list("abc"))[group],
            "salary": np.exp(9 + 0.4 * group + 0.5 * rng.standard_normal(N)),
            "w": np.exp(rng.normal(4, 0.4, N)),
        }
    )


def in_memory(seed: int = 1) -> us.Survey:
    return us.Survey(records(seed), DESIGN, CODEBOOK)


@pytest.mark.slow  # the same passes under DuckDB: tests/unit/fitting/test_placed_fitter.py
def test_draws_are_those_of_records_in_memory(
    on_spark: Callable[[str, pl.DataFrame], ir.Table],
) -> None:
    """Moments, record bounds and weights, sums of clipped contributions, and sums for noise."""
    placed = us.Survey(on_spark("placed", records(1)), DESIGN, CODEBOOK)
    asked: dict[str, Any] = {"seed": 7, "draws": 800}
    for mechanism in (
        us.Weighted(),
        us.ReferenceCensored(6.0, in_memory(2), scale=0.2),
    ):
        ours = us.fit_in_place(placed, MODEL, mechanism, **asked)
        theirs = us.synthesize(in_memory(), MODEL, mechanism, **asked)
        assert ours.claim.epsilon == pytest.approx(theirs.claim.epsilon, rel=1e-9)
        for name, value in ours.draws[0].items():
            expected = theirs.output.draws()[0][name]
            np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-9)
    model = MODEL.for_survey(placed)
    sums = [
        PlacedFitter(PlacedRecords(model, survey), Settings(), chance_of(1)).cell_sums_within(None)
        for survey in (placed, in_memory())
    ]
    np.testing.assert_array_equal(sums[0].first, sums[1].first)
    np.testing.assert_array_equal(sums[0].second, sums[1].second)
