"""Degrees of freedom of replicate weights, as R survey counts them."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.tables.replicates import replicate_df

BASE = np.random.default_rng(1).gamma(2.0, 10.0, 200)


@pytest.mark.parametrize(("spread", "df"), [(0.0, 0), (4e-6, 0), (1e-2, 39)])
def test_replicates_that_differ_by_rounding_count_once(spread: float, df: int) -> None:
    """R survey takes the rank with a relative tolerance of 1e-5."""
    draw = np.random.default_rng(2)
    weights = BASE[:, None] * (1 + spread * draw.standard_normal((200, 40)))
    assert replicate_df([weights[:90], weights[90:]]) == df


def test_without_records_there_are_none() -> None:
    assert replicate_df([]) == 0
