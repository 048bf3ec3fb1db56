"""Regression: combining, domains and refusals (agreement with R is in tests/reference)."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import special, stats

import understudy as us
from understudy.tables.families.binomial import Binomial
from understudy.tables.families.ordered import OrderedLogit
from understudy.tables.families.poisson import Poisson

RNG = np.random.default_rng(5)
N = 120
FRAME = pl.DataFrame(
    {
        "w": RNG.gamma(2.0, 10.0, N),
        "h": np.repeat([1, 2, 3], N // 3),
        "x": RNG.normal(0.0, 1.0, N),
        "g": np.tile(["a", "b", "c"], N // 3),
        "y": RNG.normal(2.0, 1.0, N),
        "z": RNG.integers(0, 2, N),
    }
)
SURVEY = us.Survey(FRAME, us.Design("w", "h"))


def test_a_regression_on_a_constant_is_the_mean() -> None:
    fit = us.regress(SURVEY, "y ~ 1")
    mean = us.tabulate(SURVEY, "mean(y)")
    assert fit["estimate"][0] == pytest.approx(mean["estimate"][0], rel=1e-12)
    assert fit["se"][0] == pytest.approx(mean["se"][0], rel=1e-9)
    assert fit["df"][0] == mean["df"][0]


def test_a_logistic_constant_is_the_logit_of_the_proportion() -> None:
    fit = us.regress(SURVEY, "z ~ 1", family="binomial")
    share = us.tabulate(SURVEY, "mean(z)")
    p = share["estimate"][0]
    assert fit["estimate"][0] == pytest.approx(np.log(p / (1 - p)), rel=1e-9)
    assert fit["se"][0] == pytest.approx(share["se"][0] / (p * (1 - p)), rel=1e-6)


def test_a_domain_keeps_the_design() -> None:
    fit = us.regress(SURVEY, "y ~ 1", where="x > 0")
    mean = us.tabulate(SURVEY, "mean(y)", where="x > 0")
    assert fit["se"][0] == pytest.approx(mean["se"][0], rel=1e-9)
    assert fit["df"][0] == N - 3


def test_data_sets_are_combined() -> None:
    sets = [
        us.Survey(FRAME.with_columns(y=pl.col("y") + shift), SURVEY.design) for shift in (0.0, 1.0)
    ]
    both = us.regress(sets, "y ~ x + g", combine="partial")
    single = us.regress(SURVEY, "y ~ x + g")
    assert both["term"].to_list() == ["Intercept", "x", "g[T.b]", "g[T.c]"]
    assert both["estimate"][0] == pytest.approx(single["estimate"][0] + 0.5)
    assert both["se"][0] == pytest.approx(np.sqrt(single["se"][0] ** 2 + 0.5 / 2))
    assert both["se"][1] == pytest.approx(single["se"][1])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: us.regress(SURVEY, "y ~ xx"), "Unknown column in the formula"),
        (lambda: us.regress(SURVEY, "y ~ x +"), "cannot be read"),
        (lambda: us.regress(SURVEY, "x"), "one numeric outcome on the left"),
        (lambda: us.regress(SURVEY, "g ~ x"), "one numeric outcome on the left"),
        (lambda: us.regress(SURVEY, "y ~ x + I(2 * x)"), "collinear"),
        (lambda: us.regress(SURVEY, "log(y - 100) ~ x"), "not finite"),
        (lambda: us.regress(SURVEY, "y ~ x", family="binomial"), "0 or 1"),
        (lambda: us.regress(SURVEY, "y ~ x", family="gamma"), "Unknown family"),
        (lambda: us.regress([SURVEY], "y ~ x"), "combine="),
        (lambda: us.regress(SURVEY, "y ~ x", where="x > 100"), "No record"),
        (
            lambda: us.regress(
                us.Survey(FRAME.with_columns(z=(pl.col("x") > 0).cast(pl.Int64)), SURVEY.design),
                "z ~ x",
                family="binomial",
            ),
            "does not converge",
        ),
    ],
)
def test_refusals(call, says: str) -> None:
    with pytest.raises(us.Refused, match=says):
        call()


def test_a_rare_outcome_has_a_coefficient_far_below_zero() -> None:
    frame = pl.DataFrame({"z": [1] * 3 + [0] * (N - 3)})
    fit = us.regress(us.Survey(frame), "z ~ 1", family="binomial")
    assert fit["estimate"][0] == pytest.approx(np.log(3 / (N - 3)), rel=1e-9)


def test_limits_are_students() -> None:
    for level in (0.5, 0.95):
        fit = us.regress(SURVEY, "y ~ x", level=level)
        half = stats.t.isf((1 - level) / 2, fit["df"].to_numpy()) * fit["se"].to_numpy()
        np.testing.assert_allclose(fit["lower"], fit["estimate"] - half)
        np.testing.assert_allclose(fit["upper"], fit["estimate"] + half)


def test_lonely_strata_get_the_average_of_the_others() -> None:
    """With H strata, L of them lonely, H / (H - L) times what leaving them out gives."""
    frame = FRAME.with_columns(h=pl.Series([9, 8, *FRAME["h"][2:]]))
    errors = {
        rule: us.regress(us.Survey(frame, us.Design("w", "h", lonely_psu=rule)), "y ~ x")["se"]
        for rule in ("average", "certainty")
    }
    np.testing.assert_allclose(errors["average"], errors["certainty"] * np.sqrt(5 / 3))


def test_an_outcome_of_three_values_is_not_binary() -> None:
    three = FRAME.with_columns(z=pl.int_range(pl.len()) % 3)
    with pytest.raises(us.Refused, match="must be 0 or 1"):
        us.regress(us.Survey(three, SURVEY.design), "z ~ x", family="binomial")
    halves = us.Survey(three.with_columns(z=pl.col("z") / 2), SURVEY.design)
    us.regress(halves, "z ~ x", family="binomial")  # a share has a logit, and is no answer
    with pytest.raises(us.Refused, match="must be 0 or 1"):
        us.regress(halves, "z ~ x", family="probit")


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_coefficients_are_found_in_any_unit_of_a_predictor(unit: float) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=200)
    X, Z = (np.column_stack([np.ones(200), x * scale]) for scale in (1.0, unit))
    for family, y in (
        (Binomial(), rng.random(200) < special.expit(x)),
        (Poisson(), rng.poisson(2, 200)),
    ):
        beta = family.solve(y.astype(float), X, np.ones(200))
        scaled = family.solve(y.astype(float), Z, np.ones(200))
        assert scaled * [1.0, unit] == pytest.approx(beta, rel=1e-8)


def test_steps_from_a_far_start_do_not_run_away() -> None:
    """At a slope of 4 the chances are nearly 0 and 1, and a whole step would lead to -37."""
    x = np.linspace(-2, 2, 41)
    X, y = np.column_stack([np.ones(41), x]), (np.arange(41) % 3 == 0) * 1.0
    near, far = (Binomial().solve(y, X, np.ones(41), np.array([0.0, b])) for b in (0.0, 4.0))
    assert far == pytest.approx(near, abs=1e-9)


def test_extreme_predictors_keep_numbers() -> None:
    mu, slope = Poisson().mean_and_slope(np.array([-1e4, 0.0, 1e4]))
    assert np.isfinite(mu).all()
    assert mu.tolist() == slope.tolist()
    fit = OrderedLogit(np.array([0, 1, 2]), np.zeros((3, 1)), 3)
    assert np.isnan(fit.loglik(np.array([0.0, 1.0, 0.5]))).all()  # thresholds out of order
    assert np.isfinite(fit.loglik(np.array([0.0, 0.5, 1.0]))).all()


def test_columns_of_lists_are_refused_by_name() -> None:
    lists = FRAME.with_columns(l=pl.concat_list("x", "y"))
    for asked in (("mean(l)", ()), ("count", "l")):
        with pytest.raises(us.Refused, match="Column `l` is array"):
            us.tabulate(us.Survey(lists, SURVEY.design), *asked)


def test_records_on_a_cluster_are_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(us.Survey, "on_cluster", True)
    with pytest.raises(us.Refused, match="A regression needs every record in memory"):
        us.regress(SURVEY, "y ~ x")
