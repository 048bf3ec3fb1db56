"""Blocks of neighbouring cells: sums by brute force, and the far part of a group under noise."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.dp import blocks
from understudy.dp.shrinkage import shrunk
from understudy.dp.table_margins import outer_product

NOISE = 15 / 10_000  # of a cell, over the records


def grades() -> np.ndarray:
    """Twelve groups by sixteen cells of age, 10,000 records: eleven groups with one part each, and
    one of 450 with the youngest (350) and the old, 20 in each of five cells."""
    age = np.arange(16)
    table = np.array([100 * np.exp(-0.5 * ((age - k - 2) / 2) ** 2) for k in range(11)])
    table *= 9550 / table.sum()
    last = np.where(age < 2, 175.0, np.where(age > 10, 20.0, 0.0))
    return np.vstack([table, last]) / 10_000


def test_sums_of_blocks_are_those_of_their_cells() -> None:
    table = np.random.default_rng(1).random((3, 9))
    places = [blocks._places(3, 0, 2), blocks._places(9, 7, 2)]
    assert places[0].tolist() == [0, 1, 2]
    assert places[1].tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 3]  # seven on the scale, two beside it
    made = blocks.sums(table, places)
    for row in range(3):
        for block in range(4):
            assert made[row, block] == pytest.approx(table[row, places[1] == block].sum())


def test_a_part_that_lies_far_away_is_found_though_each_of_its_cells_is_within_noise(
    monkeypatch,
) -> None:
    """Noise of 15 records in a cell: cell by cell five of six old persons are lost, in blocks one
    of three is; and the tables as a whole come nearer."""
    rng, table = np.random.default_rng(2), grades()
    margins = [table.sum(axis=1), table.sum(axis=0)]
    drawn: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for _ in range(30):
        noisy = table + rng.normal(0, NOISE, table.shape)
        for by_blocks, results in drawn.items():
            with monkeypatch.context() as patch:
                if not by_blocks:
                    patch.setattr(blocks, "DIVISIONS", ())
                made = np.maximum(shrunk(noisy, margins, [0, 16], NOISE**2).table, 0)
            results.append((10_000 * made[-1, 9:].sum(), 0.5 * np.abs(made - table).sum()))
    with_blocks, without = (np.mean(drawn[which], axis=0) for which in (True, False))
    assert without[0] < 30
    assert 50 < with_blocks[0] < 110
    assert with_blocks[1] < 0.9 * without[1]


def test_margins_are_met_and_no_share_is_negative() -> None:
    rng, table = np.random.default_rng(3), grades()
    margins = [table.sum(axis=1), table.sum(axis=0)]
    outer = outer_product(margins)
    noisy = table + rng.normal(0, NOISE, table.shape)
    smooth, rules = blocks.drawn_by_blocks(noisy, outer, outer, margins, [0, 16], NOISE**2)
    assert [rule.slope.shape for rule in rules] == [(12, 2), (12, 4), (12, 8)]
    assert smooth.min() >= 0
    for axis, margin in enumerate(margins):
        assert smooth.sum(axis=1 - axis) == pytest.approx(margin, abs=1e-6)


def test_the_noise_of_what_blocks_keep_is_that_of_simulated_tables() -> None:
    rng, table = np.random.default_rng(4), grades()
    margins = [table.sum(axis=1), table.sum(axis=0)]
    outer = outer_product(margins)
    noisy = table + rng.normal(0, NOISE, table.shape)
    _, rules = blocks.drawn_by_blocks(noisy, outer, outer, margins, [0, 16], NOISE**2)
    for rule in rules:
        kept = [rule.added(rng.normal(0, NOISE, table.shape)) for _ in range(2000)]
        stated = rule.noise(NOISE**2)
        assert np.var(kept, axis=0).sum() == pytest.approx(stated.sum(), rel=0.05)
        change = np.zeros(table.shape)
        change[3, 5] = 1.0
        added = rule.added(change)
        block = rule.places[1][5]
        assert added.sum() == pytest.approx(rule.slope[3, block])
        assert (added[3, rule.places[1] != block] == 0).all()
