"""Kept columns: unique and rare combinations, against a count by hand."""

from __future__ import annotations

import polars as pl

from understudy.risk.kept import kept_combinations
from understudy.survey.survey import Survey


def test_unique_and_rare_combinations_are_counted() -> None:
    frame = pl.DataFrame(
        {
            "sex": ["f", "f", "f", "m", "m", "m", None, "f"],
            "age": [1, 1, 1, 2, 2, 3, None, 9],
            "x": [0.5] * 8,
        }
    )
    combinations = kept_combinations(Survey(frame), ["sex", "age"])
    assert (combinations.records, combinations.combinations) == (8, 5)
    assert combinations.unique == 3  # (m, 3), (missing, missing), (f, 9)
    assert combinations.rare == 5  # and the two (m, 2)
    assert "3 of 8 records (37.5%) are alone" in str(combinations)
