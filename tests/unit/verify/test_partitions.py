"""Partitions: disjoint, even, by unit, new for every query, and the same on DuckDB and Spark."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

import ibis
import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2

import chance
from understudy.verify.partitions import (
    PARTITION,
    PRIME,
    UNIT_HEAD,
    UNIT_NUMBER,
    UNIT_TAIL,
    PartitionKey,
    equal_size_shuffle,
    new_key,
    unit_digests,
    with_partition,
    with_shuffle,
)


def digested(ids: list[int] | list[str]) -> ibis.expr.types.Table:
    table = ibis.memtable(pl.DataFrame({"id": ids}))
    head, tail = unit_digests(table["id"])
    return table.mutate(**{UNIT_HEAD: head, UNIT_TAIL: tail})


@pytest.mark.parametrize("ids", [[0, 7, -3, 2**40], ["a", "", "Ünï", "0"]])
def test_digests_are_the_head_of_sha256(ids: list[int] | list[str]) -> None:
    digests = digested(ids).to_polars()
    for position, value in enumerate(ids):
        text = hashlib.sha256(str(value).encode()).hexdigest()
        assert digests[UNIT_HEAD][position] == int(text[:8], 16) % PRIME
        assert digests[UNIT_TAIL][position] == int(text[8:16], 16) % PRIME


@pytest.mark.parametrize("key", [(PRIME - 1,) * 3, (3, 5, 7), (2_000_000_011, 17, 123_456_789)])
def test_the_hash_is_exact_up_to_the_largest_numbers(key: tuple[int, int, int]) -> None:
    heads, tails = [PRIME - 1, 0, 41], [PRIME - 1, PRIME - 1, 43]
    table = ibis.memtable(pl.DataFrame({UNIT_HEAD: heads, UNIT_TAIL: tails}))
    partitions = with_partition(table, PartitionKey(*key), 1000).to_polars()[PARTITION]
    a, b, c = key
    exact = [(a * u + b * v + c) % PRIME % 1000 for u, v in zip(heads, tails, strict=True)]
    assert partitions.to_list() == exact


@pytest.mark.usefixtures("stand_in_keys")
def test_sizes_are_even_and_pairs_meet_by_chance() -> None:
    count, units = 20, 4000
    table = digested(list(range(units))).cache()
    sizes, together = [], 0
    for _ in range(60):
        places = with_partition(table, new_key(), count).to_polars()[PARTITION].to_numpy()
        sizes.append(np.bincount(places, minlength=count))
        together += int(np.sum(places[: units // 2] == places[units // 2 :]))
    expected = units / count
    statistic = np.sum((np.array(sizes) - expected) ** 2 / expected)
    assert chi2.sf(statistic, 60 * (count - 1)) > 1e-6
    assert chi2.cdf(statistic, 60 * (count - 1)) > 1e-6  # not too even either
    share = together / (60 * units / 2)
    assert abs(share - 1 / count) < 5 * np.sqrt(1 / count / (60 * units / 2))


@pytest.mark.chance(200**2 / 2 / (PRIME - 1) ** 3, "two of 200 keys the same")
def test_every_query_has_its_own_key() -> None:
    assert len({(k.a, k.b, k.c) for k in (new_key() for _ in range(200))}) == 200
    assert "PartitionKey object" in repr(new_key())  # not shown in a log by accident


@pytest.mark.any_noise
@pytest.mark.parametrize(("units", "count"), [(100, 10), (103, 10), (3, 10), (1, 2)])
def test_the_shuffle_deals_equal_sizes(units: int, count: int) -> None:
    sizes = np.bincount(equal_size_shuffle(units, count), minlength=count)
    assert sizes.sum() == units
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.chance(chance.ALPHA, "exact binomial intervals of all places")
def test_the_shuffle_is_uniform() -> None:
    seen = np.zeros((4, 2))
    for _ in range(4000):
        dealt = equal_size_shuffle(4, 2)
        seen[np.arange(4), dealt] += 1
    assert chance.within(seen.ravel(), 4000, np.full(8, 0.5))


@pytest.mark.any_noise
def test_the_shuffle_reaches_the_table() -> None:
    dealt = equal_size_shuffle(50, 7)
    table = ibis.memtable(pl.DataFrame({UNIT_NUMBER: list(range(50)) * 2}))
    shuffled = with_shuffle(table, dealt).to_polars()
    assert len(shuffled) == 100
    assert np.array_equal(shuffled[PARTITION].to_numpy(), dealt[shuffled[UNIT_NUMBER].to_numpy()])


@pytest.mark.parametrize("draw", [lambda _: 0, lambda bound: bound - 1])
def test_no_factor_of_a_key_is_zero(draw: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modulo the prime: with a factor of 0 half of the digest would not count."""
    monkeypatch.setattr(secrets, "randbelow", draw)
    key = new_key()
    assert all(0 < factor < PRIME for factor in (key.a, key.b))
    assert 0 <= key.c < PRIME
