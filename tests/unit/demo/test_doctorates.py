"""The simulated doctorates have the population that T prints."""

from __future__ import annotations

import numpy as np
import polars as pl

from understudy.demo.doctorates import COUNTS, MEAN_SALARIES
from understudy_studies.private_tables.tables import printed_table


def test_counts_and_mean_salaries_are_those_of_tables_4_and_5() -> None:
    for number, ours in ((4, COUNTS), (5, MEAN_SALARIES)):
        inner = printed_table(number).filter(pl.col("gender") != "All")
        np.testing.assert_array_equal(inner["population"].to_numpy(), ours.ravel())
