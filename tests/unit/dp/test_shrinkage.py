"""Noisy tables drawn to smooth ones: against the bivariate normal law and simulated noise."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import multivariate_normal

from understudy.dp.consistent import agreed
from understudy.dp.shrinkage import kept_share, normal_scores, shrunk

Vector = NDArray[np.float64]

CELLS = 16


def normal_table(correlation: float, cells: int = CELLS) -> Vector:
    """Shares of a bivariate normal law in cells of equal margins, by scipy's own integrals."""
    law = multivariate_normal([0, 0], [[1, correlation], [correlation, 1]])
    edges = np.array([-9.0, *ndtri(np.arange(1, cells) / cells), 9.0])
    corners = np.stack(np.meshgrid(edges, edges, indexing="ij"), axis=-1)
    reached = law.cdf(corners)
    return np.diff(np.diff(reached, axis=0), axis=1)


def correlation_of(table: Vector) -> float:
    """Of the cells' normal scores."""
    q = normal_scores(np.full(len(table), 1 / len(table)), len(table))
    return float(q @ table @ q)


def test_the_smooth_table_of_normal_columns_is_the_table_itself() -> None:
    for correlation in (-0.7, 0.3):
        table = normal_table(correlation)
        margins = [table.sum(axis=1), table.sum(axis=0)]
        drawn = shrunk(table, margins, [CELLS, CELLS], 1e-9)
        assert 0.5 * np.abs(drawn.smooth - table).sum() < 0.012
        assert correlation_of(drawn.smooth) == pytest.approx(correlation_of(table), abs=1e-3)


def test_noise_does_not_take_the_correlation_of_columns_on_a_scale() -> None:
    """Bivariate normal, 8,000 records, noise of 15 records in a cell of each of five sets."""
    rng, table = np.random.default_rng(4), normal_table(-0.7)
    simulated: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for _ in range(20):
        sets = [[8000 * table + rng.normal(0, 15, table.shape)] for _ in range(5)]
        for on_scales, results in simulated.items():
            scales = dict.fromkeys((0, 1), CELLS) if on_scales else {}
            _, *each = agreed(sets, [(0, 1)], [225.0], scales)
            between = np.mean([correlation_of(of_set.tables[0]) for of_set in each])
            apart = np.mean([0.5 * np.abs(of.tables[0] - table).sum() for of in each])
            results.append((float(between), float(apart)))
    with_scales, without = (np.mean(simulated[which], axis=0) for which in (True, False))
    assert with_scales[0] == pytest.approx(correlation_of(table), abs=0.015)
    assert without[0] > correlation_of(table) + 0.04  # what is lost cell by cell
    assert with_scales[1] < 0.7 * without[1]


def test_means_given_other_columns_need_not_lie_on_a_line() -> None:
    """A number that rises and falls with another one keeps its means, given each cell of it."""
    rng = np.random.default_rng(5)
    x = np.arange(CELLS)
    middle = 11 - 0.15 * (x - 7.5) ** 2
    joint = np.exp(-0.5 * ((x[None, :] - middle[:, None]) / 2.5) ** 2)
    joint /= CELLS * joint.sum(axis=1, keepdims=True)
    margins = [joint.sum(axis=1), joint.sum(axis=0)]
    noisy = joint + rng.normal(0, 10 / 8000, joint.shape)
    drawn = shrunk(noisy, margins, [CELLS, CELLS], (10 / 8000) ** 2)
    q = normal_scores(margins[1], CELLS)
    assert (drawn.smooth @ q) * CELLS == pytest.approx((joint @ q) * CELLS, abs=0.25)
    nothing = shrunk(noisy, margins, [0, 0], (10 / 8000) ** 2)
    assert np.abs(drawn.table - joint).sum() < np.abs(nothing.table - joint).sum()


def test_cells_off_the_scale_and_levels_keep_their_tables() -> None:
    """Without noise a table stays as it is, whatever lies on a scale."""
    rng = np.random.default_rng(6)
    table = rng.dirichlet(np.ones(3 * 9 * 8)).reshape(3, 9, 8)
    margins = [table.sum(axis=(1, 2)), table.sum(axis=(0, 2)), table.sum(axis=(0, 1))]
    drawn = shrunk(table, margins, [0, 7, 8], 0.0)
    assert drawn.table == pytest.approx(table)
    little = shrunk(table, margins, [0, 7, 8], 1e-14)
    assert little.table == pytest.approx(table, abs=1e-6)
    for axis, margin in enumerate(margins):
        others = tuple(k for k in range(3) if k != axis)
        assert little.smooth.sum(axis=others) == pytest.approx(margin, abs=1e-3)


def test_the_noise_of_what_is_kept_is_that_of_simulated_tables() -> None:
    rng, table = np.random.default_rng(7), normal_table(0.6, 10)
    margins, deviation = [np.full(10, 0.1)] * 2, 0.002
    drawn = shrunk(table + rng.normal(0, deviation, table.shape), margins, [10, 10], deviation**2)
    noise = rng.normal(0, deviation, (3000, *table.shape))
    simulated = np.var([drawn.kept(added) for added in noise], axis=0)
    stated = drawn.kept.noise(deviation**2)
    assert stated.sum() / simulated.sum() == pytest.approx(1.0, abs=0.25)


def test_what_is_kept_of_a_deviation_is_the_posterior_mean() -> None:
    """Deviations of variance t e, seen with noise: t is averages, the error is near the least."""
    rng = np.random.default_rng(7)
    expected = rng.dirichlet(np.full(4000, 0.5))
    true = rng.normal(0, np.sqrt(2e-4 * expected))
    seen = true + rng.normal(0, 3e-4, expected.size)
    kept = kept_share(seen, expected, 9e-8)
    best = 2e-4 * expected / (2e-4 * expected + 9e-8)
    assert kept == pytest.approx(best, abs=0.06)
    error, least, raw = (((s * seen - true) ** 2).sum() for s in (kept, best, 1.0))
    assert error < 1.02 * least < 0.8 * raw
    assert (kept_share(seen, expected, 0.0) == 1).all()


def test_a_change_of_the_margins_alone_is_kept_whole() -> None:
    rng = np.random.default_rng(8)
    table = rng.dirichlet(np.ones(12)).reshape(3, 4)
    margins = [table.sum(axis=1), table.sum(axis=0)]
    drawn = shrunk(table, margins, [0, 0], 1e-3)
    other = [np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.2, 0.3, 0.4])]
    moved = np.outer(*other) - np.outer(*margins)
    assert drawn.deviation(moved, other) == pytest.approx(moved)


def test_a_trend_adds_its_means_and_no_records() -> None:
    """From four cells on a column is a scale; elsewhere nothing is added, and sums stay."""
    rng = np.random.default_rng(9)
    table = rng.dirichlet(np.full(5 * 4 * 3, 2.0)).reshape(5, 4, 3)
    margins = [table.sum(axis=(1, 2)), table.sum(axis=(0, 2)), table.sum(axis=(0, 1))]
    drawn = shrunk(table, margins, [0, 4, 3], 1e-6)
    (trend,) = drawn.kept.trends
    assert trend.axis == 1
    means = rng.normal(size=(5, 3))
    assert trend.of(trend.added(means)) == pytest.approx(means)
    assert trend.added(means).sum(axis=1) == pytest.approx(np.zeros((5, 3)), abs=1e-12)


def test_the_means_of_rare_levels_are_met_as_well() -> None:
    """One record in 2,000 belongs to a level whose records all have the lowest value: of the other
    hundred levels none is off by more than a few millionths from the start."""
    rows = np.full((101, 8), (1 - 5e-4) / 800)
    rows[0] = np.array([5e-4, *np.zeros(7)])
    margins = [rows.sum(axis=1), rows.sum(axis=0)]
    q = normal_scores(margins[1], 8)
    smooth = shrunk(rows, margins, [0, 8], 1e-16).smooth
    assert smooth @ q == pytest.approx(rows @ q, abs=2e-5)
