"""Integer Laplace noise: its scale in exact arithmetic, its distribution in closed form."""

from __future__ import annotations

import ast
import inspect
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chance
from understudy.dp import noise
from understudy.dp.noise import (
    exact_deviation,
    exact_scale,
    integer_gaussian,
    integer_laplace,
)
from understudy.errors import Refused


@settings(deadline=None)  # the machine may be busy
@given(st.floats(1e-9, 1e6), st.integers(1, 10))
def test_the_scale_is_the_smallest_double_that_keeps_the_promise(epsilon, sensitivity):
    scale = exact_scale(sensitivity, epsilon)
    assert Fraction(scale) * Fraction(epsilon) >= sensitivity
    assert Fraction(math.nextafter(scale, 0.0)) * Fraction(epsilon) < sensitivity


def test_plain_division_would_sometimes_be_too_small():
    """The rule is needed: 2/epsilon in doubles falls short for many an epsilon."""
    grid = [k / 100 for k in range(1, 1000)]
    short = [e for e in grid if Fraction(2 / e) * Fraction(e) < 2]
    assert short
    assert all(exact_scale(2, e) > 2 / e for e in short)


@pytest.mark.chance(chance.ALPHA, "exact binomial intervals of all cells")
@pytest.mark.parametrize(("sensitivity", "epsilon"), [(2, 1.0), (2, 5.0), (1, 0.3)])
def test_noise_has_the_closed_form_distribution(sensitivity, epsilon):
    """P(k) = (1 - a)/(1 + a) a^|k|, a = exp(-epsilon/sensitivity), cell by cell."""
    trials = 30_000
    drawn = integer_laplace(np.full(trials, 17), sensitivity, epsilon) - 17
    a = math.exp(-epsilon / sensitivity)
    edge = 0
    while trials * (a ** (edge + 2) / (1 + a)) > 20:  # the tail cell beyond the edge
        edge += 1
    cells = np.clip(drawn, -edge - 1, edge + 1)
    support = np.arange(-edge - 1, edge + 2)
    share = (1 - a) / (1 + a) * a ** np.abs(support)
    share[[0, -1]] = a ** (edge + 1) / (1 + a)
    assert share.sum() == pytest.approx(1.0)
    assert chance.within([(cells == k).sum() for k in support], trials, share)


@pytest.mark.chance(chance.ALPHA, "exact binomial intervals of all pairs of cells")
def test_entries_are_independent():
    """The joint law of two neighbours is the product, and so is that of a call's two halves."""
    drawn = integer_laplace(np.zeros(20_000, dtype=int), 2, 1.0)
    law = chance.noise(2.0)
    share = np.diff(law.cdf([-4, -1, 0, 3]), prepend=0.0, append=1.0)
    for pairs in (drawn.reshape(-1, 2), drawn.reshape(2, -1).T):
        cells = np.searchsorted([-4, -1, 0, 3], pairs, side="left") @ [5, 1]
        counts = np.bincount(cells, minlength=25)
        assert chance.within(counts, 10_000, np.outer(share, share).ravel(), chance.ALPHA / 2)


ENTRIES = 50


@pytest.mark.chance(chance.same_noise(ENTRIES, 2 / 0.1), "the same noise in every entry")
def test_noise_cannot_be_seeded():
    """Two calls differ whatever NumPy's state is, and the file uses no other randomness."""
    counts = np.zeros(ENTRIES, dtype=int)
    np.random.seed(1)
    first = integer_laplace(counts, 2, 0.1)
    np.random.seed(1)
    assert (first != integer_laplace(counts, 2, 0.1)).any()
    names = {n.attr for n in ast.walk(ast.parse(inspect.getsource(noise))) if hasattr(n, "attr")}
    assert not names & {"random", "default_rng", "RandomState"}


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 1e-12])
def test_an_epsilon_without_meaning_is_refused(epsilon):
    with pytest.raises(Refused):
        integer_laplace(np.zeros(2, dtype=int), 2, epsilon)


@pytest.mark.parametrize("counts", [np.zeros(2), np.zeros((2, 2), dtype=int)])
def test_only_vectors_of_whole_counts_get_integer_noise(counts):
    with pytest.raises(Refused, match="whole counts"):
        integer_laplace(counts, 2, 1.0)


def test_other_refusals():
    with pytest.raises(Refused, match="sensitivity"):
        exact_scale(0, 1.0)
    with pytest.raises(Refused, match="out of range"):
        exact_scale(2, 5e-324)


@settings(deadline=None)
@given(st.floats(1e-9, 1e6), st.integers(1, 1000))
def test_the_deviation_is_the_smallest_double_that_keeps_rho(rho, squared):
    deviation = exact_deviation(squared, rho)
    assert 2 * Fraction(rho) * Fraction(deviation) ** 2 >= squared
    assert 2 * Fraction(rho) * Fraction(math.nextafter(deviation, 0.0)) ** 2 < squared


@pytest.mark.chance(chance.ALPHA, "exact binomial intervals of all cells")
@pytest.mark.parametrize(("squared", "rho"), [(1, 0.125), (8, 0.04)])
def test_gaussian_noise_has_the_closed_form_distribution(squared, rho):
    """P(k) proportional to exp(-k^2 / (2 sigma^2)) with sigma^2 = Delta^2 / (2 rho)."""
    trials = 10_000
    drawn = integer_gaussian(np.full(trials, 5), squared, rho) - 5
    support = np.arange(-200, 201)
    share = np.exp(-(support**2) * rho / squared)
    share /= share.sum()
    kept = share * trials > 20
    counts = [(drawn == k).sum() for k in support[kept]] + [(~np.isin(drawn, support[kept])).sum()]
    assert chance.within(counts, trials, [*share[kept], 1 - share[kept].sum()])


def test_gaussian_refusals():
    for squared, rho in ((0, 1.0), (1, 0.0), (1, math.inf), (1, True)):
        with pytest.raises(Refused):
            exact_deviation(squared, rho)
    with pytest.raises(Refused, match="say nothing"):
        integer_gaussian(np.array([1]), 1, 1e-30)


def test_long_tables_are_drawn_in_blocks_and_keep_their_order():
    asked = []

    def one_more(counts: list[int]) -> list[int]:
        asked.append(len(counts))
        return [count + 1 for count in counts]

    for size, blocks in (
        (0, [0]),
        (noise.BLOCK, [noise.BLOCK]),
        (noise.BLOCK + 3, [3, noise.BLOCK]),
    ):
        asked.clear()
        drawn = noise._in_blocks(one_more, np.arange(size))
        assert drawn.tolist() == list(range(1, size + 1))
        assert sorted(asked) == blocks
