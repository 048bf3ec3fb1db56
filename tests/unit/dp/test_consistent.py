"""Tables brought to agree: against brute force, constrained least squares and odds ratios."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.dp.consistent import (
    agreed,
    consistent,
    on_simplex,
    rake,
    spread_over_sets,
)

Vector = NDArray[np.float64]


def nearest_by_brute_force(values: Vector, variances: Vector | None = None) -> Vector:
    """The nearest point of each face of the simplex; of those inside, the nearest of all."""
    noise = np.ones_like(values) if variances is None else variances
    places = range(values.size)
    faces = chain.from_iterable(combinations(places, k) for k in range(1, values.size + 1))
    points = []
    for face in map(list, faces):
        point = np.zeros_like(values)
        too_much = values[face].sum() - 1
        point[face] = values[face] - too_much * noise[face] / noise[face].sum()
        if (point >= 0).all():
            points.append(point)
    return min(points, key=lambda point: float(((point - values) ** 2 / noise).sum()))


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_shares_are_those_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, variances = rng.normal(0.2, 0.6, size=6), rng.exponential(size=6)
    assert np.allclose(on_simplex(values), nearest_by_brute_force(values), atol=1e-12)
    nearest = nearest_by_brute_force(values, variances)
    assert np.allclose(on_simplex(values, variances), nearest, atol=1e-12)
    assert np.allclose(on_simplex(values.reshape(2, 3)), on_simplex(values).reshape(2, 3))


def test_shares_stay_as_they_are() -> None:
    assert on_simplex([0.0, 0.25, 0.75]) == pytest.approx([0.0, 0.25, 0.75])
    assert on_simplex([3.0, 3.0]) == pytest.approx([0.5, 0.5])
    assert on_simplex([-1.0, 5.0]) == pytest.approx([0.0, 1.0])


def test_raking_meets_the_margins_and_keeps_odds_ratios() -> None:
    rng = np.random.default_rng(2)
    table = rng.uniform(0.5, 2.0, size=(3, 4))
    rows, across = np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.2, 0.3, 0.4])
    raked = rake(table, [rows, across])
    assert np.allclose(raked.sum(axis=1), rows, atol=1e-12)
    assert np.allclose(raked.sum(axis=0), across, atol=1e-12)

    def odds(t: Vector) -> Vector:
        return t[:-1, :-1] * t[1:, 1:] / (t[:-1, 1:] * t[1:, :-1])

    assert np.allclose(odds(raked), odds(table))


def test_raking_leaves_empty_levels_empty() -> None:
    table = np.array([[0.0, 0.0], [1.0, 3.0]])
    raked = rake(table, [np.array([0.0, 1.0]), np.array([0.4, 0.6])])
    assert np.allclose(raked, [[0.0, 0.0], [0.4, 0.6]], atol=1e-15)


def test_raking_goes_on_until_every_level_has_its_margin() -> None:
    """The first level has it from the start; the four other cells are those of a closed form."""
    table = np.array([[0.2, 0.0, 0.0], [0.0, 0.3, 0.1], [0.0, 0.1, 0.3]])
    raked = rake(table, [np.array([0.2, 0.6, 0.2]), np.array([0.2, 0.4, 0.4])])
    # odds of 9 with rows of 0.6 and 0.2 and columns of 0.4: x (x - 0.2) = 9 (0.6 - x) (0.4 - x)
    x = (8.8 - np.sqrt(8.8**2 - 4 * 8 * 2.16)) / 16
    expected = [[0.2, 0, 0], [0, x, 0.6 - x], [0, 0.4 - x, x - 0.2]]
    assert raked == pytest.approx(np.array(expected), abs=1e-10)


SHAPE = (2, 3, 4)
COLUMNS = [(0, 1), (1, 2), (0, 1, 2)]


def noisy_tables(seed: int, size: float) -> list[Vector]:
    """Margins of one table of counts with noise, all cells well above 0 where `size` is small."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(400, 600, size=SHAPE).astype(float)
    tables = [counts.sum(axis=2), counts.sum(axis=0), counts]
    return [table + rng.normal(0, size, size=table.shape) for table in tables]


def total_by_least_squares(tables: list[Vector]) -> float:
    """The number of records, from noisy sums whose variance is their number of cells."""
    sums, cells = [table.sum() for table in tables], [table.size for table in tables]
    return float(np.average(sums, weights=1 / np.array(cells)))


def margin_by_least_squares(tables: list[Vector], column: int) -> Vector:
    """Shares of a column's levels, from noisy sums whose variance is their number of cells."""
    total = total_by_least_squares(tables)
    sums, precisions = [], []
    for table, names in zip(tables, COLUMNS, strict=True):
        if column in names:
            by_level = np.moveaxis(table, names.index(column), 0).reshape(SHAPE[column], -1)
            sums.append(by_level.sum(axis=1) / total)
            precisions.append(1 / by_level.shape[1])
    mean = np.average(sums, axis=0, weights=precisions)
    return np.asarray(mean - (mean.sum() - 1) / mean.size)  # the nearest that adds up to 1


def moved_by_least_squares(table: Vector, names: tuple[int, ...], margins: list[Vector]) -> Vector:
    """The nearest table with these margins: a least-squares step of smallest length."""
    sums, aims = [], []
    for axis in range(len(names)):
        for level in range(table.shape[axis]):
            indicator = np.zeros(table.shape)
            indicator[(slice(None),) * axis + (level,)] = 1
            sums.append(indicator.ravel())
            aims.append(margins[axis][level])
    matrix = np.array(sums)
    step = np.linalg.lstsq(matrix, np.array(aims) - matrix @ table.ravel(), rcond=None)[0]
    return table + step.reshape(table.shape)


@pytest.mark.parametrize("seed", range(3))
def test_full_tables_are_moved_by_weighted_least_squares(seed: int) -> None:
    tables = noisy_tables(seed, size=20.0)
    total = total_by_least_squares(tables)
    margins = [margin_by_least_squares(tables, column) for column in range(3)]
    for table, names, settled in zip(tables, COLUMNS, consistent(tables, COLUMNS), strict=True):
        expected = moved_by_least_squares(table / total, names, [margins[name] for name in names])
        assert (expected > 0).all()
        assert np.allclose(settled, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_sparse_tables_agree_and_have_no_negative_share(seed: int) -> None:
    settled = consistent(noisy_tables(seed, size=800.0), COLUMNS)
    for column in range(3):
        margins = [
            np.moveaxis(table, names.index(column), 0).reshape(SHAPE[column], -1).sum(axis=1)
            for table, names in zip(settled, COLUMNS, strict=True)
            if column in names
        ]
        for margin in margins[1:]:
            assert np.allclose(margin, margins[0], rtol=0, atol=1e-6)
    for table in settled:
        assert (table >= 0).all()
        assert table.sum() == pytest.approx(1, abs=1e-9)


def test_a_level_that_noise_erased_from_one_table_is_reached_again() -> None:
    rows, pair = np.array([60.0, 40.0]), np.array([[50.0, 50.0], [-3.0, -1.0]])
    one_way, two_way = consistent([rows, pair], [(0,), (0, 1)])
    assert one_way[1] > 0.2
    assert np.allclose(two_way.sum(axis=1), one_way, atol=1e-9)


@pytest.mark.parametrize("noisy", [[2.0, -7.0, 1.0], [1.5, -0.5, -1.0]])
def test_where_noise_leaves_no_total_counts_are_taken_as_shares(noisy: list[float]) -> None:
    (settled,) = consistent([noisy], [(0,)])
    assert settled == pytest.approx(nearest_by_brute_force(np.array(noisy)), abs=1e-8)


@pytest.mark.parametrize("variances", [(9.0, 9.0), (2.0, 16.0)])
def test_the_margin_weighs_tables_by_the_variance_of_their_sums(
    variances: tuple[float, float],
) -> None:
    """A table of one column, cells with variances of their own, and sums over four cells of
    variance 1. What is too much is taken in proportion to the variances of the average."""
    alone, pair = np.array([70.0, 30.0]), np.full((2, 4), 25.0)
    pair[0] = 40.0
    one_way, _ = consistent([alone, pair], [(0,), (0, 1)], [np.array(variances), 1.0])
    total = np.average([100.0, 260.0], weights=[1 / 18, 1 / 8])
    precise = np.array([1 / np.array(variances), [1 / 4, 1 / 4]])
    margin = np.average([alone, pair.sum(axis=1)], axis=0, weights=precise) / total
    left = 1 / precise.sum(axis=0)
    assert one_way == pytest.approx(margin - (margin.sum() - 1) * left / left.sum(), abs=1e-12)


def test_sets_spread_by_their_noise_around_the_fit_of_their_average() -> None:
    rng = np.random.default_rng(8)
    joint = rng.dirichlet(np.full(24, 3.0)).reshape(SHAPE)
    exact = [5000 * joint.sum(axis=2), 5000 * joint.sum(axis=0), 5000 * joint]
    sets = [[t + rng.normal(0, 5, t.shape) for t in exact] for _ in range(400)]
    whole, *each = agreed(sets, COLUMNS, [25.0] * 3)
    pairs = np.array([fit.tables[0] for fit in each])
    assert pairs.mean(axis=0) == pytest.approx(whole.tables[0], abs=2e-4)
    # the noise of a two-way cell, less what the margins of the other tables take from it
    assert (pairs.std(axis=0) < 5 / 5000).all()
    assert (pairs.std(axis=0) > 0.6 * 5 / 5000).all()


@pytest.mark.parametrize("sets", [2, 5, 10])
@pytest.mark.parametrize("noise", [0.05, 0.4, 0.8, 1.5])
def test_sets_vary_as_the_combining_rule_needs_it_and_none_is_negative(sets, noise) -> None:
    """A cell of 1 with noise in the average of m sets: their variance over m is that of the noise,
    or 1 where it is more, which m numbers of mean 1 that are not negative cannot exceed."""
    rng = np.random.default_rng(3)
    own = rng.normal(0, noise * np.sqrt(sets), (sets, 40_000))
    deviations = [*(own - own.mean(axis=0))]
    made = np.array(spread_over_sets(np.ones(40_000), deviations, noise**2))
    assert made.min() >= 0
    if noise > 0.05:  # a large cell is moved as it is
        assert made.mean(axis=0) == pytest.approx(1.0)
    between = made.var(axis=0, ddof=1).mean() / sets
    assert between == pytest.approx(min(noise**2, 1 / 1.05), rel=0.04)
    assert made.var(axis=0, ddof=1).max() / sets <= 1 + 1e-9


def test_cells_without_noise_or_share_stay_and_one_set_is_the_average() -> None:
    shares = np.array([0.5, 0.0, 0.5])
    deviations = [np.array([0.1, 0.2, 0.0]), np.array([-0.1, -0.2, 0.0])]
    made = spread_over_sets(shares, deviations, np.array([1e-4, 1e-4, 0.0]))
    assert made[0] == pytest.approx([0.6, 0.0, 0.5])
    assert made[1] == pytest.approx([0.4, 0.0, 0.5])
    assert spread_over_sets(shares, deviations[:1], 0.1)[0] is shares


def test_the_spread_of_sets_is_the_error_of_their_average_in_small_groups() -> None:
    """The mean of a group of 150 records in 12 cells, most of them smaller than a set's noise: over
    repeated noise, b/m is the variance of the average's fit."""
    rng = np.random.default_rng(12)
    share = np.array([0.05, 0.35, 0.6])
    age = np.array([rng.dirichlet(np.full(12, 4.0)) for _ in share])
    exact = 3000 * share[:, None] * age
    values = np.arange(12.0)

    def mean(table):
        return float((table[0] * values).sum() / table[0].sum())

    averages, between = [], []
    for _ in range(300):
        noise = rng.normal(0, 8 * np.sqrt(5), (5, *exact.shape))
        sets = [[exact + of_set, exact.sum(axis=1)] for of_set in noise]  # groups are known
        whole, *each = agreed(sets, [(0, 1), (0,)], [320.0, 1e-6], {})
        averages.append(mean(whole.tables[0]))
        between.append(np.var([mean(fit.tables[0]) for fit in each], ddof=1) / 5)
    assert np.mean(between) / np.var(averages, ddof=1) == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("scales", [None, {1: 4}])
def test_shares_are_the_same_whatever_unit_records_are_counted_in(scales) -> None:
    """Thousands of records instead of records: counts and noise are a thousandth."""
    rng = np.random.default_rng(9)
    pair = np.array([[40.0, 3.0, 0.0, 6.0], [60.0, 20.0, 15.0, 9.0]])
    sets = [[pair + rng.normal(0, 5, pair.shape), rng.normal([49, 104], 2)] for _ in range(2)]
    columns = [(0, 1), (0,)]
    fits = agreed(sets, columns, [25.0, 4.0], scales)
    in_thousands = [[table / 1000 for table in tables] for tables in sets]
    rescaled = agreed(in_thousands, columns, [25e-6, 4e-6], scales)
    assert len(fits) == len(rescaled) == 3
    for fit, other in zip(fits, rescaled, strict=True):
        assert other.total == pytest.approx(fit.total / 1000)
        for table, same in zip(fit.tables, other.tables, strict=True):
            assert same == pytest.approx(table, abs=1e-9)
    assert np.abs(fits[1].tables[0] - fits[2].tables[0]).max() > 0.01  # each set has its own noise


def test_a_cell_is_large_from_ten_standard_deviations_of_its_noise_on() -> None:
    """A large cell is moved as it is; of a smaller one the mean over the sets is kept."""
    up = [np.array([0.1]), np.array([0.1])]
    assert np.ravel(spread_over_sets(np.ones(1), up, 0.11**2)) == pytest.approx([1.0, 1.0])
    assert np.ravel(spread_over_sets(np.ones(1), up, 0.09**2)) == pytest.approx([1.1, 1.1])
