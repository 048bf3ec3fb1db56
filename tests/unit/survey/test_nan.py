"""NaN is a missing value, whichever library or file brings it: never a level, never large."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ibis
import polars as pl
import pytest

from understudy.errors import Refused
from understudy.survey.design import Design
from understudy.survey.read import read_survey
from understudy.survey.survey import Survey
from understudy.tables.tabulate import tabulate

NAN = float("nan")
WITH_NAN = pl.DataFrame(
    {
        "y": [NAN, NAN, NAN, NAN, NAN, NAN, 10.0, 21.0, 22.0, 23.0],
        "group": [1.0, 1.0, 2.0, NAN, NAN, 2.0, 1.0, 1.0, 2.0, 2.0],
        "w": [2.0] * 10,
    }
)
WITH_NULL = WITH_NAN.fill_nan(None)

Source = Callable[[pl.DataFrame, Path], Any]


def from_parquet(frame: pl.DataFrame, folder: Path) -> Any:
    frame.write_parquet(folder / "survey.parquet")
    return read_survey(folder / "survey.parquet").raw


SOURCES: dict[str, Source] = {
    "polars": lambda frame, _: frame,
    "pandas": lambda frame, _: frame.to_pandas(),
    "arrow": lambda frame, _: frame.to_arrow(),
    "ibis": lambda frame, _: ibis.memtable(frame),
    "parquet": from_parquet,
}


@pytest.fixture(params=list(SOURCES))
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[pl.DataFrame], Any]:
    return lambda frame: SOURCES[request.param](frame, tmp_path)


def test_a_domain_does_not_hold_nan(source: Callable[[pl.DataFrame], Any]) -> None:
    survey = Survey(source(WITH_NAN), Design(weight="w"))
    table = tabulate(survey, ["count", "mean(y)"], where="y > 20")
    assert table["estimate"].to_list() == [6.0, 22.0]


def test_nan_is_the_same_cell_as_null(source: Callable[[pl.DataFrame], Any]) -> None:
    with_nan = Survey(source(WITH_NAN), Design(weight="w"))
    with_null = Survey(WITH_NULL, Design(weight="w"))
    for margins in (False, True):
        table, expected = (
            tabulate(s, ["count", "mean(y)"], by="group", margins=margins)
            for s in (with_nan, with_null)
        )
        assert table.equals(expected)
    assert table.filter(pl.col("group") == "Missing")["estimate"].to_list()[0] == 4.0


@pytest.mark.parametrize("part", ["strata", "psu"])
def test_design_columns_with_nan_are_treated_as_with_null(
    source: Callable[[pl.DataFrame], Any], part: str
) -> None:
    outcomes = []
    for data in (source(WITH_NAN), WITH_NULL):
        try:
            design = Design(weight="w", **{part: "group"})
            outcomes.append(tabulate(Survey(data, design), "total(y)").rows())
        except Refused as refused:
            outcomes.append(str(refused))
    assert outcomes[0] == outcomes[1]
    assert isinstance(outcomes[0], str), "a record without a stratum or PSU is refused"
