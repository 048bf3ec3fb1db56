"""Contrasts: records without a level belong to no cell."""

from __future__ import annotations

import polars as pl
import pytest
import scipy.stats

import understudy as us

FRAME = pl.DataFrame(
    {
        "g": ["a", "b", None, "a", "b", None, "a", "b", "b"],
        "y": [1.0, 7.0, 100.0, 2.0, 4.0, -50.0, 6.0, 9.0, 5.0],
    }
)


def test_records_without_a_level_are_in_no_mean() -> None:
    groups = [FRAME.filter(pl.col("g") == level)["y"].to_list() for level in ("a", "b")]
    (row,) = us.contrast(us.Survey(FRAME), "mean(y)", "g").rows(named=True)
    difference = sum(groups[1]) / 4 - sum(groups[0]) / 3
    assert abs(row["estimate"]) == pytest.approx(difference)
    alone = us.contrast(us.Survey(FRAME), "mean(y)", "g", {"a": {"a": 1}, "b": {"b": 1}})
    assert alone["estimate"].to_list() == pytest.approx([3.0, 6.25])
    # a domain's mean has the linearised error sqrt(n/(n - 1) sum (y - mean)^2)/n_d
    for group, se in zip(groups, alone["se"], strict=True):
        squares = len(group) * scipy.stats.moment(group, 2)
        assert se == pytest.approx((9 / 8 * squares) ** 0.5 / len(group))
