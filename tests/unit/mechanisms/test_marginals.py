"""Marginals: consistency, raking and sampling against definitions; total variation of all pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import chance
from understudy.dp.consistent import consistent, on_simplex, rake
from understudy.dp.raking import rake_pool
from understudy.dp.record_pool import (
    Pool,
    distinct_cells,
    draw_pool,
    mutual_information,
    systematic,
    tree,
)
from understudy.errors import Refused
from understudy.mechanisms import marginals
from understudy.mechanisms.marginals import (
    Marginals,
    marginal_counts,
    marginal_tables,
    noisy_tables,
)
from understudy.tables.cross_table import Categories, CrossTable
from understudy_studies.acs_modips.population import (
    TWELVE,
    acs_categories,
    invented_tables,
    margin_of,
    population,
)


def total_variation(a: CrossTable, b: CrossTable) -> list[float]:
    columns = Marginals(1.0).columns(len(a.categories.columns))
    pairs = zip(marginal_counts(a, columns), marginal_counts(b, columns), strict=True)
    return [0.5 * float(np.abs(x / a.n - y / b.n).sum()) for x, y in pairs]


def small_table(n=5000, sizes=(3, 4, 2), seed=1) -> CrossTable:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, sizes[0], n)
    codes = np.column_stack([first, (first + rng.integers(0, 2, n)) % sizes[1], first % 2])
    cells, counts = distinct_cells(codes.astype(np.int32))
    levels = tuple(tuple(range(size)) for size in sizes)
    import polars as pl

    return CrossTable(Categories(("a", "b", "c"), levels, (pl.Int64(),) * 3), cells, counts)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-2, 2), min_size=1, max_size=8))
def test_the_simplex_projection_is_the_nearest_point(values):
    x = np.array(values)
    projected = on_simplex(x)
    assert projected.sum() == pytest.approx(1)
    assert projected.min() >= 0
    best = optimize.minimize(
        lambda y: ((y - x) ** 2).sum(),
        np.full(x.size, 1 / x.size),
        bounds=[(0, None)] * x.size,
        constraints={"type": "eq", "fun": lambda y: y.sum() - 1},
        method="SLSQP",
    )
    assert ((projected - x) ** 2).sum() <= best.fun + 1e-6


@pytest.mark.parametrize(
    ("evenness", "noise", "apart"),  # nothing negative; negative shares, which 25 sweeps rake away
    [(20.0, 1.0, 1e-9), (0.5, 20.0, 2e-3)],
)
def test_consistent_tables_agree_and_exact_ones_stay(evenness, noise, apart):
    """Margins of the second were tenths apart; of 1,000 seeds the worst is now 4e-4 apart."""
    columns = [(0, 1), (0, 2), (1, 2)]
    rng = np.random.default_rng(2)
    joint = rng.dirichlet(np.full(24, evenness)).reshape(3, 4, 2)
    exact = [joint.sum(axis=2), joint.sum(axis=1), joint.sum(axis=0)]
    for table, true in zip(consistent([1000 * t for t in exact], columns), exact, strict=True):
        assert table == pytest.approx(true, abs=1e-7)
    noisy = [1000 * t + rng.laplace(0, noise, t.shape) for t in exact]
    made = consistent(noisy, columns)
    assert min(t.min() for t in made) >= 0
    assert made[0].sum(axis=1) == pytest.approx(made[1].sum(axis=1), abs=apart)
    assert made[0].sum(axis=0) == pytest.approx(made[2].sum(axis=1), abs=apart)
    assert made[1].sum(axis=0) == pytest.approx(made[2].sum(axis=0), abs=apart)


def test_consistency_takes_noise_away():
    columns = [(a, b) for a in range(5) for b in range(a + 1, 5)]
    rng = np.random.default_rng(3)
    joint = rng.dirichlet(np.full(3**5, 0.3)).reshape((3,) * 5)
    exact = [joint.sum(axis=tuple(set(range(5)) - set(c))) for c in columns]
    gain = []
    for _ in range(20):
        noisy = [t + rng.laplace(0, 0.01, t.shape) for t in exact]
        made = consistent(noisy, columns)
        before = sum(((a - b) ** 2).sum() for a, b in zip(noisy, exact, strict=True))
        gain.append(sum(((a - b) ** 2).sum() for a, b in zip(made, exact, strict=True)) / before)
    assert np.mean(gain) < 0.75


def test_raking_meets_the_margins():
    table = np.random.default_rng(4).random((3, 4))
    margins = [np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.2, 0.3, 0.4])]
    fitted = rake(table, margins)
    assert fitted.sum(axis=1) == pytest.approx(margins[0], abs=1e-9)
    assert fitted.sum(axis=0) == pytest.approx(margins[1], abs=1e-9)
    odds = table[0, 0] * table[1, 1] / (table[0, 1] * table[1, 0])  # raking keeps odds ratios
    assert fitted[0, 0] * fitted[1, 1] / (fitted[0, 1] * fitted[1, 0]) == pytest.approx(odds)


def test_mutual_information_and_the_tree():
    assert mutual_information(np.diag([0.5, 0.5])) == pytest.approx(math.log(2))
    assert mutual_information(np.full((2, 2), 0.25)) == pytest.approx(0)
    even, same = np.full((2, 2), 0.25), np.array([[0.45, 0.05], [0.05, 0.45]])
    edges = tree([even, same, same], [(0, 1), (0, 2), (1, 2)])
    assert edges == [(0, None), (2, 0), (1, 2)]


def test_distinct_cells_are_numpys_unique_rows_also_beyond_64_bits():
    codes = np.random.default_rng(5).integers(0, 3, (500, 4)).astype(np.int32)
    wide = np.hstack([codes * 900_000_000 for _ in range(3)])
    for each in (codes, wide):
        cells, counts = distinct_cells(each)
        expected = np.unique(each, axis=0, return_counts=True)
        assert np.array_equal(cells, expected[0])
        assert counts.tolist() == expected[1].tolist()


def test_the_pool_has_the_tables_of_a_tree():
    tables, pairs = invented_tables((3, 4, 2), 1)
    pool = draw_pool(tables, pairs, 400_000, np.random.default_rng(1), independent=0.0)
    assert pool.weights.sum() == pytest.approx(1)
    counts = np.zeros((3, 4))
    np.add.at(counts, (pool.codes[:, 0], pool.codes[:, 1]), pool.weights)
    assert np.abs(counts - tables[0]).sum() < 0.01


def test_pool_weights_meet_the_tables_and_stay_near_the_pool():
    """Iterative fitting solves min KL(w, pool) under the margins: checked with SciPy."""
    codes = np.array([[a, b, c] for a in range(2) for b in range(2) for c in range(2)], np.int32)
    start = np.random.default_rng(6).dirichlet(np.full(8, 2.0))
    target = np.random.default_rng(7).dirichlet(np.full(8, 2.0)).reshape(2, 2, 2)
    columns = [(0, 1), (0, 2), (1, 2)]
    tables = [target.sum(axis=2), target.sum(axis=1), target.sum(axis=0)]
    fitted, left = rake_pool(Pool(codes, start), start, tables, columns, 500, 1e-12)
    assert left < 1e-3
    fitted, _ = rake_pool(Pool(codes, start), fitted, tables, columns, 1, 0.0)
    free = np.array([1, -1, -1, 1, -1, 1, 1, -1])  # the one direction the pairs leave open
    best = optimize.minimize_scalar(
        lambda x: _kl(target.ravel() + x * free, start),
        bounds=(-target.ravel()[free > 0].min() + 1e-9, target.ravel()[free < 0].min() - 1e-9),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert fitted == pytest.approx(target.ravel() + best.x * free, abs=5e-3)


def _kl(w, v):
    return float((w * np.log(w / v)).sum())


def test_systematic_counts_are_within_one_and_right_on_average():
    weights = np.random.default_rng(8).dirichlet(np.full(40, 0.5))
    drawn = np.array([systematic(weights, 100, np.random.default_rng(k)) for k in range(3000)])
    assert (drawn.sum(axis=1) == 100).all()
    assert np.abs(drawn - 100 * weights).max() < 1 + 1e-9
    assert drawn.mean(axis=0) == pytest.approx(100 * weights, abs=0.06)


@pytest.mark.chance(chance.ALPHA, "exact binomial intervals of all cells")
@pytest.mark.parametrize(("relation", "factor"), [("add-remove", 1), ("replace", 2)])
def test_noise_has_the_scale_of_all_tables_together(relation, factor):
    table = small_table()
    mechanism = Marginals(2.0, relation=relation)
    columns = mechanism.columns(3)
    assert mechanism.sensitivity(len(columns), 4) == factor * 3 * 4
    exact = marginal_counts(table, columns)
    gaps = []
    for _ in range(60):
        noisy = noisy_tables(table, mechanism, columns, 4)
        gaps += [(a.ravel() - b) for a, b in zip(noisy, exact, strict=True)]
    gap = np.concatenate(gaps)
    assert gap.size == 60 * 26
    assert chance.follows(gap, chance.noise(factor * 12 / 2.0))


def test_one_record_moves_each_table_by_one():
    """The sensitivity by brute force: remove and replace every record of a small file."""
    table = small_table(60)
    columns = Marginals(1.0).columns(3)
    whole = np.concatenate(marginal_counts(table, columns))
    removed, replaced = [], []
    for cell in range(table.cells):
        counts = table.counts.copy()
        counts[cell] -= 1
        less = CrossTable(table.categories, table.codes, counts)
        removed.append(np.abs(np.concatenate(marginal_counts(less, columns)) - whole).sum())
        for other in range(table.cells):
            counts = less.counts.copy()
            counts[other] += 1
            moved = CrossTable(table.categories, table.codes, counts)
            replaced.append(np.abs(np.concatenate(marginal_counts(moved, columns)) - whole).sum())
    assert set(removed) == {Marginals(1.0).sensitivity(3, 1)}
    assert max(replaced) == Marginals(1.0, relation="replace").sensitivity(3, 1)


@pytest.mark.usefixtures("stand_in_noise")
@pytest.mark.parametrize("order", [1, 2, 3])
def test_any_order_gives_records_near_the_tables(order):
    table = small_table(20_000)
    rngs = [np.random.default_rng(k) for k in range(2)]
    made, draws = marginal_tables(
        table, Marginals(50.0, order=order), 2, 20_000, rngs, _all_possible
    )
    assert [dataset.n for dataset in made] == [20_000, 20_000]
    assert len(draws) == 2
    assert max(total_variation(table, made[1])) < (0.8 if order == 1 else 0.01)


@pytest.mark.usefixtures("stand_in_noise")
def test_twelve_variables_at_epsilon_one():
    """A tenth of the issue's table: the noise weighs ten times as much, and .01 is still met."""
    sizes = acs_categories(TWELVE).sizes
    whole = population(*invented_tables(sizes), acs_categories(TWELVE), 185_750, 40_000)
    table = margin_of(whole, TWELVE)
    made, _ = marginal_tables(
        table, Marginals(1.0), 1, table.n, [np.random.default_rng(1)], _all_possible
    )
    distances = total_variation(table, made[0])
    assert len(distances) == 66
    assert np.mean(distances) < 0.01


@pytest.mark.usefixtures("stand_in_noise")
def test_a_record_is_not_needed_for_a_cell_to_appear():
    """Nothing depends on the support: with strong noise, levels that nobody has appear."""
    table = small_table(3000)
    made, _ = marginal_tables(
        table, Marginals(0.5), 1, 3000, [np.random.default_rng(1)], _all_possible
    )
    occupied = {tuple(cell) for cell in table.codes.tolist()}
    assert any(tuple(cell) not in occupied for cell in made[0].codes.tolist())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0,), "epsilon"),
        ((1.0, 1.0), "delta"),
        ((1.0, -1e-9), "delta"),
        ((1.0, 0, 4), "order"),
        ((1.0, 0, True), "order"),
        ((1.0, 0, 2, "bank"), "relat"),
    ],
)
def test_refusals(arguments, text):
    with pytest.raises(Refused, match=text):
        Marginals(*arguments)


@pytest.mark.any_noise
def test_rules_that_leave_nothing_are_refused():
    with pytest.raises(Refused, match="leave no cell"):
        marginal_tables(
            small_table(), Marginals(9.0), 1, 10, [np.random.default_rng(1)],
            lambda cells: np.zeros(cells.cells, dtype=bool),
        )  # fmt: skip


def _all_possible(cells: CrossTable) -> np.ndarray:
    return np.ones(cells.cells, dtype=bool)


def test_tables_have_no_more_columns_than_the_file():
    assert Marginals(1.0, order=3).columns(2) == [(0, 1)]
    assert Marginals(1.0, order=2).columns(1) == [(0,)]


@pytest.mark.any_noise
def test_cells_are_counted_over_all_tables_and_only_used_ones_kept(monkeypatch):
    arguments = (small_table(), Marginals(9.0), 1, 60, [np.random.default_rng(1)], _all_possible)
    monkeypatch.setattr(marginals, "MOST_CELLS", 12 + 6 + 8)
    made, _ = marginal_tables(*arguments)
    assert made[0].counts.min() > 0
    monkeypatch.setattr(marginals, "MOST_CELLS", 25)
    with pytest.raises(Refused, match=r"26 cells together, more than 25; column `b` has 4 levels"):
        marginal_tables(*arguments)


@pytest.mark.any_noise
@pytest.mark.parametrize(
    ("size", "records"),
    [(500, 0.5), (1000, 1.0), (1001, 0.3), (2000, 0.3), (3000, 0.3), (100_000, 10.0)],
)
def test_raking_stops_within_a_few_tenths_of_a_record(monkeypatch, size, records):
    """Three tables: three tenths, or one in ten thousand; one in a thousand of a small file."""
    stops = []

    def stop(_pool, weights, _tables, _columns, _sweeps, tolerance):
        stops.append(tolerance * size)
        return weights, 0.0

    monkeypatch.setattr("understudy.mechanisms.outputs.cell_draws.rake_pool", stop)
    rngs = [np.random.default_rng(1)]
    marginal_tables(small_table(), Marginals(9.0), 1, size, rngs, _all_possible)
    assert stops == pytest.approx([records])
