"""Noise: exact scale, exact distribution, whole numbers, never the same twice."""

from __future__ import annotations

import math
import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import laplace

import chance
from understudy.ledger.epsilon import LARGEST, exact_epsilon
from understudy.verify import noise
from understudy.verify.measures.agreement import Agreement
from understudy.verify.measures.discrepancy import Discrepancy
from understudy.verify.noise import exact_scale


def geometric_count(count: int, partitions: int, micro: int) -> float:
    return noise.geometric(Agreement.sensitivity(), micro, (0, partitions))([count])[0]


def geometric_sum(steps: int, micro: int) -> float:
    return noise.geometric(Discrepancy.sensitivity(), micro)([steps])[0]


def test_sensitivities_are_the_length_of_the_range() -> None:
    assert Agreement.sensitivity() == 1
    assert Discrepancy.sensitivity() == 2000


@given(st.integers(1, LARGEST), st.sampled_from([1, 2000]))
def test_the_scale_is_the_smallest_double_that_keeps_the_promise(
    micro: int, sensitivity: int
) -> None:
    scale = exact_scale(sensitivity, micro)
    epsilon = exact_epsilon(micro)
    assert Fraction(scale) * epsilon >= sensitivity
    assert Fraction(math.nextafter(scale, 0.0)) * epsilon < sensitivity


def test_the_naive_quotient_breaks_the_promise() -> None:
    broken = [m for m in range(1, 3000) if Fraction(1 / (m / 1e6)) * exact_epsilon(m) < 1]
    assert broken  # what threat 5 is about: rounding to nearest is often rounding down


EXACT = pytest.mark.chance(chance.ALPHA, "exact binomial intervals of all cells")


@EXACT
@pytest.mark.parametrize(("count", "partitions", "micro"), [(3, 10, 1_000_000), (10, 10, 500_000)])
def test_the_bounded_geometric_has_its_closed_form(count: int, partitions: int, micro: int) -> None:
    draws = noise.geometric(Agreement.sensitivity(), micro, (0, partitions))([count] * 6000)
    a = math.exp(-micro / 1e6)
    y = np.arange(partitions + 1)
    p = (1 - a) / (1 + a) * a ** np.abs(y - count)
    p[0] = a**count / (1 + a)
    p[-1] = a ** (partitions - count) / (1 + a)
    assert p.sum() == pytest.approx(1)
    assert chance.within(np.bincount(draws, minlength=partitions + 1), len(draws), p)


@EXACT
def test_the_sum_gets_a_two_sided_geometric() -> None:
    sampler = noise.geometric(Discrepancy.sensitivity(), 2_000_000)
    draws = np.array(sampler([100] * 4000)) - 100
    assert chance.follows(draws, chance.noise(2000 / 2.0))


@EXACT
def test_the_papers_noise_is_laplace() -> None:
    draws = np.array(noise.laplace(Agreement.sensitivity(), 500_000)([7] * 4000))
    assert chance.follows(draws, laplace(loc=7, scale=2))


@pytest.mark.any_noise
def test_answers_are_whole_numbers() -> None:
    assert all(type(geometric_count(5, 10, 100)) is int for _ in range(20))
    assert all(type(geometric_sum(5, 100)) is int for _ in range(20))


# The child only draws and leaves; another test of this process may have loaded JAX.
@pytest.mark.chance(chance.same_noise(5, 2000, pairs=6), "two of four with the same five answers")
@pytest.mark.filterwarnings("ignore:os.fork")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_forked_processes_draw_their_own_noise() -> None:
    """A generator copied by fork would give every worker the same noise (threat 18)."""
    replies = []
    for _ in range(4):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, b",".join(b"%d" % geometric_sum(0, 1_000_000) for _ in range(5)))
            os._exit(0)
        os.close(write)
        os.waitpid(child, 0)
        replies.append(os.read(read, 1000))
        os.close(read)
    assert len(set(replies)) == 4
