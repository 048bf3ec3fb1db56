"""Counts in public bins and cells: against NumPy's, and the noise that a unit needs."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.dp import binned_counts
from understudy.dp.binned_counts import BinnedValues, bin_edges, bin_number, counted


def test_counts_are_numpys_histograms_of_each_cell():
    rng = np.random.default_rng(1)
    values, cell = rng.random(500), rng.integers(0, 3, 500)
    values[:4] = [0.0, 1.0, 0.25, 0.5]  # on edges
    edges = bin_edges((0.0, 1.0), 4, whole=False)
    np.testing.assert_array_equal(edges, [0, 0.25, 0.5, 0.75, 1])
    counts = counted(values, cell, 3, edges)
    for c in range(3):
        np.testing.assert_array_equal(counts[c], np.histogram(values[cell == c], edges)[0])


def test_a_value_beyond_the_edges_is_in_the_nearest_bin():
    counts = counted(np.array([-3.0, 9.0, 9.0]), np.array([0, 0, 1]), 3, np.array([0.0, 1.0, 2.0]))
    np.testing.assert_array_equal(counts, [[1, 1], [0, 1], [0, 0]])


@pytest.mark.parametrize(("bounds", "bins"), [((0, 500), 40), ((3, 9), 20), ((0, 100_000), 8)])
def test_bins_of_whole_numbers_hold_every_one_and_grow(bounds, bins):
    edges = bin_edges(bounds, bins, whole=True)
    assert (edges[0], edges[-1]) == (bounds[0], bounds[1] + 1)
    assert len(edges) <= bins + 1
    assert (edges == np.rint(edges)).all()
    assert (np.diff(edges) >= 1).all()
    widths = np.diff(edges)
    assert (np.diff(widths) >= -1).all()  # but for rounding
    if bounds[1] < bins:
        np.testing.assert_array_equal(widths, 1)


def test_bins_are_as_many_as_lose_a_twentieth_to_noise():
    """Of what n records say, 2 B / (n epsilon^2): by hand, and within 8 and 40."""
    assert bin_number(1_000, 1.0, 1) == 25
    assert bin_number(1_000, 2.0, 2) == 25
    assert bin_number(1_000, 1.0, 2) == 8  # 6 would be less
    assert bin_number(1e6, 1.0, 1) == 40


@pytest.mark.parametrize("per_unit", [1, 3])
def test_noise_is_for_all_records_of_a_unit_and_drawn_once(monkeypatch, per_unit):
    asked = []

    def noise(counts, sensitivity, epsilon):
        asked.append((counts.tolist(), sensitivity, epsilon))
        return counts + 1

    monkeypatch.setattr(binned_counts, "integer_laplace", noise)
    counts = np.array([[1, 2], [3, 4]])
    seen = BinnedValues(counts, np.array([3, 7]), np.arange(3.0), np.array([0, 1]), False, per_unit)
    noisy = seen.noisy(2.0, 0.8)
    assert asked == [([1, 2, 3, 4], per_unit, 2.0)]
    np.testing.assert_array_equal(noisy.counts, counts + 1)
    assert noisy.scale == per_unit / 2.0
    assert seen.cells == 2
