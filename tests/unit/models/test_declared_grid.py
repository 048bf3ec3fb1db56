"""A survey of declarations alone: every combination once, or every level often enough."""

from __future__ import annotations

from itertools import product

import polars as pl
import pytest

from understudy.errors import Refused
from understudy.models import declared_grid as grid_file
from understudy.models.declared_grid import declared_grid
from understudy.survey.codebook import Codebook, Column

BOOK = Codebook(
    {
        "sex": Column("sex", "public", "categorical", levels=("f", "m")),
        "age": Column("age", "public", "integer", levels=(20, 30, 40)),
        "drafted": Column("drafted", levels=(1, 2), drafted=frozenset({"levels"})),
        "pay": Column("pay", "sensitive", bounds=(2.0, 5.0)),
        "job": Column("job", "sensitive", "categorical", levels=("x", "y")),
    }
)


def test_every_combination_of_levels_once() -> None:
    survey = declared_grid(BOOK, ["sex", "age"], ["pay", "job"])
    frame = survey.frame()
    assert sorted(frame.select("sex", "age").rows()) == sorted(product("fm", (20, 30, 40)))
    assert frame["pay"].to_list() == [3.5] * 6
    assert frame["job"].to_list() == ["x"] * 6
    assert set(survey.codebook.columns) == {"sex", "age", "pay", "job"}


def test_without_predictors_there_is_one_row() -> None:
    assert declared_grid(BOOK, [], ["pay"]).frame().rows() == [(3.5,)]


def test_too_many_combinations_leave_every_level_as_often_as_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grid_file, "MOST_ROWS", 5)
    frame = declared_grid(BOOK, ["sex", "age"], ["pay"]).frame()
    assert frame.height == 5
    assert sorted(frame["sex"].value_counts()["count"]) == [2, 3]
    assert sorted(frame["age"].value_counts()["count"]) == [1, 2, 2]
    again = declared_grid(BOOK, ["sex", "age"], ["pay"]).frame()
    assert frame.equals(again)
    monkeypatch.setattr(grid_file, "MOST_ROWS", 6)
    full = declared_grid(BOOK, ["sex", "age"], ["pay"]).frame()
    assert full.select("sex", "age").n_unique() == 6
    monkeypatch.setattr(grid_file, "MOST_ROWS", 1)
    few = declared_grid(BOOK, ["sex", "age"], ["pay"]).frame()
    assert sorted(few["age"]) == [20, 30, 40]
    assert few.schema["age"] == pl.Int64


def test_drafted_levels_are_refused() -> None:
    with pytest.raises(Refused, match=r"rest on `drafted\.levels`"):
        declared_grid(BOOK, ["sex", "drafted"], ["pay"])
