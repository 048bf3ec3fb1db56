"""Sums of clipped values with noise: what they are, and how far one unit moves them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from understudy.dp.clipped_moments import (
    GRID,
    ExactCellSums,
    cell_sums,
    first_sums,
    pairs,
    second_sums,
    sensitivities,
)


def seen(values: np.ndarray, cell: np.ndarray, per_unit: int = 1) -> ExactCellSums:
    cells, d = int(cell.max()) + 1, values.shape[1]
    return cell_sums(values, cell, np.eye(cells), np.zeros(d), np.ones(d), per_unit)


def moved(values: np.ndarray, other: np.ndarray, cell: np.ndarray, kept: np.ndarray) -> list[int]:
    """How far the sums of two files lie apart, in L1; the second has the records `kept`."""
    cells = int(cell.max()) + 1
    first = first_sums(values, cell, cells) - first_sums(other, cell[kept], cells)
    return [int(np.abs(part).sum()) for part in (first, second_sums(values) - second_sums(other))]


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("unit", [1, 3])
def test_no_blanked_unit_moves_the_sums_further_and_a_corner_moves_them_as_far(d, unit):
    rng = np.random.default_rng(d)
    cell = np.repeat([0, 1, 2, 3], 3)
    rest = rng.uniform(-3, 3, (12 - unit, d))  # some beyond their bounds
    kept = np.arange(unit, 12)
    corners = [np.array(corner) for corner in itertools.product([-1.0, 0.0, 1.0], repeat=d)]
    inner = list(rng.uniform(-2, 2, (40, d)))
    distances = [
        moved(np.vstack([np.tile(record, (unit, 1)), rest]), rest, cell, kept)
        for record in (*corners, *inner)
    ]
    assert np.array(distances).max(axis=0).tolist() == list(sensitivities(d, unit))


def test_sums_are_those_of_numpy():
    rng = np.random.default_rng(4)
    values, cell = rng.uniform(-1, 1, (200, 3)), rng.integers(0, 5, 200)
    by_cell = np.array([values[cell == c].sum(axis=0) for c in range(5)])
    np.testing.assert_allclose(first_sums(values, cell, 5) / GRID, by_cell, atol=200 / GRID)
    j, k = pairs(3)
    centred = (values.T @ values)[j, k] - np.where(j == k, 100.0, 0.0)
    np.testing.assert_allclose(second_sums(values) / GRID, centred, atol=200 / GRID)


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize("unit", [1, 4])
def test_noise_has_the_scale_of_its_share(unit):
    """Mean sizes of Laplace noise over 4,000 cells, within five standard errors."""
    cell = np.arange(4000)
    noisy = seen(np.zeros((4000, 2)), cell, unit).noisy(2.0, 0.75)
    scales = unit * 2 / 1.5, unit * 2 / 0.5
    np.testing.assert_allclose((noisy.first_scale, noisy.second_scale), scales, rtol=1e-12)
    size = np.abs(noisy.first).mean() / noisy.first_scale
    assert abs(size - 1) < 5 / np.sqrt(8000)


@pytest.mark.usefixtures("stand_in_noise")
def test_next_to_no_noise_gives_the_moments_back():
    rng = np.random.default_rng(5)
    values, cell = rng.uniform(-1, 1, (300, 2)), rng.integers(0, 3, 300)
    noisy = seen(values, cell).noisy(1e7, 0.5)
    by_cell = np.array([values[cell == c].sum(axis=0) for c in range(3)])
    np.testing.assert_allclose(noisy.first, by_cell, atol=1e-3)
    np.testing.assert_allclose(noisy.second, (values.T @ values)[pairs(2)], atol=1e-3)
