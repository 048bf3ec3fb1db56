"""Frames with types and names that databases do not have."""

from __future__ import annotations

import datetime

import pandas as pd
import polars as pl
import pytest

import understudy as us


def test_whole_numbers_of_128_bits_are_numbers() -> None:
    survey = us.Survey(pl.DataFrame({"z": pl.Series([1, 2, 6], dtype=pl.Int128)}))
    assert us.tabulate(survey, "mean(z)")["estimate"][0] == 3


@pytest.mark.parametrize(
    ("series", "says"),
    [
        (pl.Series("z", [2**70], dtype=pl.Int128), "beyond 64 bits"),
        (pl.Series("z", [object()], dtype=pl.Object), "Python objects"),
        (pl.Series("z", [datetime.timedelta(1)]), "durations"),
    ],
)
def test_types_that_no_database_has_are_refused(series: pl.Series, says: str) -> None:
    with pytest.raises(us.Refused, match=f"`z`.*{says}"):
        us.Survey(pl.DataFrame([series]))


def test_two_columns_of_one_name_are_refused() -> None:
    frame = pd.DataFrame([[1, 2]], columns=["y", "y"])
    with pytest.raises(us.Refused, match="Two columns are called `y`"):
        us.Survey(frame)
