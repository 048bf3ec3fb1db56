"""The simulated doctorates have the population that T prints."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from understudy.demo.doctorates import COUNTS, MEAN_SALARIES, doctorates
from understudy.demo.server import confidential
from understudy.release.totals import check_totals
from understudy.survey.survey import Survey
from understudy_studies.private_tables.tables import printed_table


def test_counts_and_mean_salaries_are_those_of_tables_4_and_5() -> None:
    for number, ours in ((4, COUNTS), (5, MEAN_SALARIES)):
        inner = printed_table(number).filter(pl.col("gender") != "All")
        np.testing.assert_array_equal(inner["population"].to_numpy(), ours.ravel())


@pytest.mark.parametrize("survey", [doctorates(300, seed=2), confidential(300, seed=2)])
def test_weights_add_up_to_the_public_sizes_of_the_fields(survey: Survey) -> None:
    check_totals(survey)
    sums = survey.frame().group_by("field").agg(pl.col("weight").sum()).sort("field")
    np.testing.assert_allclose(sums["weight"].to_numpy(), COUNTS.sum(axis=1), rtol=1e-12)
