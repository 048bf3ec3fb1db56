"""Comparisons by hand, and through the design by another road than `tabulate`."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from understudy.errors import Refused
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.utility.estimates import compare


def survey(salary, weights, group):
    frame = pl.DataFrame({"salary": salary, "w": weights, "group": group})
    return Survey(frame, Design(weight="w"))


@pytest.fixture
def confidential():
    return survey([10.0, 20.0, 30.0, 60.0], [1.0, 1.0, 2.0, 4.0], ["a", "a", "b", "b"])


@pytest.fixture
def synthetic():
    return [
        survey([12.0, 20.0, 30.0, 50.0], [1.0, 1.0, 2.0, 4.0], ["a", "a", "b", "b"]),
        survey([10.0, 24.0, 36.0, 50.0], [1.0, 3.0, 2.0, 2.0], ["a", "a", "b", "b"]),
    ]


def test_weighted_means_of_surveys(confidential, synthetic):
    row = compare(confidential, synthetic, ["mean(salary)"]).row(0, named=True)
    original = np.average([10, 20, 30, 60], weights=[1, 1, 2, 4])
    made = np.mean(
        [
            np.average([12, 20, 30, 50], weights=[1, 1, 2, 4]),
            np.average([10, 24, 36, 50], weights=[1, 3, 2, 2]),
        ]
    )
    assert row["confidential"] == pytest.approx(original)
    assert row["synthetic"] == pytest.approx(made)
    assert row["difference"] == pytest.approx(made - original)
    assert row["ratio"] == pytest.approx(made / original)


def test_cells_are_matched_by_their_levels(confidential, synthetic):
    table = compare(confidential, synthetic[::-1], ["count", "mean(salary)"], by=["group"])
    assert table.columns == [
        "group",
        "statistic",
        "confidential",
        "synthetic",
        "difference",
        "ratio",
    ]
    cell = table.filter((pl.col("group") == "b") & (pl.col("statistic") == "mean(salary)"))
    assert cell["confidential"].item() == pytest.approx((30 * 2 + 60 * 4) / 6)
    assert cell["synthetic"].item() == pytest.approx(((60 + 200) / 6 + 86 / 2) / 2)


def test_a_cell_that_a_synthetic_set_lacks_is_null(confidential, synthetic):
    lacking = survey([12.0, 20.0], [1.0, 1.0], ["a", "a"])
    table = compare(confidential, [synthetic[0], lacking], ["mean(salary)"], by="group")
    assert table.filter(pl.col("group") == "b")["synthetic"].item() is None
    assert table.filter(pl.col("group") == "a")["synthetic"].item() == pytest.approx(16.0)


def test_the_cell_of_missing_levels_is_compared_too():
    ours = survey([10.0, 20.0, 30.0], [1.0, 1.0, 2.0], ["a", None, None])
    made = survey([12.0, 20.0, 50.0], [1.0, 1.0, 1.0], ["a", None, None])
    table = compare(ours, made, ["mean(salary)"], by="group")
    cell = table.filter(pl.col("group").is_null())
    assert cell["confidential"].item() == pytest.approx((20 + 2 * 30) / 3)
    assert cell["synthetic"].item() == pytest.approx(35.0)


def test_one_synthetic_survey_needs_no_list(confidential, synthetic):
    alone = compare(confidential, synthetic[0], "quantile(salary, 0.5)")
    assert alone.equals(compare(confidential, [synthetic[0]], ["quantile(salary, 0.5)"]))
    assert alone["statistic"].to_list() == ["quantile(salary, 0.5)"]


def test_arrays_get_the_four_statistics_of_the_paper():
    confidential = np.arange(101.0)
    table = compare(confidential, [confidential + 1, confidential + 3])
    assert table["statistic"].to_list() == ["mean", "median", "quantile 0.15", "quantile 0.9"]
    assert table["confidential"].to_list() == pytest.approx([50.0, 50.0, 15.0, 90.0])
    assert table["difference"].to_list() == pytest.approx([2.0] * 4)
    assert table["ratio"][2] == pytest.approx(17 / 15)


def test_given_statistics_of_one_array():
    table = compare([1.0, 2.0, 6.0], [2.0, 2.0, 2.0], {"largest": np.max, "spread": np.ptp})
    assert table["synthetic"].to_list() == [2.0, 0.0]
    assert compare([0.0], [1.0], {"first": lambda x: x[0]})["ratio"].item() is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (([1.0], [np.nan]), "missing"),
        (([], [1.0]), "empty"),
        (([1.0], [1.0], ["mean(x)"]), "for surveys"),
        (([1.0], [1.0], None, ["g"]), "by"),
    ],
)
def test_refusals_for_arrays(arguments, problem):
    with pytest.raises(Refused, match=problem):
        compare(*arguments)


def test_surveys_need_named_statistics(confidential, synthetic):
    with pytest.raises(Refused, match="Name the statistics"):
        compare(confidential, synthetic)
