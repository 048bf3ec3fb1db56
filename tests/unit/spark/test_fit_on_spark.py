"""FBS on records that stay on Spark, against the same fits of records in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import numpy as np
import polars as pl
import pytest
from killed_worker import killing_once

import understudy as us
from understudy.chance import chance_of
from understudy.cluster import spark_frame
from understudy.errors import Refused
from understudy.fitting.fit_settings import Settings
from understudy.fitting.placed_fitter import PlacedFitter
from understudy.fitting.placed_records import PlacedRecords
from understudy.mechanisms.outputs.outcome_draws import ParameterDraws
from understudy.publication import outcome_ground
from understudy.survey import partition_work
from understudy.survey.rows_here import rows_here

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

N = 1200
TOTALS = {"a": 2e4, "b": 3e4, "c": 5e4}
CODEBOOK = us.Codebook(
    {
        "group": us.Column("group", role="public", type="categorical", levels=("a", "b", "c")),
        "salary": us.Column("salary", role="sensitive", bounds=(100.0, 1e7)),
        "w": us.Column("w", role="weight", bounds=(0.1, 1e4)),
    },
    population_by={"group": TOTALS},
)
DESIGN = us.Design(weight="w", strata="group")
MODEL = us.FBS("salary", "group")
DRAW = {
    "coefficients": np.array([[9.0, 0.0], [0.4, 0.1], [0.8, 0.0]]),
    "scale": np.array([0.5, 0.4]),
    "correlation": np.eye(2),
}


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


def test_files_are_made_and_written_by_the_workers(
    on_spark: Callable[[str, pl.DataFrame], ir.Table], tmp_path: Path
) -> None:
    """The law of the file that is made here of the same draw; here come its public rows alone."""
    whole, chance = in_memory(), chance_of(b"sixteen bytes or more")
    ground = outcome_ground(whole, whole, MODEL.for_survey(whole), look_inside=False)
    output = ParameterDraws((DRAW,))
    there = on_spark("in_parts", records(1)).select("group")
    (file,) = output.datasets(replace(ground, public=there), chance)
    assert file.on_cluster
    us.write_survey(file, tmp_path / "file")
    assert len(list((tmp_path / "file").glob("part-*.parquet"))) > 1
    written = us.read_survey(tmp_path / "file")
    assert written.columns == whole.columns
    assert written.codebook["salary"].bounds == (100.0, 1e7)
    public = rows_here(there)
    assert public.to_polars()["group"].to_list() == sorted(records(1)["group"])
    (here,) = output.datasets(replace(ground, public=public), chance)
    ours, expected = law_of(written.frame()), law_of(here.frame())
    assert ours["records"].equals(expected["records"])
    for name in ("sum", "mean", "spread"):
        np.testing.assert_allclose(ours[name], expected[name], rtol=0.02)
    assert ours["sum"].to_list() == pytest.approx(list(TOTALS.values()))
    with pytest.raises(Refused, match="exists"):
        us.write_survey(file, tmp_path / "file")


def test_a_worker_that_is_killed_while_it_makes_a_file_changes_nothing(
    on_spark: Callable[[str, pl.DataFrame], ir.Table],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once in the middle of a block, and once when all blocks are made: what the worker kept is
    made again as it was. Every public row is in the file once, the law is the draw's, and weights
    meet their totals, which rest on sums of the records from before."""
    whole, chance = in_memory(), chance_of(b"sixteen bytes or more")
    ground = outcome_ground(whole, whole, MODEL.for_survey(whole), look_inside=False)
    there = on_spark("in_killed_parts", records(1)).select("group")
    output, make = ParameterDraws((DRAW,)), partition_work._made_of_blocks
    marks = [tmp_path / "in the middle", tmp_path / "afterwards"]
    in_the_middle, afterwards = map(killing_once, marks)

    def killing(*asked: Any) -> Any:
        made = make(*asked)
        some = next(made)
        yield some.slice(0, 100)
        in_the_middle()
        yield some.slice(100)
        yield from made

    def killed(batches: Any) -> Any:
        afterwards()
        yield from batches

    monkeypatch.setattr(partition_work, "_made_of_blocks", killing)
    (file,) = output.datasets(replace(ground, public=there), chance)
    ours = file.frame().sort(file.columns)
    session = spark_frame(there).sparkSession
    session.range(2).mapInArrow(killed, "id long").collect()
    assert all(mark.exists() for mark in marks)
    assert file.frame().sort(file.columns).equals(ours)
    (here,) = output.datasets(replace(ground, public=rows_here(there)), chance)
    laws = law_of(ours), law_of(here.frame())
    assert laws[0]["records"].equals(laws[1]["records"])
    for name in ("sum", "mean", "spread"):
        np.testing.assert_allclose(laws[0][name], laws[1][name], rtol=0.02)
    assert laws[0]["sum"].to_list() == pytest.approx(list(TOTALS.values()))


def law_of(frame: pl.DataFrame) -> pl.DataFrame:
    """Of each group; deviates are balanced, so that means and spreads are nearly the model's."""
    log = pl.col("salary").log()
    return (
        frame.group_by("group")
        .agg(pl.len().alias("records"), pl.col("w").sum().alias("sum"),
             log.mean().alias("mean"), log.std().alias("spread"))
        .sort("group")
    )  # fmt: skip


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
