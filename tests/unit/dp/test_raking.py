"""Raking a pool: against the whole table raked table by table, closed forms and hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from pool_samples import PAIRS, SHAPE, Vector, joint, pairs_of

from understudy.dp.raking import Raking, batches_of, rake_pool
from understudy.dp.record_pool import Pool


def whole_pool() -> Pool:
    codes = np.array(list(product(*map(range, SHAPE))), dtype=np.int32)
    return Pool(codes, np.full(len(codes), 1 / len(codes)))


def test_raked_weights_have_the_tables() -> None:
    shares, pool = joint(4) * 0.5 + 0.5 / np.prod(SHAPE), whole_pool()
    tables = pairs_of(shares)
    weights, distance = rake_pool(pool, pool.weights, tables, PAIRS, 500, 1e-9)
    assert distance < 1e-6
    for table, fitted in zip(tables, pairs_of(weights.reshape(SHAPE)), strict=True):
        assert np.allclose(table, fitted, atol=1e-6)
    # the nearest in relative entropy has no interaction of three columns
    logs = np.log(weights.reshape(SHAPE))
    third = logs[:, :2] - logs[:, 1:]
    second = third[..., :2] - third[..., 1:]
    assert np.allclose(second[0] - second[1], (second[0] - second[1])[:, :1], atol=1e-4)
    assert pool.weights == pytest.approx(np.full(36, 1 / 36))


def test_one_sweep_by_hand() -> None:
    pool = Pool(np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int32), np.full(4, 0.25))
    rows, across = np.array([0.8, 0.2]), np.array([0.6, 0.4])
    weights, distance = rake_pool(pool, pool.weights, [rows, across], [(0,), (1,)], 1, 0.0)
    assert weights == pytest.approx([0.48, 0.32, 0.12, 0.08])
    assert distance == pytest.approx((0.3 + 0.1) / 2)  # of each table when its turn came
    again, left = rake_pool(pool, weights, [rows, across], [(0,), (1,)], 5, 0.0)
    assert again == pytest.approx(weights)
    assert left == pytest.approx(0, abs=1e-12)


def test_a_table_erases_no_record_at_once() -> None:
    pool = Pool(np.array([[0], [1]], dtype=np.int32), np.array([0.5, 0.5]))
    weights, distance = rake_pool(pool, pool.weights, [np.array([0.0, 1.0])], [(0,)], 1, 0.0)
    assert weights == pytest.approx(np.array([0.5 / 20, 1.0]) / (1.0 + 0.5 / 20))
    assert distance == 0.5
    _, left = rake_pool(pool, pool.weights, [np.array([0.0, 1.0])], [(0,)], 2, 0.5)
    assert left == pytest.approx(weights[0])  # 0.5 was not below 0.5
    rare = np.array([1e-6, 1 - 1e-6])
    weights, _ = rake_pool(pool, rare, [np.array([0.5, 0.5])], [(0,)], 1, 0.0)
    risen = np.array([20e-6, 0.5])
    assert weights == pytest.approx(risen / risen.sum(), rel=1e-9)


def test_cells_that_the_pool_lacks_are_left_out() -> None:
    pool = Pool(np.array([[0, 1], [1, 0]], dtype=np.int32), np.array([0.5, 0.5]))
    table = np.array([[0.3, 0.2], [0.1, 0.4]])
    weights, distance = rake_pool(pool, pool.weights, [table], [(0, 1)], 1, 0.0)
    assert weights == pytest.approx([2 / 3, 1 / 3])
    assert distance == pytest.approx(0.5 * (0.3 + 0.3 + 0.4 + 0.4))


def test_sweeps_end_when_they_are_near_enough_or_no_longer_help() -> None:
    """With one column and steps of at most 20, the distances of a sweep are known."""
    pool = Pool(np.array([[0], [1]], dtype=np.int32), np.array([1e-6, 1 - 1e-6]))
    target = [np.array([0.5, 0.5])]

    def after(sweeps: int, tolerance: float) -> float:
        return rake_pool(pool, pool.weights, target, [(0,)], sweeps, tolerance)[1]

    share, distances = 1e-6, []
    for _ in range(5):
        distances.append(0.5 - share)
        up = min(0.5 / share, 20.0) * share
        down = 0.5
        share = up / (up + down)
    # the second sweep improves by less than a twentieth, and is the last
    assert distances[1] > 0.95 * distances[0]
    assert after(1, 0.0) == pytest.approx(distances[0])
    assert after(5, 0.0) == pytest.approx(distances[1])
    assert after(5, 0.6) == pytest.approx(distances[0])


def test_contradicting_tables_end_the_sweeps() -> None:
    pool = Pool(np.array([[0], [1]], dtype=np.int32), np.array([0.5, 0.5]))
    tables, names = [np.array([0.7, 0.3]), np.array([0.3, 0.7])], [(0,), (0,)]
    weights, distance = rake_pool(pool, pool.weights, tables, names, 50, 1e-9)
    assert distance == pytest.approx(0.4)
    assert weights == pytest.approx([0.3, 0.7])


def table_by_table(shares: Vector, tables: list[Vector], names: list[tuple[int, ...]]) -> Vector:
    """One sweep over the whole cross-tabulation, by NumPy alone."""
    for table, columns in zip(tables, names, strict=True):
        letters = "".join("abcd"[column] for column in columns)
        sums = np.einsum(f"abcd->{letters}", shares)
        shares = np.einsum(f"abcd,{letters}->abcd", shares, table / sums)
    return np.asarray(shares / shares.sum())


@pytest.mark.parametrize("most", [1, 6, 12, 36])
@pytest.mark.parametrize("seed", range(3))
def test_tables_that_take_their_steps_together_take_those_of_one_after_the_other(
    most: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.dp.raking.batches_of", lambda c, s: batches_of(c, s, most))
    names = [(2, 0), (1, 3), (0, 1, 2), (0, 3), (2,), (3,)]  # in any order of columns
    wanted = joint(seed) * 0.5 + 0.5 / np.prod(SHAPE)
    letters = ["".join("abcd"[column] for column in columns) for columns in names]
    tables = [np.einsum(f"abcd->{each}", wanted) for each in letters]
    pool = whole_pool()
    start = (joint(seed + 9) * 0.5 + 0.5 / np.prod(SHAPE)).ravel()
    raking = Raking(pool.codes, names, [table.shape for table in tables])
    weights, distance = raking(start, tables, 1, 0.0)
    order = [number for batch in raking.batches for number in batch.tables]
    expected, apart = start.reshape(SHAPE), []
    for number in order:
        before = np.einsum(f"abcd->{letters[number]}", expected)
        apart.append(0.5 * np.abs(before - tables[number]).sum())
        expected = table_by_table(expected, [tables[number]], [names[number]])
    assert weights == pytest.approx(expected.ravel(), rel=1e-10)
    assert distance == pytest.approx(np.mean(apart), rel=1e-10)


@pytest.mark.parametrize("most", [1, 30, 1000])
def test_every_table_has_one_batch_of_few_cells_and_one_column_comes_last(most: int) -> None:
    rng = np.random.default_rng(most)
    sizes = {column: int(rng.integers(2, 9)) for column in range(9)}
    pairs = [tuple(map(int, rng.choice(9, 2, replace=False))) for _ in range(25)]
    names = [(4,), (0,), *dict.fromkeys(pairs), (1, 5, 7), *((column,) for column in (8, 2))]
    batches = batches_of(names, sizes, most)
    assert sorted(number for batch in batches for number in batch) == list(range(len(names)))
    for batch in batches:
        used = {column for number in batch for column in names[number]}
        within_one = any(used == set(names[number]) for number in batch)
        assert within_one or np.prod([sizes[column] for column in used]) <= most
        assert len({len(names[number]) == 1 for number in batch}) == 1
    single = [len(names[batch[0]]) == 1 for batch in batches]
    assert single == sorted(single)
    assert len(batches) < len(names) or most == 1


def test_all_pairs_of_many_columns_take_few_passes() -> None:
    pairs = [(a, b) for b in range(20) for a in range(b)]
    assert len(batches_of(pairs, dict.fromkeys(range(20), 6))) <= 50  # 190 / 6 is the least


def test_tables_of_one_column_are_met_where_pairs_contradict_each_other() -> None:
    """Three columns cannot each be the opposite of the two others. Such pairs, as noise makes them,
    leave the margins that they share, and these are met in the end."""
    codes = np.array(list(product(range(2), repeat=3)), dtype=np.int32)
    rng = np.random.default_rng(2)
    margins = [np.array([0.6, 0.4]), np.array([0.7, 0.3]), np.array([0.5, 0.5])]
    names = [(0, 1), (1, 2), (0, 2), (0,), (1,), (2,)]
    pairs = []
    for a, b in names[:3]:
        both = max(margins[a][0] + margins[b][0] - 1, 0) + 0.02  # hardly any records have both
        first, second = margins[a][0] - both, margins[b][0] - both
        pairs.append(np.array([[both, first], [second, 1 - both - first - second]]))
    tables = [*pairs, *margins]
    raking = Raking(codes, names, [table.shape for table in tables])
    weights, distance = raking(rng.dirichlet(np.ones(8)), tables, 15, 1e-9, easing=1 / 3)
    assert distance > 0.05  # they do contradict each other
    for column, margin in enumerate(margins):
        sums = np.bincount(codes[:, column], weights)
        assert sums == pytest.approx(margin, abs=1e-3)


def test_tables_of_one_column_are_swept_until_they_are_met_to_a_millionth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two tables, by the distances that their steps report."""
    raking = Raking(whole_pool().codes, [(0, 1), (2,)], [(2, 3), (2,)])
    start = np.full(36, 1 / 36)
    all_of_them, single = [0.5, 0.5, 0.48, 0.48], [3e-6, 1.9e-6, 1.0]
    distances = iter([*all_of_them, *single])
    monkeypatch.setattr(Raking, "_step", lambda *_: next(distances))
    assert raking(start, [], 9, 0.0, easing=0.5)[1] == pytest.approx(0.48)
    assert list(distances) == [1.0]


def test_groups_keep_their_weight() -> None:
    pool = whole_pool()
    groups, shares = pool.codes[:, 0].astype(np.intp), np.array([0.3, 0.7])
    tables = pairs_of(joint(5) * 0.5 + 0.5 / np.prod(SHAPE))[3:]
    raking = Raking(pool.codes, PAIRS[3:], [table.shape for table in tables])
    weights, _ = raking(pool.weights, tables, 100, 1e-9, (groups, shares))
    assert np.bincount(groups, weights) == pytest.approx(shares, rel=1e-12)
    fitted = np.einsum("abcd->cd", weights.reshape(SHAPE))
    assert fitted == pytest.approx(tables[2], abs=1e-6)
