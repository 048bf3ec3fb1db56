"""Whole files whose records Spark's workers make: those of a file that is made here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from killed_worker import executors, killing_once
from people_in_folders import BOOK, people

import understudy as us
from understudy.cluster import spark_frame
from understudy.mechanisms.outputs import cell_draws
from understudy.mechanisms.whole_file import records
from understudy.survey import partition_work

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

OnSpark = Callable[[str, pl.DataFrame], ir.Table]
COLUMNS = ("sex", "age", "income", "h", "w")
DESIGN = us.Design("w", "h")
RULES = ("age > 0 and age < w",)
CODEBOOK = replace(BOOK.only(list(COLUMNS)), impossible=RULES)


@pytest.mark.parametrize(
    "totals",  # with them there are passes for sums by level: as test_files_there.py has them
    [{}, pytest.param({"h": {1: 10e3, 2: 10e3, 3: 11e3}}, marks=pytest.mark.slow)],
)
def test_workers_make_the_records_of_a_file_that_is_made_here(
    totals: dict[str, dict[Any, float]],
    on_spark: OnSpark,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Record for record, from blocks with chance of their own; weights but for the order of sums.
    Without noise, which has no seed."""
    monkeypatch.setattr(records, "BLOCK", 700)
    frame, book = people().select(COLUMNS), replace(CODEBOOK, population_by=totals)
    here, there = (
        us.synthesize(us.Survey(each, DESIGN, book), us.WholeFile(), us.Unweighted(), seed=5)
        for each in (frame, on_spark("whole", frame))
    )
    (ours,), (expected,) = there.datasets, here.datasets
    assert ours.on_cluster
    assert there.claim == here.claim
    assert (ours.design, ours.codebook) == (expected.design, expected.codebook)
    us.write_survey(ours, tmp_path / "file")
    assert len(list((tmp_path / "file").glob("part-*.parquet"))) == 3
    written = us.read_survey(tmp_path / "file").raw.to_polars()
    made = expected.raw.to_polars()
    weights = ["w", "w_smoothed"]
    assert written.drop(weights).equals(made.drop(weights))
    for name in weights:
        np.testing.assert_allclose(written[name], made[name], rtol=1e-9)
    tables = [us.tabulate(each, ["count", "mean(income)"], "sex") for each in (ours, expected)]
    for name in ("estimate", "se"):
        np.testing.assert_allclose(tables[0][name], tables[1][name], rtol=1e-9)


def test_a_worker_that_is_killed_while_it_makes_a_file_changes_nothing(
    on_spark: OnSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three blocks the first two are made, each by a worker; the one that makes the third hands
    on some of its records and is killed, with the block that it kept. The files that are written
    have every record of a file that is made here, once."""
    monkeypatch.setattr(records, "BLOCK", 700)
    frame, asked = people().select(COLUMNS), (us.WholeFile(), us.Unweighted())
    expected = us.synthesize(us.Survey(frame, DESIGN, CODEBOOK), *asked, seed=5).datasets[0]
    there = on_spark("killed", frame)
    session, kill = spark_frame(there).sparkSession, killing_once(tmp_path / "killed")
    make = partition_work._made_of_numbers

    def killing(work: Any, schema: Any, batches: Iterator[pa.RecordBatch]) -> Any:
        for batch in batches:
            made = make(work, schema, iter([batch]))
            if 2 in batch.column(0).to_pylist():
                some = next(made)
                yield some.slice(0, 100)
                kill()
                yield some.slice(100)
            yield from made

    monkeypatch.setattr(partition_work, "_made_of_numbers", killing)
    running = executors(session)
    ours = us.synthesize(us.Survey(there, DESIGN, CODEBOOK), *asked, seed=5).datasets[0]
    us.write_survey(ours, tmp_path / "file")
    assert (tmp_path / "killed").exists()
    assert running - executors(session)
    written, made = (s.raw.to_polars() for s in (us.read_survey(tmp_path / "file"), expected))
    weights = ["w", "w_smoothed"]
    assert written.drop(weights).equals(made.drop(weights))
    for name in weights:
        np.testing.assert_allclose(written[name], made[name], rtol=1e-9)


def test_workers_make_the_records_of_tables_of_cells(
    on_spark: OnSpark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a cell's records are made in several parts."""
    monkeypatch.setattr(cell_draws, "BLOCK", 90)
    frame = people(300).select("h", "sex")
    asked: tuple[Any, ...] = (us.Multinomial(["h", "sex"], missing="level"), us.Unweighted())
    here, there = (
        us.synthesize(us.Survey(each, codebook=BOOK.only(["h", "sex"])), *asked, seed=5)
        for each in (frame, on_spark("rows", frame))
    )
    (ours,), (expected,) = there.datasets, here.datasets
    assert ours.on_cluster
    assert ours.codebook == expected.codebook
    assert ours.frame().equals(expected.frame())
