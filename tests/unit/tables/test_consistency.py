"""Consistent tables: margins add up, counts are not negative, and the noise shrinks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from understudy.errors import Refused
from understudy.tables.consistency import consistent_counts, consistent_means, membership

ENTRIES = [(f, g) for f in ("1", "2", "3", "All") for g in ("m", "w", "All")]
INSIDE = membership(ENTRIES, "All")


def test_membership() -> None:
    assert INSIDE.shape == (12, 6)
    assert INSIDE.sum(axis=1).tolist() == [1, 1, 2, 1, 1, 2, 1, 1, 2, 3, 3, 6]
    with pytest.raises(Refused, match="innermost"):
        membership([("All", "All")], "All")


def test_counts_are_the_constrained_least_squares_solution() -> None:
    rng = np.random.default_rng(0)
    noisy = INSIDE @ np.array([1.0, 2.0, 80.0, 0.0, 30.0, 5.0]) + 4 * rng.standard_normal(12)
    variance = rng.uniform(1, 9, 12)
    adjusted = consistent_counts(noisy, variance, INSIDE)
    cells = adjusted.value[[0, 1, 3, 4, 6, 7]]
    np.testing.assert_allclose(adjusted.value, INSIDE @ cells)
    assert (cells >= 0).all()
    other = minimize(
        lambda x: float((((noisy - INSIDE @ x) ** 2) / variance).sum()),
        np.full(6, 10.0),
        bounds=[(0, None)] * 6,
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    np.testing.assert_allclose(cells, other.x, atol=1e-3)


def test_noise_variance_is_what_simulation_gives() -> None:
    rng = np.random.default_rng(1)
    variance = rng.uniform(1, 9, 12)
    truth = INSIDE @ rng.uniform(100, 200, 6)
    drawn = truth + np.sqrt(variance) * rng.standard_normal((4000, 12))
    adjusted = [consistent_counts(row, variance, INSIDE) for row in drawn]
    values = np.array([table.value for table in adjusted])
    np.testing.assert_allclose(values.var(axis=0), adjusted[0].noise_variance, rtol=0.12)
    assert (adjusted[0].noise_variance <= variance + 1e-9).all()


def test_means_are_averages_of_their_cells() -> None:
    rng = np.random.default_rng(2)
    counts = np.array([10.0, 20.0, 5.0, 0.0, 40.0, 25.0])
    shares = INSIDE * counts / (INSIDE @ counts)[:, None].clip(1)
    noisy = shares @ rng.uniform(50, 60, 6) + rng.standard_normal(12)
    adjusted = consistent_means(noisy, np.full(12, 1.0), INSIDE, counts)
    cells = adjusted.value[[0, 1, 3, 4, 6, 7]]
    usable = (INSIDE @ counts) > 0
    np.testing.assert_allclose(adjusted.value[usable], (shares @ cells)[usable])
    exact = consistent_means(shares @ np.arange(6.0), np.full(12, 1.0), INSIDE, counts)
    np.testing.assert_allclose(exact.value[usable], (shares @ np.arange(6.0))[usable], atol=1e-9)


def test_means_solve_the_normal_equations() -> None:
    """Weighted least squares written out, with a noise of its own in every entry."""
    rng = np.random.default_rng(3)
    counts = np.array([10.0, 20.0, 5.0, 8.0, 40.0, 25.0])
    shares = INSIDE * counts / (INSIDE @ counts)[:, None]
    noisy = shares @ rng.uniform(50, 60, 6) + rng.standard_normal(12)
    variance = rng.uniform(0.1, 9, 12)
    adjusted = consistent_means(noisy, variance, INSIDE, counts)
    spread = np.linalg.inv(shares.T @ (shares / variance[:, None]))
    cells = spread @ shares.T @ (noisy / variance)
    np.testing.assert_allclose(adjusted.value, shares @ cells)
    np.testing.assert_allclose(adjusted.noise_variance, np.diag(shares @ spread @ shares.T))


def test_what_counts_nothing_keeps_what_was_measured_of_it() -> None:
    noisy, variance = np.arange(50.0, 62.0), np.arange(1.0, 13.0)
    counts = np.array([10.0, 20.0, 5.0, 0.0, 40.0, 25.0])
    adjusted = consistent_means(noisy, variance, INSIDE, counts)
    assert adjusted.value[4] == pytest.approx(54.0)
    assert adjusted.noise_variance[4] == pytest.approx(5.0)
    # a margin without noise of its own, of two cells that count nothing: their plain average
    margin = INSIDE.sum(axis=1) == 2
    pair = int(np.argmax(margin))
    variance[margin] = np.inf
    counts = np.where(INSIDE[pair] > 0, 0.0, counts)
    adjusted = consistent_means(noisy, variance, INSIDE, counts)
    cells = [
        int(np.argmax(INSIDE.sum(axis=1) + INSIDE[:, c] == 2)) for c in np.flatnonzero(INSIDE[pair])
    ]
    assert adjusted.value[pair] == pytest.approx(np.mean(noisy[cells]))
    assert adjusted.noise_variance[pair] == pytest.approx(np.sum(variance[cells]) / 4)


def test_counts_of_nothing_are_nothing() -> None:
    variance = np.arange(1.0, 13.0)
    assert consistent_counts(np.zeros(12), variance, INSIDE).value.tolist() == [0.0] * 12
