"""Selection: inclusion frequencies, sizes, certainty units, unbiased totals, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from understudy.errors import Refused, UnknownName
from understudy.survey.selection import (
    Selected,
    inclusion_probabilities,
    proportional_allocation,
    simple_random,
    stratified,
    stratified_pps,
    systematic_pps,
)

RUNS = 2000
SIZE = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 30.0, 8.0, 9.0])
STRATA = np.array(list("abababaabb"))
Y = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 60.0, 5.0, 3.0])


def by_the_text(size: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """V §2.1 word by word: set what exceeds 1 to 1, recompute the others, repeat."""
    pi = np.zeros(len(size))
    certain = np.zeros(len(size), dtype=bool)
    while True:
        pi[~certain] = (n - certain.sum()) * size[~certain] / size[~certain].sum()
        if not (pi[~certain] > 1).any():
            return pi
        certain |= pi > 1
        pi[certain] = 1


def draw(method: str, rng: np.random.Generator) -> Selected:
    if method == "simple":
        return simple_random(10, 4, rng)
    if method == "stratified":
        return stratified(STRATA, {"a": 2, "b": 3}, rng)
    if method == "systematic":
        return systematic_pps(inclusion_probabilities(SIZE, 4), rng)
    if method == "shuffled":
        return systematic_pps(inclusion_probabilities(SIZE, 4), rng, shuffle=True)
    return stratified_pps(STRATA, SIZE, {"a": 2, "b": 3}, rng)


def expected(method: str) -> NDArray[np.float64]:
    """The inclusion probabilities, by hand."""
    a = STRATA == "a"
    if method == "simple":
        return np.full(10, 0.4)
    if method == "stratified":
        return np.where(a, 2 / 5, 3 / 5)
    if method == "stratified_pps":
        pi = np.empty(10)
        pi[a], pi[~a] = by_the_text(SIZE[a], 2), by_the_text(SIZE[~a], 3)
        return pi
    return by_the_text(SIZE, 4)


METHODS = [
    "simple",
    "stratified",
    "systematic",
    "shuffled",
    "stratified_pps",
]


@pytest.mark.parametrize("method", METHODS)
def test_units_are_selected_with_their_probabilities(method: str) -> None:
    rng = np.random.default_rng(7)
    pi = expected(method)
    draws = [draw(method, rng) for _ in range(RUNS)]
    counts = np.bincount(np.concatenate([s.index for s in draws]), minlength=10)
    certain = pi == 1
    assert (counts[certain] == RUNS).all()
    # binomial counts, each tested on its own; 10 tests at 1e-6 are safe from chance
    z = (counts - RUNS * pi)[~certain] / np.sqrt(RUNS * (pi * (1 - pi))[~certain])
    assert 2 * stats.norm.sf(np.abs(z)).min() > 1e-6
    for sample in draws[:50]:
        assert (np.diff(sample.index) >= 0).all()
        np.testing.assert_allclose(sample.inclusion, pi[sample.index], rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_the_weighted_total_is_unbiased(method: str) -> None:
    rng = np.random.default_rng(11)
    draws = (draw(method, rng) for _ in range(RUNS))
    totals = np.array([(s.weight * Y[s.index]).sum() for s in draws])
    error = totals.mean() - Y.sum()
    assert abs(error) < 5 * totals.std(ddof=1) / np.sqrt(RUNS)


@pytest.mark.parametrize("n", [1, 2, 4, 7, 9, 10])
def test_probabilities_follow_the_paper(n: int) -> None:
    pi = inclusion_probabilities(SIZE, n)
    np.testing.assert_allclose(pi, by_the_text(SIZE, n), rtol=1e-12)
    assert pi.sum() == pytest.approx(n, rel=1e-12)
    assert pi.max() <= 1
    assert pi.min() > 0


def test_certainty_units_cascade() -> None:
    # Only the largest exceeds 1 at first; without it the next does, and so on.
    size = 4.0 ** np.arange(12)
    pi = inclusion_probabilities(size, 5)
    np.testing.assert_allclose(pi, by_the_text(size, 5), rtol=1e-12)
    assert (pi == 1).sum() == 4
    rng = np.random.default_rng(3)
    for _ in range(200):
        assert set(systematic_pps(pi, rng).index) >= set(np.flatnonzero(pi == 1))


@pytest.mark.parametrize("shuffle", [False, True])
def test_systematic_takes_exactly_n_different_units(shuffle: bool) -> None:
    rng = np.random.default_rng(5)
    size = rng.lognormal(0, 1.5, 200_000)
    for n in (1, 777, 120_000, 200_000):
        sample = systematic_pps(inclusion_probabilities(size, n), rng, shuffle=shuffle)
        assert len(sample) == n
        assert len(np.unique(sample.index)) == n


def test_systematic_spreads_along_the_file() -> None:
    sample = systematic_pps(np.full(100, 0.1), np.random.default_rng(2))
    assert (np.diff(sample.index) == 10).all()


def test_the_same_seed_gives_the_same_sample() -> None:
    for method in METHODS:
        first, second = (draw(method, np.random.default_rng(99)) for _ in range(2))
        np.testing.assert_array_equal(first.index, second.index)


def test_allocation_is_proportional_with_a_floor() -> None:
    strata = np.repeat(["big", "small", "tiny"], [900, 95, 5])
    assert proportional_allocation(strata, 100, minimum=0) == {"big": 90, "small": 10, "tiny": 0}
    assert proportional_allocation(strata, 100) == {"big": 89, "small": 9, "tiny": 2}
    assert proportional_allocation(strata, 1000) == {"big": 900, "small": 95, "tiny": 5}
    # integers stay integers, and one seat goes to the largest remainder: quotas 1.4, 2.1, 3.5
    seats = proportional_allocation(np.repeat([1, 2, 3], [20, 30, 50]), 7, minimum=1)
    assert seats == {1: 1, 2: 2, 3: 4}


def test_allocation_never_exceeds_a_stratum() -> None:
    rng = np.random.default_rng(17)
    for _ in range(200):
        counts = rng.integers(1, 30, rng.integers(1, 8))
        strata = np.repeat(np.arange(len(counts)), counts)
        n = int(rng.integers(np.minimum(2, counts).sum(), counts.sum() + 1))
        allocated = np.array(list(proportional_allocation(strata, n).values()))
        assert allocated.sum() == n
        assert (allocated <= counts).all()
        assert (allocated >= np.minimum(2, counts)).all()


RNG = np.random.default_rng(0)
REFUSALS = {
    "more than there are": (lambda: simple_random(10, 11, RNG), "cannot be drawn"),
    "none": (lambda: simple_random(10, 0, RNG), "1 or more"),
    "PPS, more than there are": (lambda: inclusion_probabilities(SIZE, 11), "cannot be drawn"),
    "negative size": (lambda: inclusion_probabilities([1, -1, 2], 1), "negative"),
    "zero size": (lambda: inclusion_probabilities([1, 0, 2], 1), "never be selected"),
    "missing size": (lambda: inclusion_probabilities([1, np.nan], 1), "missing"),
    "no units": (lambda: inclusion_probabilities([], 1), "one column"),
    "not whole": (lambda: systematic_pps([0.5, 0.3], RNG), "whole number"),
    "above 1": (lambda: systematic_pps([0.5, 1.5], RNG), "at most 1"),
    "zero probability": (lambda: systematic_pps([0.0, 1.0], RNG), "above 0"),
    "two columns": (lambda: systematic_pps([[0.5, 0.5]], RNG), "one column"),
    "stratum too small": (
        lambda: stratified(STRATA, {"a": 6, "b": 1}, RNG),
        "the 5 units of stratum `a`",
    ),
    "stratum without size": (lambda: stratified(STRATA, {"a": 2}, RNG), "no sample size"),
    "lengths differ": (
        lambda: stratified_pps(STRATA[:9], SIZE, {"a": 1, "b": 1}, RNG),
        "one value",
    ),
    "too few for the strata": (lambda: proportional_allocation(STRATA, 3), "too few"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(case: str) -> None:
    call, words = REFUSALS[case]
    with pytest.raises(Refused, match=words):
        call()


def test_an_unknown_stratum_is_named_with_the_nearest() -> None:
    strata = ["north", "south"] * 5
    with pytest.raises(UnknownName, match="did you mean `north`"):
        stratified(strata, {"nrth": 1, "south": 1}, RNG)
