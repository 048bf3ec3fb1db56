"""Coarse cells: runs of a grid that hold enough, rare levels together, the rest as it is."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from understudy.dp.coarsening import _joined, coarse_cells


@given(st.lists(st.floats(-50, 200), min_size=1, max_size=60), st.integers(1, 12))
def test_runs_are_neighbours_and_at_most_so_many(noisy, most):
    mapped = coarse_cells(noisy, len(noisy), 0, 0.0, most)
    assert mapped[0] == 0
    assert set(np.diff(mapped)) <= {0, 1}
    assert mapped[-1] < max(most, 1)


def test_every_run_holds_about_the_same_and_enough():
    counts = np.r_[np.full(50, 10.0), np.full(50, 90.0)]  # 5,000 records
    mapped = coarse_cells(counts, 100, 0, 400.0, 32)
    held = np.bincount(mapped, counts)
    assert held.size == 12
    assert held.min() >= 400 - 90
    assert held.max() <= 5000 / 12 + 90
    assert np.array_equal(coarse_cells(counts, 100, 0, 0.0, 200), np.arange(100))


def test_rare_levels_share_a_cell_and_values_of_their_own_do_not():
    # three grid cells, then a special value and a blank
    mapped = coarse_cells([30, 30, 60, 1, 2], 3, 0, 60.0, 8)
    assert mapped.tolist() == [0, 0, 1, 2, 3]
    # five levels, then a missing code
    mapped = coarse_cells([300, -4, 200, 3, 250, 0], 0, 5, 40.0, 8)
    assert mapped.tolist() == [0, 1, 2, 1, 3, 4]
    # one rare level alone stays
    assert coarse_cells([300, 4, 200], 0, 3, 40.0, 8).tolist() == [0, 1, 2]


def test_noise_in_a_long_empty_tail_is_not_taken_for_records():
    """180 empty cells with noise of 18 up and down: cut at 0 they would hold 1,620 records."""
    noisy = np.r_[np.full(20, 500.0), np.tile([18.0, -18.0], 90)]
    mapped = coarse_cells(noisy, 200, 0, 50.0, 14, deviation=18.0)
    assert mapped[19] == mapped[-1]  # the tail belongs to the last cell with records
    assert mapped[-1] >= 9
    assert mapped[18] < mapped[19]  # and takes no other with it, however long it is


def test_runs_are_divided_where_a_rule_begins_if_both_parts_hold_enough():
    counts = np.full(40, 25.0)
    mapped = coarse_cells(counts, 40, 0, 75.0, 4, cuts=[3, 11, 20])
    starts = np.flatnonzero(np.diff(mapped, prepend=-1))
    assert starts.tolist() == [0, 3, 10, 20, 30]  # 11 would leave 25 records; 20 is one already


def test_no_part_of_a_run_is_cut_off_that_holds_only_noise():
    """Forty empty cells with noise of 18: their positive halves alone would hold 360 records."""
    noisy = np.r_[np.full(10, 100.0), np.tile([18.0, -18.0], 20)]
    assert coarse_cells(noisy, 50, 0, 75.0, 1, cuts=[10]).tolist() == [0] * 50
    assert coarse_cells(noisy + 2, 50, 0, 75.0, 1, cuts=[10])[[9, 10]].tolist() == [0, 1]


def test_a_run_that_may_be_noise_alone_joins_its_smaller_neighbour():
    """Noise of 18 a cell: 50 records in two cells may be noise (3 deviations are 76), but not 90 in
    the first of a hundred cells (54), whatever the others hold."""
    runs = np.repeat(np.array([0, 1, 2], dtype=np.int32), [2, 2, 2])
    joined = _joined(runs, np.array([500.0, 500, 30, 20, 300, 200]), 18.0)
    assert joined.tolist() == [0, 0, 1, 1, 1, 1]
    assert _joined(runs, np.array([500.0, 500, 30, 20, 300, 200]), 1.0).tolist() == runs.tolist()
    long = np.r_[np.zeros(2, dtype=np.int32), np.ones(100, dtype=np.int32)]
    tail = np.r_[500.0, 500, 90, np.tile([-18.0, 18], 50)[:99]]
    assert _joined(long, tail, 18.0).tolist() == long.tolist()
    tail[2] = 40
    assert not _joined(long, tail, 18.0).any()
