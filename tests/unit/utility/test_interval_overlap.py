"""Interval overlap on cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from understudy import Refused
from understudy.utility.interval_overlap import interval_overlap


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((0, 10), (0, 10), 1.0),
        ((0, 10), (5, 15), 0.5),
        ((0, 10), (2, 4), (0.2 + 1) / 2),
        ((0, 10), (8, 28), (0.2 + 0.1) / 2),
        ((0, 10), (10, 20), 0.0),
        ((0, 10), (30, 40), 0.0),
        ((0, 10), (5, 5), (0.0 + 1.0) / 2),
        ((5, 5), (5, 5), 1.0),
        ((5, 5), (6, 6), 0.0),
    ],
)
def test_by_hand(first, second, expected):
    assert interval_overlap(*first, *second) == pytest.approx(expected)
    assert interval_overlap(*second, *first) == pytest.approx(expected)


def test_a_gap_may_count_below_zero():
    assert interval_overlap(0, 10, 15, 35, below_zero=True) == pytest.approx((-0.5 - 0.25) / 2)


def test_arrays_go_element_by_element():
    both = interval_overlap([0, 0], [10, 10], [5, 30], [15, 40])
    np.testing.assert_allclose(both, [0.5, 0.0])


def test_the_published_intervals_of_the_mean():
    """R Table 4: mean of family income, data against Synthesizer and against Marginal."""
    ours = interval_overlap(70068.61, 74037.96, [69639.31, 68431.36], [75284.18, 88069.02])
    length = 74037.96 - 70068.61
    np.testing.assert_allclose(ours[0], (1 + length / (75284.18 - 69639.31)) / 2)
    np.testing.assert_allclose(ours[1], (1 + length / (88069.02 - 68431.36)) / 2)


def test_bad_limits_are_refused():
    with pytest.raises(Refused, match="finite"):
        interval_overlap(0, np.nan, 0, 1)
    with pytest.raises(Refused, match="above its upper"):
        interval_overlap(1, 0, 0, 1)
