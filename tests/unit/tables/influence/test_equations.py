"""Every equation's influences against numerical derivatives of estimators that others wrote.

d_i is what a small change of record i's weight does to the estimate (the infinitesimal jackknife),
times that weight: it is computed here by finite differences of NumPy's and SciPy's own estimators.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from influence_samples import people, survey
from scipy import optimize, stats

from understudy.declarations import declared_in
from understudy.errors import Refused
from understudy.survey.design import Design
from understudy.tables.families.binomial import Binomial
from understudy.tables.families.gaussian import Gaussian
from understudy.tables.families.poisson import Poisson
from understudy.tables.family import LinkFamily, families
from understudy.tables.influence.arithmetic import share_at_most
from understudy.tables.influence.equation import Equation, FileColumns
from understudy.tables.influence.equations.correlation import CorrelationEquation
from understudy.tables.influence.equations.difference import DifferenceEquation
from understudy.tables.influence.equations.gini import GiniEquation
from understudy.tables.influence.equations.mean import MeanEquation
from understudy.tables.influence.equations.quantile import (
    QuantileEquation,
    bandwidth,
    quantiles_of,
    spread_quantiles,
)
from understudy.tables.influence.equations.ratio import RatioEquation
from understudy.tables.influence.equations.regression import RegressionEquation
from understudy.tables.influence.equations.total import TotalEquation
from understudy.tables.influence.question import InfluenceQuestion, SyntheticFile, released_at
from understudy.tables.regress import regress
from understudy.tables.tabulate import tabulate

Arrays = dict[str, np.ndarray]
Estimate = Callable[[Arrays, np.ndarray], np.ndarray]

FRAME = people()
N = 100_000.0


def _mean(a: Arrays, w: np.ndarray) -> np.ndarray:
    return np.atleast_1d(np.average(a["y"], weights=w))


def _difference(a: Arrays, w: np.ndarray) -> np.ndarray:
    return _mean(a, w * a["a"]) - _mean(a, w * a["b"])


def _correlation(a: Arrays, w: np.ndarray) -> np.ndarray:
    cov = np.cov(a["y"], a["z"], aweights=w)
    return np.atleast_1d(cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1]))


def _linear(a: Arrays, w: np.ndarray) -> np.ndarray:
    return np.polyfit(a["x0"], a["y"], 1, w=np.sqrt(w))[::-1]


def _likelihood(loss: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Estimate:
    def estimate(a: Arrays, w: np.ndarray) -> np.ndarray:
        share = w / w.sum()
        start = np.zeros(2)
        optimum = optimize.minimize(
            lambda b: share @ loss(b[0] + b[1] * a["x0"], a["y"]), start, method="BFGS",
            options={"gtol": 1e-12},
        )  # fmt: skip
        return np.asarray(optimum.x)

    return estimate


X, Y = FRAME["x"].to_numpy(), FRAME["y"].to_numpy()
GROUP = FRAME["g"].to_numpy()
CASES: dict[str, tuple[Equation, Arrays, Estimate]] = {
    "mean": (MeanEquation(), {"y": X}, _mean),
    "total": (TotalEquation(), {"y": X}, lambda a, w: np.atleast_1d(w @ a["y"])),
    "total of a public size": (TotalEquation(N), {"y": X}, lambda a, w: N * _mean(a, w)),
    "ratio": (
        RatioEquation(),
        {"y": Y, "z": X},
        lambda a, w: np.atleast_1d((w @ a["y"]) / (w @ a["z"])),
    ),
    "difference": (
        DifferenceEquation(),
        {"y": X, "a": 1.0 * (GROUP == "a"), "b": 1.0 * (GROUP == "b")},
        _difference,
    ),
    "correlation": (CorrelationEquation(), {"y": Y, "z": X}, _correlation),
    "linear": (RegressionEquation(Gaussian(), 1, (0, 1)), {"y": Y, "x0": X}, _linear),
    "logistic": (
        RegressionEquation(Binomial(), 1, (0, 1)),
        {"y": FRAME["b"].cast(float).to_numpy(), "x0": X - 10},
        _likelihood(lambda eta, y: np.logaddexp(0, eta) - y * eta),
    ),
    "poisson": (
        RegressionEquation(Poisson(), 1, (0, 1)),
        {"y": FRAME["k"].cast(float).to_numpy(), "x0": X - 10},
        _likelihood(lambda eta, y: np.exp(eta) - y * eta),
    ),
}
W = FRAME["w"].to_numpy()
EVERYONE = np.ones(len(W), dtype=bool)


def influences(equation: Equation, arrays: Arrays, inside: np.ndarray = EVERYONE) -> np.ndarray:
    released = equation.released([FileColumns(arrays, W, inside)])
    parts = equation.influences(released, arrays, W, inside)
    return np.column_stack([np.broadcast_to(part, W.shape) for part in parts])


def test_every_equation_is_tried() -> None:
    named = {
        kind.name
        for kind in declared_in("understudy.tables.influence.equations", Equation).values()
    }
    assert named == {equation.name for equation, _, _ in CASES.values()} | {"quantile", "gini"}
    tried = {e.family.name for e, _, _ in CASES.values() if isinstance(e, RegressionEquation)}
    assert tried == set(families(LinkFamily))


@pytest.mark.parametrize("name", CASES)
def test_an_influence_is_the_derivative_in_the_records_weight(name: str) -> None:
    equation, arrays, estimate = CASES[name]
    made = influences(equation, arrays)
    released = equation.released([FileColumns(arrays, W, EVERYONE)])
    np.testing.assert_allclose(released.estimates, estimate(arrays, W), rtol=1e-6)
    step = 1e-2 if name in ("logistic", "poisson") else 1e-4
    for record in (0, 17, 250):
        moved = []
        for sign in (1, -1):
            w = W.copy()
            w[record] *= 1 + sign * step
            moved.append(estimate(arrays, w))
        derivative = (moved[0] - moved[1]) / (2 * step)
        np.testing.assert_allclose(
            made[record], derivative, rtol=2e-3, atol=1e-9 * np.abs(made).max()
        )


@pytest.mark.parametrize("name", [name for name in CASES if name != "total"])
def test_influences_of_the_file_itself_add_up_to_nothing(name: str) -> None:
    """The released estimate solves the equation of its own file."""
    equation, arrays, _ = CASES[name]
    made = influences(equation, arrays)
    assert np.all(np.abs(made.sum(axis=0)) < 1e-9 * np.abs(made).sum(axis=0))


@pytest.mark.parametrize("name", CASES)
def test_the_sum_is_the_newton_step_towards_another_file(name: str) -> None:
    """Second order: where the files are half as far apart, the error is a quarter."""
    equation, arrays, estimate = CASES[name]
    released = equation.released([FileColumns(arrays, W, EVERYONE)])
    errors = []
    draw = np.random.default_rng(5).normal(size=len(W))
    for size in (0.02, 0.01):
        w = W * (1 + size * draw)
        parts = equation.influences(released, arrays, w, EVERYONE)
        step = np.array([np.sum(part) for part in parts]) - released.constant
        errors.append(np.abs(step - (estimate(arrays, w) - released.estimates)).max())
    assert errors[1] < 0.3 * errors[0] or errors[0] < 1e-6 * np.abs(released.estimates).max()


def test_a_domain_and_missing_values_count_for_nothing_but_in_a_total_of_a_public_size() -> None:
    inside = GROUP == "a"
    values = X.copy()
    values[:20] = np.nan
    used = inside & ~np.isnan(values)
    made = influences(MeanEquation(), {"y": values}, inside)[:, 0]
    assert np.all(made[~used] == 0)
    centre = np.average(values[used], weights=W[used])
    np.testing.assert_allclose(made[used], W[used] * (values[used] - centre) / W[used].sum())
    whole = influences(TotalEquation(N), {"y": values}, inside)[:, 0]
    total = N * (W[used] @ values[used]) / W.sum()
    counted = np.where(used, values, 0.0)
    np.testing.assert_allclose(whole, W * (N * counted - total) / W.sum())


def test_several_files_give_their_mean() -> None:
    files = [FileColumns({"y": X + shift}, W * size, EVERYONE) for shift, size in ((0, 1), (1, 2))]
    released = MeanEquation().released(files)
    assert released.estimates[0] == pytest.approx(np.average(X, weights=W) + 0.5)
    assert released.bread[0, 0] == pytest.approx(1 / (1.5 * W.sum()))


def _gini(y: np.ndarray, w: np.ndarray) -> float:
    """By all pairs of records."""
    pairs = np.outer(w, w) * np.abs(y[:, None] - y[None, :])
    return float(pairs.sum() / (2 * w.sum() * (w @ y)))


def test_ginis_influence_is_its_derivative() -> None:
    """By moving one record's weight in the sum over all pairs; but for the 64 shares."""
    y = np.round(np.exp(X / 4))  # with ties
    made = influences(GiniEquation(), {"y": y})[:, 0]
    released = GiniEquation().released([FileColumns({"y": y}, W, EVERYONE)])
    assert released.estimates[0] == pytest.approx(_gini(y, W))
    assert abs(made.sum()) < 1e-12
    for record in (0, 17, 250, int(np.argmax(y)), int(np.argmin(y)), int(np.argmax(W))):
        up, down = W.copy(), W.copy()
        up[record] *= 1 + 1e-4
        down[record] *= 1 - 1e-4
        derivative = (_gini(y, up) - _gini(y, down)) / 2e-4
        assert made[record] == pytest.approx(derivative, abs=5e-3 * np.abs(made).max())


def test_ginis_sum_is_the_step_towards_another_file() -> None:
    """Second order in how far the files are apart, as for the others."""
    y = np.exp(X / 4)
    equation = GiniEquation()
    released = equation.released([FileColumns({"y": y}, W, EVERYONE)])
    draw = np.random.default_rng(5).normal(size=len(W))
    for size in (0.1, 0.3):
        w = W * np.exp(size * draw)
        (part,) = equation.influences(released, {"y": y}, w, EVERYONE)
        apart = _gini(y, w) - released.estimates[0]
        assert np.sum(part) == pytest.approx(apart, rel=2 * size)
    with pytest.raises(Refused, match="not negative"):
        equation.released([FileColumns({"y": y - 50.0}, W, EVERYONE)])


# -- quantiles -----------------------------------------------------------------------------------


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9])
def test_a_quantiles_influence_has_the_density_of_the_law(probability: float) -> None:
    n = 40_000
    y = stats.norm.ppf((np.arange(n) + 0.5) / n)
    released = QuantileEquation(probability).released(
        [FileColumns({"y": y}, np.full(n, 2.0), np.ones(n, dtype=bool))]
    )
    centre = stats.norm.ppf(probability)
    assert released.estimates[0] == pytest.approx(centre, abs=1e-3)
    assert released.note == ""
    assert 1 / (2.0 * n * released.bread[0, 0]) == pytest.approx(stats.norm.pdf(centre), rel=0.02)
    below = QuantileEquation(probability).psi({"y": np.array([-9.0, 9.0])}, released.public)
    np.testing.assert_allclose(below.common, [probability - 1, probability])


def test_a_quantile_at_a_heap_is_that_of_spread_values_and_says_so() -> None:
    """Rounding and spreading again over +-1/2 gives back the law, so the median is the law's."""
    n = 20_000
    exact = stats.norm.ppf((np.arange(n) + 0.5) / n, loc=10.3, scale=4)
    rounded = np.round(exact)
    file = FileColumns({"y": rounded}, np.ones(n), np.ones(n, dtype=bool))
    released = QuantileEquation(0.5).released([file])
    assert released.estimates[0] == 10
    assert "spread evenly over ±0.5" in released.note
    assert released.public["c"] == pytest.approx(10.3, abs=0.02)
    density = stats.norm.pdf(10.3, loc=10.3, scale=4)
    assert 1 / (n * released.bread[0, 0]) == pytest.approx(density, rel=0.03)
    # all samples are rounded to this heap, so the spread quantiles of both files are errors
    assert released.constant[0] == pytest.approx(0.0, abs=0.01)
    error = 4 * np.sqrt(np.pi / 2 / n)
    np.testing.assert_allclose(released.remainder, [error, np.sqrt(2) * error], rtol=0.12)


@pytest.mark.parametrize(
    ("heap", "files", "most"), [(0.0, 1, 1.2), (0.0, 4, 1.2), (0.125, 1, 1.2), (0.5, 1, 1.6)]
)
def test_what_is_left_of_a_quantile_is_that_of_repeated_samples(
    heap: float, files: int, most: float
) -> None:
    """Without noise or clip the answer differs from the true difference by the remainder: with
    values that are not shared, heaps of 2 standard errors, and heaps of 8 (on the safe side)."""
    draw, n, pairs = np.random.default_rng(2), 400, 1000
    equation = QuantileEquation(0.5)

    def file() -> FileColumns:
        y = draw.normal(0.03, 1.0, n)
        y = np.round(y / heap) * heap if heap else y
        return FileColumns({"y": y}, np.ones(n), np.ones(n, dtype=bool))

    errors, left = [], []
    for _ in range(pairs):
        released = equation.released([file() for _ in range(files)])
        confidential = file()
        parts = equation.influences(released, confidential.columns, 1.0, confidential.inside)
        quantile = quantiles_of(confidential.columns["y"], confidential.weight, np.array([0.5]))[0]
        answer = float(np.sum(parts[0])) - released.constant[0]
        errors.append(answer - (quantile - released.estimates[0]))
        left.append(released.remainder[1])
    wanted = float(np.sqrt(np.mean(np.square(errors))))
    assert 0.85 * wanted < np.sqrt(np.mean(np.square(left))) < most * wanted


def test_spread_quantiles_solve_their_equation() -> None:
    y, share = np.array([3.0, 1.0, 1.0, 7.0]), np.array([0.3, 0.2, 0.1, 0.4])
    for probability, at in zip(
        P := [0.1, 0.45, 0.9], spread_quantiles(y, share, np.array(P), 1.5), strict=True
    ):
        assert share @ share_at_most(y, at, 1.5) == pytest.approx(probability)


def test_spread_values_have_a_share_below_a_limit() -> None:
    np.testing.assert_allclose(
        share_at_most(np.array([1.0, 2.0, 2.5, 3.0, np.nan]), 2.5, 0.5), [1, 1, 0.5, 0, np.nan]
    )
    assert share_at_most(np.array([2.5]), 2.5, 0.0)[0] == 1


def test_quantiles_are_those_of_tabulate() -> None:
    for probability in (0.2, 0.5, 0.8):
        table = tabulate(survey(FRAME), f"quantile(x, {probability})")
        assert quantiles_of(X, W, np.array([probability]))[0] == table["estimate"][0]


# -- the design ----------------------------------------------------------------------------------

DESIGNS = {
    "weights": Design(weight="w"),
    "strata": Design(weight="w", strata="h"),
    "clusters": Design(weight="w", strata="h", psu="c", nest=True),
}


@pytest.mark.parametrize("design", DESIGNS)
def test_the_influences_variance_is_that_of_tabulate_and_regress(design: str) -> None:
    """Which agree with R survey to six digits (tests/reference)."""
    whole = survey(FRAME, DESIGNS[design])
    file = SyntheticFile(whole)

    def se(equation: Equation, **columns: str) -> np.ndarray:
        question = InfluenceQuestion(equation, lambda t: {k: t[v] for k, v in columns.items()})
        released, (arrays,) = released_at(question, [file])
        parts = equation.influences(released, arrays.columns, file.weight, arrays.inside)
        return np.sqrt(np.diag(file.covariance(np.column_stack(parts))))

    for statistic, equation, columns in (
        ("mean(x)", MeanEquation(), {"y": "x"}),
        ("total(x)", TotalEquation(), {"y": "x"}),
        ("ratio(y / x)", RatioEquation(), {"y": "y", "z": "x"}),
    ):
        table = tabulate(whole, statistic)
        np.testing.assert_allclose(se(equation, **columns), table["se"].to_numpy(), rtol=1e-9)
    for family, outcome, equation in (
        ("gaussian", "y", RegressionEquation(Gaussian(), 1, (0, 1))),
        ("binomial", "b", RegressionEquation(Binomial(), 1, (0, 1))),
        ("poisson", "k", RegressionEquation(Poisson(), 1, (0, 1))),
    ):
        table = regress(whole, f"{outcome} ~ x", family=family)
        made = se(equation, y=outcome, x0="x")
        np.testing.assert_allclose(made, table["se"].to_numpy(), rtol=1e-7)


def test_what_the_files_do_not_have_is_refused() -> None:
    file = SyntheticFile(survey(FRAME))
    nobody = InfluenceQuestion(MeanEquation(), lambda t: {"y": t["x"]}, lambda t: t["x"] > 1e9)
    with pytest.raises(Refused, match="no record in this domain"):
        released_at(nobody, [file])
    zero = InfluenceQuestion(RatioEquation(), lambda t: {"y": t["x"], "z": t["x"] * 0})
    with pytest.raises(Refused, match="does not exist"):
        released_at(zero, [file])
    twice = InfluenceQuestion(
        RegressionEquation(Gaussian(), 2, (1,)),
        lambda t: {"y": t["y"], "x0": t["x"], "x1": t["x"] * 2},
    )
    with pytest.raises(Refused, match="collinear"):
        released_at(twice, [file])


def test_poisson_regression_solves_its_equation() -> None:
    table = regress(survey(FRAME), "k ~ x + y", family="poisson")
    beta = table["estimate"].to_numpy()
    mu = np.exp(beta[0] + beta[1] * X + beta[2] * Y)
    for values in (np.ones_like(X), X, Y):
        assert abs(W @ (values * (FRAME["k"].to_numpy() - mu))) < 1e-6 * (W @ np.abs(values))
    with pytest.raises(Refused, match="count"):
        regress(survey(FRAME.with_columns(k=pl.col("k") - 5)), "k ~ x", family="poisson")


def test_an_answer_without_one_of_its_numbers_is_refused() -> None:
    def released(estimates: list[float], bread: list[float]) -> object:
        fit = SimpleNamespace(estimates=np.array(estimates), bread=np.array(bread))
        equation = SimpleNamespace(everyone=True, released=lambda _: fit)
        question: Any = SimpleNamespace(equation=equation)
        return released_at(question, [])[0]

    assert released([1.0, 2.0], [1.0, 2.0])
    for estimates, bread in (([1.0, np.nan], [1.0, 2.0]), ([1.0, 2.0], [1.0, np.inf])):
        with pytest.raises(Refused, match="does not exist in the synthetic files"):
            released(estimates, bread)


@pytest.mark.parametrize("p", [0.1, 0.35, 0.5, 0.8])
def test_the_bandwidth_of_a_quantile_is_hall_and_sheathers(p: float) -> None:
    """n^(-1/3) z^(2/3) (1.5 s/s'')^(1/3), s = 1/f the density's inverse at the quantile: of the
    normal distribution, by finite differences. In a small file the tails leave less room."""

    def s(p: float) -> float:
        return float(1 / stats.norm.pdf(stats.norm.ppf(p)))

    curvature = (s(p + 1e-4) - 2 * s(p) + s(p - 1e-4)) / 1e-8
    z = stats.norm.ppf(0.975)
    expected = (z**2 * 1.5 * s(p) / curvature / 50_000) ** (1 / 3)
    assert bandwidth(p, 50_000) == pytest.approx(expected, rel=1e-4)
    assert bandwidth(p, 5) < min(p, 1 - p)
