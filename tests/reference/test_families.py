"""Poisson, probit, ordered and multinomial logit against R (families.R)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import understudy as us
from understudy.errors import Refused
from understudy.tables.family import families
from understudy.tables.likelihood import LikelihoodFamily

LIKELIHOODS: dict[str, LikelihoodFamily] = families(LikelihoodFamily)
HERE = Path(__file__).parent
NUMBERS = pl.read_csv(HERE / "families_r.csv")
CASES = NUMBERS.select("design", "family", "formula").unique(maintain_order=True).rows()
# Of R's optimisers, which stop at a small gain in likelihood; svyglm iterates to the end.
DIGITS = {"ordered": (2e-4, 2e-4), "multinomial": (2e-5, 2e-5)}
FILES = {"strata": "stratified", "strata_psu": "clustered", "jkn_estimate": "jackknife"}


def survey_of(design: str) -> us.Survey:
    frame = pl.read_csv(HERE / "data" / f"{FILES[design]}.csv").drop_nulls(
        ["y", "z", "x", "a", "b"]
    )
    frame = frame.with_columns(
        af=pl.col("a"),
        xs=pl.col("x") / 100,
        a2=pl.when(pl.col("a") == "high").then(pl.lit("up")).otherwise(pl.lit("down")),
    )
    book = us.Codebook({"af": us.Column("af", type="categorical", levels=["low", "mid", "high"])})
    if design == "strata":
        return us.Survey(frame, us.Design("w", "h"), book)
    if design == "strata_psu":
        return us.Survey(frame, us.Design("w", "h", "cluster"), book)
    coefficients = pl.read_csv(HERE / "data/jackknife_coefficients.csv")["coefficient"].to_list()
    replicates = us.Replicates(prefix="jkn", kind="jkn", coefficients=coefficients)
    return us.Survey(frame, us.Design("w", replicates=replicates), book)


@pytest.mark.parametrize(("design", "family", "formula"), CASES)
def test_coefficients(design: str, family: str, formula: str) -> None:
    expected = NUMBERS.filter(
        pl.col("design") == design, pl.col("family") == family, pl.col("formula") == formula
    )
    fit = us.regress(survey_of(design), formula, family)
    terms = [term.replace("(Intercept)", "Intercept") for term in expected["term"]]
    assert fit["term"].to_list() == terms
    near, spread = DIGITS.get(family, (1e-7, 1e-6))
    # coefficients are compared in standard errors: some are near 0
    gap = (fit["estimate"] - expected["estimate"]) / expected["se"]
    assert gap.abs().max() < near
    np.testing.assert_allclose(fit["se"], expected["se"], rtol=spread)


@pytest.mark.parametrize("family", ["multinomial", "ordered"])
def test_two_levels_are_a_logistic_regression(family: str) -> None:
    survey = survey_of("strata_psu")
    logit = us.regress(survey, "a2 ~ x + b", "binomial")
    book = us.Codebook({"a2": us.Column("a2", type="categorical", levels=["down", "up"])})
    other = us.regress(us.Survey(survey.raw, survey.design, book), "a2 ~ x + b", family)
    if family == "ordered":  # logit P(y <= down) = zeta - x b
        other = other[[2, 0, 1]]
        assert -other["estimate"][0] == pytest.approx(logit["estimate"][0], rel=1e-8)
        assert other["estimate"].to_list()[1:] == pytest.approx(logit["estimate"].to_list()[1:])
    else:
        assert other["estimate"].to_list() == pytest.approx(logit["estimate"].to_list(), rel=1e-8)
    assert other["se"].to_list() == pytest.approx(logit["se"].to_list(), rel=1e-7)
    assert other["df"].to_list() == logit["df"].to_list()


@pytest.mark.parametrize("family", sorted(LIKELIHOODS))
def test_derivatives(family: str) -> None:
    """Scores and information against numerical derivatives of the log-likelihood."""
    rng = np.random.default_rng(5)
    levels = 2 if family == "probit" else 4
    X = rng.normal(size=(60, 2))
    likelihood = LIKELIHOODS[family].likelihood(rng.integers(0, levels, 60), X, levels)
    w = rng.uniform(0.5, 2, 60)
    theta = likelihood.start(w) + 0.1 * rng.normal(size=likelihood.start(w).shape)
    if family == "ordered":
        theta[2:].sort()
    h = 1e-6

    def moved(k: int, by: float) -> np.ndarray:
        out = theta.copy()
        out[k] += by
        return out

    for k in range(len(theta)):
        slope = (likelihood.loglik(moved(k, h)) - likelihood.loglik(moved(k, -h))) / (2 * h)
        np.testing.assert_allclose(likelihood.scores(theta)[:, k], slope, rtol=1e-5, atol=1e-7)
        if family != "probit":  # whose information is the expected one
            curve = w @ (likelihood.scores(moved(k, h)) - likelihood.scores(moved(k, -h))) / (2 * h)
            np.testing.assert_allclose(
                -likelihood.information(theta, w)[k], curve, rtol=1e-5, atol=1e-6
            )


def test_refusals() -> None:
    survey = survey_of("strata_psu")
    with pytest.raises(Refused, match="order of `a`"):
        us.regress(survey, "a ~ x", "ordered")
    with pytest.raises(Refused, match="has 2 levels"):
        us.regress(survey, "a ~ x", "binomial")
    with pytest.raises(Refused, match="must be a column"):
        us.regress(survey, "log(x) ~ b", "multinomial")
    with pytest.raises(Refused, match="0 or 1"):
        us.regress(survey, "t ~ x", "probit")
    with pytest.raises(Refused, match="Unknown family"):
        us.regress(survey, "t ~ x", "gamma")  # type: ignore[arg-type]
