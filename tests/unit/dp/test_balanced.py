"""Balanced rounding: what each cell keeps, what tables keep, and what chances are left."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from understudy.dp.balanced import _Tables, balanced
from understudy.dp.record_pool import Pool, cell_table, systematic

LEVELS = (2, 3, 4, 5, 6, 4)
PAIRS = tuple(combinations(range(len(LEVELS)), 2))


def a_pool(cells: int, seed: int = 0) -> Pool:
    rng = np.random.default_rng(seed)
    numbers = np.sort(rng.choice(int(np.prod(LEVELS)), cells, replace=False))
    codes = np.column_stack(np.unravel_index(numbers, LEVELS)).astype(np.int32)
    return Pool(codes, rng.dirichlet(np.full(cells, 0.3)))


def moved(pool: Pool, counts: np.ndarray, tables: tuple[tuple[int, ...], ...]) -> float:
    """Mean total variation between the tables of the counts and of the weights."""
    apart = []
    for names in tables:
        shape = tuple(LEVELS[name] for name in names)
        expected = cell_table(pool.codes, names, shape, pool.weights)
        drawn = cell_table(pool.codes, names, shape, counts / counts.sum())
        apart.append(0.5 * np.abs(drawn - expected).sum())
    return float(np.mean(apart))


@pytest.mark.parametrize("size", [1, 7, 200, 5000])
@pytest.mark.parametrize("seed", range(5))
def test_counts_add_up_and_are_within_one_of_their_expectation(size: int, seed: int) -> None:
    pool = a_pool(600, seed)
    counts = balanced(pool, pool.weights, size, PAIRS, LEVELS, np.random.default_rng(seed))
    assert counts.sum() == size
    assert (counts >= 0).all()
    assert (np.abs(counts - size * pool.weights) < 1).all()


def test_weights_need_not_add_up_to_one() -> None:
    pool = a_pool(600)
    counts = balanced(pool, 3 * pool.weights, 400, PAIRS, LEVELS, np.random.default_rng(1))
    assert counts.sum() == 400
    assert (np.abs(counts - 400 * pool.weights) < 1).all()


def test_whole_expectations_stay_as_they_are() -> None:
    pool = a_pool(10)
    counts = balanced(pool, np.arange(10.0), 45, PAIRS, LEVELS, np.random.default_rng(1))
    assert counts.tolist() == list(range(10))


@pytest.mark.parametrize("seed", range(3))
def test_tables_stay_where_rounding_cell_by_cell_moves_them(seed: int) -> None:
    pool, size = a_pool(2500, seed), 1500
    rng = np.random.default_rng(seed)
    together = balanced(pool, pool.weights, size, PAIRS, LEVELS, rng)
    alone = systematic(pool.weights, size, rng)
    one_way = tuple((name,) for name in range(len(LEVELS)))
    triples = tuple(combinations(range(len(LEVELS)), 3))
    # the nearest whole numbers are on average a quarter of a record away, in every cell
    assert moved(pool, together, one_way) < 0.25 * np.mean(LEVELS) / size
    assert moved(pool, together, one_way) < 0.5 * moved(pool, alone, one_way)
    assert moved(pool, together, PAIRS) < 0.7 * moved(pool, alone, PAIRS)
    assert moved(pool, together, triples) < moved(pool, alone, triples)


def test_every_cell_keeps_its_chance_but_for_a_few_percent(monkeypatch) -> None:
    """Also near whole numbers, where most of what is free lies on one side: over many roundings no
    part of the cells, by their expectation, has more or fewer records than its share.

    A rounding of them tries 25 exchanges on average (twice as many if a bad step made the next one
    no shorter)."""
    pool, size, runs = a_pool(1500), 1500, 15
    tried: list[float] = []
    distance = _Tables._distance
    monkeypatch.setattr(_Tables, "_distance", lambda *of: tried.append(distance(*of)) or tried[-1])
    expected = size * pool.weights
    drawn = np.mean(
        [
            balanced(pool, pool.weights, size, PAIRS, LEVELS, np.random.default_rng(seed))
            for seed in range(runs)
        ],
        axis=0,
    )
    assert len(tried) < 35 * runs
    part = expected - np.floor(expected)
    for low in np.arange(0, 1, 0.1):
        cells = (part >= low) & (part < low + 0.1)
        assert drawn[cells].sum() == pytest.approx(expected[cells].sum(), abs=0.05 * cells.sum())
    assert np.corrcoef(drawn - np.floor(expected), part)[0, 1] > 0.85
