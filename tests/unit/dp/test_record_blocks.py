"""Blocks of records: everything against a pass over all records and all draws."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.dp import record_blocks as module
from understudy.dp.quadratics import about, points, powers, reach, through
from understudy.dp.record_blocks import Quadratics, RecordBlocks, record_blocks

Floats = NDArray[np.float64]
CELLS, DRAWS, N = 3, 40, 2000


def quadratic(A: Floats, b: Floats, c: float, u: Floats) -> Floats:
    """c + b'u + u'Au at points (n, d), written out."""
    return np.array([c + b @ point + point @ A @ point for point in u])


@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_quadratic_is_known_from_its_values_and_can_be_moved(d: int) -> None:
    rng = np.random.default_rng(d)
    A, b, c = rng.normal(size=(d, d)), rng.normal(size=d), 0.7
    coefficients = through(quadratic(A, b, c, points(d))[None])
    u, centre = rng.normal(size=(20, d)), rng.normal(size=d)
    np.testing.assert_allclose(powers(u) @ coefficients[0], quadratic(A, b, c, u), atol=1e-12)
    moved = about(coefficients, centre[None])[0, 0]
    np.testing.assert_allclose(powers(u - centre) @ moved, quadratic(A, b, c, u), atol=1e-12)


def test_nothing_in_a_box_is_beyond_the_reach() -> None:
    rng = np.random.default_rng(4)
    coefficients, half = rng.normal(size=(50, 6)), rng.random(2)
    inside = powers(rng.uniform(-1, 1, (4000, 2)) * half)
    away = np.abs(inside @ coefficients.T - coefficients[:, 0]).max(axis=0)
    limit = reach(coefficients, half)
    assert (away <= limit).all()
    # with all signs alike a corner is as far as that
    same = np.abs(coefficients)
    np.testing.assert_allclose(powers(half) @ same.T - same[:, 0], reach(same, half))


@pytest.mark.parametrize("boxes", [(10,), (4, 4)])
def test_blocks_hold_as_many_records_as_are_worth_it(boxes: tuple[int, ...]) -> None:
    """Two cells whose records fill two standard deviations on either side have equal blocks."""
    d, each = len(boxes), {1: (512,), 2: (32, 16)}[len(boxes)]
    sides = [(np.arange(k * e) + 0.5) * 4 / (k * e) - 2 for k, e in zip(boxes, each, strict=True)]
    values = np.tile(np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, d), (2, 1))
    cell = np.repeat([0, 1], len(values) // 2)
    blocks = record_blocks(cell, values, np.zeros(d), np.ones(d))
    np.testing.assert_array_equal(np.diff(blocks.starts), np.full(2 * np.prod(boxes), 512))


def problem(d: int, spread: float = 0.05) -> tuple[RecordBlocks, NDArray[np.int64], Floats, Floats]:
    """Records, and functions that are like the log-likelihoods of draws: near each other."""
    rng = np.random.default_rng(d)
    cell, y = rng.integers(0, CELLS, N), rng.normal(3.0, 2.0, (N, d))
    q = powers(y[:1]).shape[1]
    typical = np.r_[-1.0, rng.normal(size=q - 1)]
    functions = typical + spread * rng.normal(size=(DRAWS, CELLS, q))
    blocks = record_blocks(cell, y, np.full(d, 3.0), np.full(d, 2.0))
    return blocks, cell, functions, (y - 3.0) / 2.0


def of_cells(functions: Floats) -> Quadratics:
    return lambda cell: functions[:, cell]


def all_values(cell: NDArray[np.int64], functions: Floats, u: Floats) -> Floats:
    """(draws, records)."""
    return np.einsum("snq,nq->sn", functions[:, cell], powers(u))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_blocks_hold_every_record_once_in_a_box_of_its_cell(
    d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECORDS", 30)
    blocks, cell, _, u = problem(d)
    assert sorted(blocks.order) == list(range(N))
    sizes = np.diff(blocks.starts)
    np.testing.assert_array_equal(np.repeat(blocks.cell, sizes), cell[blocks.order])
    centre, half = (np.repeat(each, sizes, axis=0) for each in (blocks.centre, blocks.half))
    assert (np.abs(blocks.offset) <= half + 1e-12).all()
    np.testing.assert_allclose(blocks.offset + centre, u[blocks.order], atol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("numbers", [2**20, 2000])
def test_the_lowest_and_the_highest_are_those_of_all_draws(
    d: int, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECORDS", 30)
    monkeypatch.setattr(module, "NUMBERS", numbers)
    blocks, cell, functions, u = problem(d)
    low, high = blocks.lowest_and_highest(of_cells(functions))
    values = all_values(cell, functions, u)
    np.testing.assert_allclose(low, values.min(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(high, values.max(axis=0), rtol=1e-12, atol=1e-12)


def test_a_draw_that_is_not_finite_is_not_left_out() -> None:
    blocks, cell, functions, _ = problem(2)
    functions[7, 1] = np.nan
    low, high = blocks.lowest_and_highest(of_cells(functions))
    for ends in (low, high):
        np.testing.assert_array_equal(np.isnan(ends), cell == 1)


def test_values_far_away_do_not_run_keys_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECORDS", 30)
    whole = problem(3)[0]
    monkeypatch.setattr(module, "MOST_KEYS", 10)
    assert problem(3)[0].starts.tolist() == whole.starts.tolist()


@pytest.mark.parametrize("uncut", [0.3, 0.6, 0.995])
def test_clipped_sums_are_those_of_all_records(
    uncut: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With blocks that are cut whole, in part and not at all, and records without weight."""
    monkeypatch.setattr(module, "RECORDS", 30)
    blocks, cell, functions, u = problem(2)
    alpha = np.random.default_rng(9).uniform(0.3, 0.9, N)
    alpha[::7] = 0.0
    alpha[u[:, 0] > 0] = 0.5
    values = alpha * all_values(cell, functions, u)
    limit = float(np.quantile(np.abs(values), uncut))
    sums = blocks.clipped_sums(of_cells(functions), alpha, limit)
    each = np.clip(values, -limit, limit)
    assert 0 < limit < np.abs(values).max()
    np.testing.assert_allclose(sums, each.sum(axis=1), rtol=1e-10, atol=1e-10 * N * limit)


def test_what_does_not_exist_counts_as_the_lower_limit() -> None:
    blocks, cell, functions, u = problem(2)
    functions[3] = np.nan
    sums = blocks.clipped_sums(of_cells(functions), np.ones(N), 0.5)
    assert sums[3] == -0.5 * N
    each = np.clip(all_values(cell, functions[:3], u), -0.5, 0.5)
    np.testing.assert_allclose(sums[:3], each.sum(axis=1), rtol=1e-10)
