"""Accounting against closed forms that OpenDP and we did not share, and against brute force."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from understudy.dp.accounting import (
    LARGEST_RHO,
    Cost,
    composed,
    delta_of,
    epsilon_of,
    group_delta,
    group_epsilon,
    group_rho,
    pure_rho,
    rho_of,
    rounded_up,
)
from understudy.errors import Refused

PAIRS = [(1.0, 1e-5), (3.0, 1e-9), (0.01, 1e-12), (10.0, 1e-6), (0.5, 1e-3), (20.0, 1e-10)]


def canonne_kamath_steinke(rho: float, epsilon: float) -> float:
    """The delta of section 2.3, minimised over the order by scipy, in logarithms."""

    def log_delta(log_step: float) -> float:
        step = math.exp(log_step)  # a - 1
        order = 1 + step
        return step * (order * rho - epsilon) - log_step + order * math.log1p(-1 / order)

    starts = np.linspace(-8, 12, 400)
    best = min(starts, key=log_delta)
    optimum = optimize.minimize_scalar(log_delta, bounds=(best - 0.1, best + 0.1), method="bounded")
    return min(1.0, math.exp(optimum.fun))


def gaussian_delta(rho: float, epsilon: float) -> float:
    """The exact delta of a Gaussian whose mean moves by sqrt(2 rho) (Balle and Wang 2018)."""
    shift = math.sqrt(2 * rho)
    first = stats.norm.cdf(shift / 2 - epsilon / shift)
    return float(first - math.exp(epsilon) * stats.norm.cdf(-shift / 2 - epsilon / shift))


def test_the_published_figure():
    assert rho_of(1, 1e-5) == pytest.approx(0.0306, abs=5e-5)


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_rho_is_the_closed_form_of_canonne_kamath_and_steinke(epsilon, delta):
    rho = rho_of(epsilon, delta)
    assert canonne_kamath_steinke(rho, epsilon) == pytest.approx(delta, rel=1e-6)
    assert delta_of(rho, epsilon) == pytest.approx(delta, rel=1e-6)
    assert epsilon_of(rho, delta) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), PAIRS)
def test_it_is_tighter_than_the_first_conversion_and_looser_than_the_gaussian_itself(
    epsilon, delta
):
    """Bun and Steinke 2016: epsilon = rho + 2 sqrt(rho log(1/delta)); solved for rho."""
    rho = rho_of(epsilon, delta)
    log = math.log(1 / delta)
    assert rho > (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
    assert gaussian_delta(rho, epsilon) < delta


@settings(max_examples=40, deadline=None)
@given(st.floats(0.001, 50), st.floats(1e-15, 0.1))
def test_a_budget_never_allows_more_than_was_asked(epsilon, delta):
    rho = rho_of(epsilon, delta)
    assert epsilon_of(rho, delta) <= epsilon
    assert delta_of(rho, epsilon) <= delta
    more = rho * (1 + 1e-6)
    assert delta_of(more, epsilon) > delta or epsilon_of(more, delta) > epsilon


def test_a_pure_epsilon_is_half_its_square_and_that_bounds_randomized_response():
    """Brute force: Renyi divergences of two coins whose odds differ by e^epsilon."""
    assert pure_rho(0.5) == Fraction(1, 8)
    for epsilon in (0.1, 1.0, 3.0):
        p = math.exp(epsilon) / (1 + math.exp(epsilon))
        rho = float(pure_rho(epsilon))
        for order in np.geomspace(1.001, 1e3, 50):
            moment = np.logaddexp(
                order * math.log(p) + (1 - order) * math.log1p(-p),
                order * math.log1p(-p) + (1 - order) * math.log(p),
            )
            assert moment / (order - 1) <= rho * order + 1e-12
        near = 1 + 1e-6  # half the square is reached by no coin, but to the first order in epsilon
        if epsilon == 0.1:
            assert (2 * p - 1) * epsilon / near == pytest.approx(rho, rel=2e-3)


def test_pure_rho_is_what_opendp_says():
    import opendp.prelude as dp

    dp.enable_features("contrib")
    numbers = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    cast = dp.c.make_pureDP_to_zCDP(dp.m.make_laplace(*numbers, scale=1.0))
    for epsilon in (0.001, 0.1, 1.0, 7.25):
        assert float(pure_rho(epsilon)) == pytest.approx(cast.map(epsilon), rel=1e-12)


def test_sums_are_exact_or_rounded_up():
    assert composed([Fraction("0.1")] * 10) == 1.0
    assert composed([1e16, 1.0]) > 1e16  # a sum of doubles would lose the 1
    assert composed([]) == 0.0
    third = Fraction(1, 3)
    assert Fraction(rounded_up(third)) >= third > Fraction(math.nextafter(rounded_up(third), 0))


def test_a_group_of_gaussians_is_a_gaussian_that_moves_k_times_as_far():
    """rho = distance^2 / 2 at scale 1, so k steps make k^2 rho."""
    for size in (1, 2, 9):
        assert float(group_rho(0.02, size)) == pytest.approx((size * math.sqrt(0.04)) ** 2 / 2)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_delta_of_a_group_is_the_chain_of_its_steps(size):
    """P_k <= e^eps P_{k-1} + delta, applied again and again, is the bound at k epsilon."""
    epsilon, delta = 0.7, 1e-6
    chained = 0.0
    for _ in range(size):
        chained = math.exp(epsilon) * chained + delta
    stated = group_delta(epsilon, delta, size)
    assert float(stated) == pytest.approx(chained, rel=1e-12)
    exact = sum(Fraction(delta) * Fraction(math.exp(epsilon)) ** k for k in range(size))
    assert stated >= exact * (1 - Fraction(1, 10**14))
    assert group_epsilon(Fraction("0.1"), size) == Fraction(size, 10)
    assert group_delta(epsilon, 0.0, size) == 0


def test_group_bounds_hold_for_the_gaussian_itself():
    """Two records that change together, at the delta of the Gaussian for one."""
    epsilon, rho = 1.0, 0.05
    delta = gaussian_delta(rho, epsilon)
    assert gaussian_delta(4 * rho, 2 * epsilon) <= float(group_delta(epsilon, delta, 2))


@pytest.mark.parametrize("rho", [0, -1, float("nan"), LARGEST_RHO * 2, True, "1"])
def test_rho_out_of_range_is_refused(rho):
    with pytest.raises(Refused, match="rho must be"):
        epsilon_of(rho, 1e-5)


@pytest.mark.parametrize("delta", [0, 1, -1e-9, float("nan"), True, "1e-5"])
def test_delta_out_of_range_is_refused(delta):
    with pytest.raises(Refused, match="delta must be"):
        rho_of(1.0, delta)


def test_groups_that_say_nothing_are_refused():
    with pytest.raises(Refused, match="below 1"):
        group_delta(5.0, 1e-3, 9)
    with pytest.raises(Refused, match="no delta below 1"):
        group_delta(0.01, 0.3, 4)  # 1.22
    with pytest.raises(Refused, match="below 1"):
        group_delta(800.0, 1e-300, 3)
    for size in (0, True, 1.5):
        with pytest.raises(Refused, match="whole number"):
            group_rho(1.0, size)


def test_a_cost_for_another_relation_or_unit_is_that_of_its_steps() -> None:
    """Replacing a record is two steps under `blank`; a household of 3 is three records."""
    blank = Cost(("blank",), epsilon=Fraction(1, 4), delta=Fraction(1, 10**6))
    replaced = blank.under("replace")
    assert replaced.relations == ("replace",)
    assert replaced.epsilon == Fraction(1, 2)
    assert replaced.delta == group_delta(0.25, Fraction(1, 10**6), 2)
    assert blank.under("blank", "household", 3).epsilon == Fraction(3, 4)
    concentrated = Cost(("blank",), rho=Fraction(1, 100))
    assert concentrated.under("blank") == concentrated
    assert concentrated.under("replace").rho == Fraction(4, 100)
    assert concentrated.under("replace", "household", 3).rho == Fraction(36, 100)
    assert concentrated.under("replace").as_rho == Fraction(4, 100)
    assert blank.as_rho == Fraction(1, 32)


def test_a_cost_for_a_unit_holds_for_one_of_its_records() -> None:
    of_unit = Cost(("add-remove", "replace"), epsilon=Fraction(1), unit="household")
    assert of_unit.under("replace").epsilon == 1
    assert of_unit.under("add-remove").epsilon == 2  # the household is there without the record
    assert of_unit.under("add-remove", "household").epsilon == 1
    with pytest.raises(Refused, match="cannot be added"):
        of_unit.under("replace", "person")
    with pytest.raises(Refused, match="says nothing under `add-remove`"):
        Cost(("blank",), epsilon=Fraction(1)).under("add-remove")


def test_a_cost_is_an_epsilon_or_a_rho() -> None:
    for parts in ({}, {"epsilon": Fraction(1), "rho": Fraction(1)},
                  {"rho": Fraction(1), "delta": Fraction(1, 10)}):  # fmt: skip
        with pytest.raises(Refused, match="an epsilon, perhaps with a delta, or a rho"):
            Cost(("blank",), **parts)
