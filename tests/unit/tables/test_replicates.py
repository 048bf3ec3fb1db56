"""Replicate weights: degrees of freedom as R survey counts them, and the centre of a variance."""

from __future__ import annotations

import numpy as np
import pytest

import understudy as us
from understudy.tables.replicates import replicate_df, replicate_variance

BASE = np.random.default_rng(1).gamma(2.0, 10.0, 200)


@pytest.mark.parametrize(("spread", "df"), [(0.0, 0), (4e-6, 0), (1e-2, 39)])
def test_replicates_that_differ_by_rounding_count_once(spread: float, df: int) -> None:
    """R survey takes the rank with a relative tolerance of 1e-5."""
    draw = np.random.default_rng(2)
    weights = BASE[:, None] * (1 + spread * draw.standard_normal((200, 40)))
    assert replicate_df([weights[:90], weights[90:]]) == df


def test_without_records_there_are_none() -> None:
    assert replicate_df([]) == 0


def test_replicates_without_a_coefficient_are_no_part_of_the_centre() -> None:
    """By hand: the mean of 1 and 3 is 2, and 1 (1 - 2)^2 + 1/2 (3 - 2)^2 is 3/2."""
    spec = us.Replicates(prefix="r", kind="jkn", coefficients=(1.0, 0.5, 0.0), centre="mean")
    variance, unknown = replicate_variance(np.array([7.0]), np.array([[1.0, 3.0, 50.0]]), spec)
    assert variance.tolist() == [1.5]
    assert unknown.tolist() == [0]
