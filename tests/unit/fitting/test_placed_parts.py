"""Questions that travel to the records, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.fitting.placed_parts import Differing, Scale, Side, SomeRecords

SCALE = Scale(2, np.ones(1), np.array([10.0]), np.array([2.0]))
RECORDS = SomeRecords(np.array([0, 0, 1, 1, 1]), np.array([[8.0], [12], [10], [14], [6]]), SCALE)
QUADRATICS = np.array([[-1.0, 2.0, -0.5], [0.0, 1.0, 0.0]])  # 1, u, u^2 of u = (value - 10) / 2


@pytest.mark.parametrize(
    ("cut", "expected"),
    [
        (None, [True, False, False, True, True]),  # |f| / 2 of at least 1
        ([0.0, 1.0], [True, False, True, False, True]),  # f below its cell's cut
        ([0.5, 2.0], [True, False, True, False, True]),  # but not at it
    ],
)
def test_records_are_given_up_by_their_own_density(
    cut: list[float] | None, expected: list[bool]
) -> None:
    below = None if cut is None else np.array(cut)
    side = Side(QUADRATICS, np.array(0.5), 1.0, below)
    np.testing.assert_array_equal(side.holds(RECORDS), expected)
    everyone = Side(QUADRATICS, np.array(0.5), 0.0)
    (differing,) = Differing(side, everyone)(RECORDS)
    assert differing == expected.count(False)
