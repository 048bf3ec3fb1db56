"""Records with given tables: against entropies, all spanning trees, numpy and closed forms."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from pool_samples import PAIRS, Vector, joint, pairs_of
from scipy.stats import binom, entropy

from understudy.dp.record_pool import (
    distinct_cells,
    draw_pool,
    mutual_information,
    pair_table,
    systematic,
    tree,
)


def information(pair: Vector) -> float:
    return float(entropy(pair.sum(axis=0)) + entropy(pair.sum(axis=1)) - entropy(pair.ravel()))


@pytest.mark.parametrize("seed", range(5))
def test_information_is_the_entropy_that_two_columns_share(seed: int) -> None:
    pair = pairs_of(joint(seed))[4]
    assert mutual_information(pair) == pytest.approx(information(pair), rel=1e-10)


def test_empty_cells_carry_no_information() -> None:
    assert mutual_information(np.diag([0.25, 0.75])) == pytest.approx(entropy([0.25, 0.75]))


def test_a_pair_is_a_margin_with_the_first_name_in_rows() -> None:
    shares = joint(1)
    assert np.allclose(pair_table(shares, (0, 1, 2, 3), 1, 3), np.einsum("abcd->bd", shares))
    assert np.allclose(pair_table(shares, (0, 1, 2, 3), 3, 1), np.einsum("abcd->db", shares))


def spanning_trees() -> list[list[tuple[int, int]]]:
    """All sixteen trees on four columns, by their Pruefer codes."""
    trees = []
    for code in product(range(4), repeat=2):
        degrees = [1 + code.count(column) for column in range(4)]
        edges = []
        for column in code:
            leaf = degrees.index(1)
            edges.append((min(leaf, column), max(leaf, column)))
            degrees[leaf] -= 1
            degrees[column] -= 1
        first, second = (column for column in range(4) if degrees[column] == 1)
        trees.append([*edges, (first, second)])
    return trees


@pytest.mark.parametrize("seed", range(12))
def test_no_spanning_tree_holds_more_information(seed: int) -> None:
    tables = pairs_of(joint(seed))
    weight = {names: information(table) for names, table in zip(PAIRS, tables, strict=True)}
    order = tree(tables, PAIRS)
    columns = [column for column, _ in order]
    assert sorted(columns) == [0, 1, 2, 3]
    assert order[0] == (0, None)
    held = 0.0
    for position, (column, parent) in enumerate(order[1:], 1):
        assert parent in columns[:position]
        held += weight[min(column, parent), max(column, parent)]
    best = max(sum(weight[edge] for edge in edges) for edges in spanning_trees())
    assert held == pytest.approx(best)


def test_three_way_tables_hold_all_their_pairs() -> None:
    shares = joint(3)
    tables = [np.einsum("abcd->abc", shares), np.einsum("abcd->bcd", shares), shares.sum((1, 2))]
    assert tree(tables, [(0, 1, 2), (1, 2, 3), (0, 3)]) == tree(pairs_of(shares), PAIRS)


def test_a_column_that_no_table_ties_to_the_others_has_no_parent() -> None:
    tied = np.diag([0.4, 0.6])
    assert tree([tied, np.array([0.5, 0.5])], [(0, 2), (1,)]) == [(0, None), (2, 0), (1, None)]
    assert tree([np.full((2, 2), 0.25)], [(0, 1)]) == [(0, None), (1, None)]


def test_the_pool_has_the_tree_s_distribution_and_a_share_without_dependence() -> None:
    first = np.array([[0.3, 0.1, 0.0], [0.0, 0.2, 0.4]])
    second = np.array([[0.25, 0.05], [0.0, 0.3], [0.4, 0.0]])
    along = np.einsum("ab,bc->abc", first, second / second.sum(axis=1, keepdims=True))
    apart = np.einsum("a,b,c->abc", first.sum(1), first.sum(0), second.sum(0))
    size = 40_000
    for share in (0.0, 0.05, 1.0):
        rng = np.random.default_rng(5)
        chosen = {} if share == 0.05 else {"independent": share}  # 0.05 is what is not asked for
        pool = draw_pool([first, second], [(0, 1), (1, 2)], size, rng, **chosen)
        assert pool.weights.sum() == pytest.approx(1)
        drawn = np.zeros(along.shape)
        drawn[tuple(pool.codes.T)] = pool.weights * size
        # cells are sums of two binomials, and less spread than one with the mean of both
        mixed = (1 - share) * along + share * apart
        low, high = binom.ppf(1e-9, size, mixed), binom.isf(1e-9, size, mixed)
        assert ((low <= drawn) & (drawn <= high)).all()
        assert (drawn[mixed == 0] == 0).all()


def test_a_level_without_a_conditional_is_drawn_from_the_margin() -> None:
    """Noise can leave a level in one table that the pair's table lacks."""
    margin, pair = np.array([0.5, 0.5]), np.array([[0.9, 0.1, 0.0], [0.0, 0.0, 0.0]])
    rng = np.random.default_rng(1)
    pool = draw_pool([margin, pair], [(0,), (0, 1)], 20_000, rng, independent=0.0)
    drawn = np.zeros((2, 3))
    drawn[tuple(pool.codes.T)] = pool.weights
    assert drawn[:, 2].sum() == 0
    assert drawn[1] == pytest.approx([0.45, 0.05, 0.0], abs=0.02)


@pytest.mark.parametrize(
    "levels",
    [(3, 2, 4), (2**31, 2**31, 2), (2**31, 2**31, 3), (2**31,) * 5, (2**20, 5, 2**30, 7, 2**31, 2)],
)
def test_distinct_cells_are_those_of_numpy(levels: tuple[int, ...]) -> None:
    rng = np.random.default_rng(8)
    few = np.stack([rng.integers(0, level, size=40) for level in levels], axis=1)
    few[0], few[1] = np.array(levels) - 1, 0
    few[20:, :-1] = few[:20, :-1]  # apart in the last column only
    codes = few[rng.integers(0, 40, size=300)].astype(np.int32)
    codes[:2] = few[:2]
    cells, counts = distinct_cells(codes)
    expected, times = np.unique(codes, axis=0, return_counts=True)
    assert np.array_equal(cells, expected)
    assert np.array_equal(counts, times)


class Shifts:
    """A generator whose uniforms are told."""

    def __init__(self, shift: float) -> None:
        self.shift = shift

    def random(self) -> float:
        return self.shift


def test_whole_counts_have_the_weights_as_their_means() -> None:
    weights, size, steps = np.array([0.05, 0.4, 0.0, 1.3, 0.25]), 37, 4000
    expected = weights / weights.sum() * size
    total = np.zeros(5)
    for step in range(steps):
        counts = systematic(weights, size, Shifts((step + 0.5) / steps))  # type: ignore[arg-type]
        assert counts.sum() == size
        assert (np.abs(counts - expected) < 1).all()
        total += counts
    assert total / steps == pytest.approx(expected, abs=2 / steps)
