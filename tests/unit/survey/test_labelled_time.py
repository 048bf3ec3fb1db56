"""Stata and SPSS files: the same survey gives the same bytes, whenever it is written."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pandas.io.stata import StataReader

import understudy as us
from understudy.survey.labelled import header_time as labelled_time
from understudy.survey.labelled import write as labelled_write

SURVEY = us.Survey(pl.DataFrame({"a": [1.5, 2.5], "b": ["x", "y"]}))


@pytest.mark.parametrize("kind", ["dta", "sav"])
def test_the_clock_is_not_in_the_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    us.write_survey(SURVEY, tmp_path / f"one.{kind}")
    monkeypatch.setattr(labelled_write, "without_time", lambda _: None)
    us.write_survey(SURVEY, tmp_path / f"two.{kind}")
    plain = (tmp_path / f"two.{kind}").read_bytes()
    assert (tmp_path / f"one.{kind}").read_bytes() != plain
    labelled_time.without_time(tmp_path / f"two.{kind}")
    assert (tmp_path / f"two.{kind}").read_bytes() == (tmp_path / f"one.{kind}").read_bytes()
    read = us.read_survey(tmp_path / f"one.{kind}").frame()
    assert read["a"].to_list() == [1.5, 2.5]
    if kind == "dta":
        with StataReader(tmp_path / "one.dta") as file:
            assert file.time_stamp == "01 Jan 1980 00:00"
