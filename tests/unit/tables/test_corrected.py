"""The parts of a corrected table one by one, by hand (whole tables: test_corrected_table.py)."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.tables.corrected import (
    ReleasedTable,
    _with_limits,
    synthesis_error,
    to_public_sizes,
)
from understudy.tables.statistic import parse_statistic


@pytest.mark.parametrize(("files", "uncertain"), [(5, 4.0**2 / 10 + 3.0**2 / 4), (1, 4.0**2 / 10)])
def test_degrees_of_freedom_are_those_of_the_parts_of_the_variance(files, uncertain) -> None:
    """Satterthwaite: sampling with those of the design, the spread of m files with m - 1."""
    part = pl.DataFrame(
        {"within": [4.0], "se": [9.0], "df": [3.0], "design_df": [10.0], "note": [""]}
    )
    value, more, spread = np.array([[50.0], [2.0], [3.0]])
    made = _with_limits(part, value, more, spread, files, "t")
    assert made["se"][0] == pytest.approx(3.0)
    assert made["df"][0] == pytest.approx(9.0**2 / uncertain)


def test_the_design_s_degrees_of_freedom_are_those_of_the_smallest_file() -> None:
    surveys = [
        us.Survey(pl.DataFrame({"g": ["a"] * n, "y": np.arange(n) * 1.0}), us.Design())
        for n in (10, 20)
    ]
    table = ReleasedTable.of(surveys, [parse_statistic("mean(y)", ["y"])], ["g"], "partial")
    assert table.within["design_df"].to_list() == [9.0, 9.0]  # of the group and of all
    assert table.files == 2


def test_cells_that_become_negative_leave_the_public_size_to_the_others() -> None:
    """Of -0.3 and 0.6, whose sum should be 0.4: both get 0.05, the first becomes 0."""
    cells, _ = to_public_sizes(np.array([-0.3, 0.6]), np.eye(2), np.ones((1, 2)), np.array([0.4]))
    assert cells == pytest.approx([0.0, 0.4])


def test_what_synthesis_has_wrong_is_the_mean_square_beyond_noise() -> None:
    differences = np.array([1.0, -3.0, 2.0, 4.0])
    assert synthesis_error(differences, np.full(4, 2.0), np.zeros(4)) == pytest.approx(30 / 8)
    assert synthesis_error(differences, np.full(4, 2.0), np.full(4, 1.5)) == pytest.approx(3.0)
    assert synthesis_error(differences, np.full(4, 2.0), np.full(4, 20.0)) == 0
