"""Intercepts of PSUs: log-likelihoods against SciPy, draws against their closed-form conditional
mean, and standard errors of synthetic files that know of the clusters."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from scipy import stats

import understudy as us
from understudy.errors import Refused
from understudy.models.clustered import PsuIntercepts
from understudy.models.density import density_of
from understudy.models.normal_sample import FBS
from understudy.models.piled import Piled
from understudy.survey.codebook import Codebook, Column

PSUS, EACH = 12, 20
N = PSUS * EACH
DESIGN = us.Design(weight="w", psu="school")
PARAMETERS = {
    "coefficients": np.array([[3.0, 0.1], [0.3, -0.2]]),
    "scale": np.array([0.5, 0.4]),
    "correlation": np.array([[1.0, 0.0], [0.6, 0.8]]),
    "psu_spread": np.array([0.3, 0.1]),
    "psu_effect": np.random.default_rng(2).normal(0, 0.3, (PSUS, 2)),
}


def scores(design: us.Design = DESIGN, **facts: Any) -> us.Survey:
    """Scores that vary more between schools than within them."""
    rng = np.random.default_rng(8)
    school = np.repeat(np.arange(PSUS), EACH)
    log_score = 3 + rng.normal(0, 0.4, PSUS)[school] + rng.normal(0, 0.3, N)
    frame = pl.DataFrame(
        {
            "score": np.exp(log_score),
            "sex": rng.choice(["f", "m"], N),
            "w": rng.uniform(1, 3, N),
            "school": 10 + school,
            "area": school // 6,
        }
    )
    columns = {
        "score": Column("score", "sensitive", **facts),
        "sex": Column("sex", "public", "categorical", levels=("f", "m")),
        "w": Column("w", "weight"),
    }
    return us.Survey(frame, design, Codebook(columns, population_size=480.0))


def test_a_record_is_normal_around_the_intercept_of_its_psu() -> None:
    survey = scores()
    model = FBS("score", "sex", psu_intercepts=True).for_survey(survey)
    arrays = model.prepare(survey)
    density = density_of(model, arrays)
    position = density.unconstrain_now(PARAMETERS, arrays)
    log_prior, loglik = map(np.asarray, density.evaluate_now(position, arrays))
    frame = survey.frame()
    X = np.column_stack([np.ones(N), frame["sex"] == "m"])
    Y = np.column_stack([np.log(frame["score"]), np.log(frame["w"] / 2)])
    mean = (
        X @ PARAMETERS["coefficients"] + PARAMETERS["psu_effect"][frame["school"].to_numpy() - 10]
    )
    factor = PARAMETERS["scale"][:, None] * PARAMETERS["correlation"]
    expected = stats.multivariate_normal([0, 0], factor @ factor.T).logpdf(Y - mean)
    np.testing.assert_allclose(loglik, expected, rtol=1e-9)

    flat = FBS("score", "sex").for_survey(survey)
    inner = {n: a for n, a in arrays.items() if n != "psu"}
    own = {n: v for n, v in PARAMETERS.items() if not n.startswith("psu")}
    without = density_of(flat, inner)
    rest = without.evaluate_now(without.unconstrain_now(own, inner), inner)[0]
    spread = PARAMETERS["psu_spread"]
    of_psus = stats.norm.logpdf(PARAMETERS["psu_effect"], 0, spread).sum()
    of_psus += stats.norm.logpdf(np.log(spread), np.log(0.2), 1).sum()  # with the Jacobian of log
    assert float(log_prior) == pytest.approx(float(rest) + of_psus, abs=1e-9)


def test_chains_start_around_no_intercepts_with_steps_of_standard_errors() -> None:
    survey = scores()
    model = FBS("score", "sex", psu_intercepts=True).for_survey(survey)
    arrays, alpha = model.prepare(survey), np.linspace(0.2, 0.8, N)
    start = model.start(arrays, alpha, 3)
    assert start is not None
    assert start["psu_spread"].tolist() == [0.2, 0.2]
    away = np.random.default_rng(3).normal(size=(PSUS, 2))
    np.testing.assert_allclose(start["psu_effect"], 0.1 * away)
    scale = model.start_scale(start, arrays, alpha)
    weight = 1 + alpha.reshape(PSUS, EACH).sum(axis=1)
    np.testing.assert_allclose(
        scale["psu_effect"], weight[:, None] ** -0.5 * start["scale"][None, :]
    )
    assert scale["psu_spread"] == pytest.approx((2 * PSUS) ** -0.5)


@pytest.mark.slow
def test_draws_have_their_conditional_mean() -> None:
    """E[u_c | rest] = (D^-1 + n_c S^-1)^-1 S^-1 sum of residuals, averaged over the draws."""
    model = FBS("score", "sex", psu_intercepts=True)
    posterior = us.synthesize(
        scores(), model, us.Unweighted(), seed=5, draws=800, diagnostics="report"
    ).posterior
    assert posterior is not None
    constrain = jax.jit(jax.vmap(lambda q: posterior.density.constrain(q, posterior.arrays)))
    drawn = {n: np.asarray(v) for n, v in constrain(jnp.asarray(posterior.positions)).items()}
    X, psu = posterior.arrays["X"], posterior.arrays["psu"]
    Y = np.column_stack([posterior.arrays["y0"], posterior.arrays["w"]])
    means = []
    for k in range(len(drawn["scale"])):
        factor = drawn["scale"][k][:, None] * drawn["correlation"][k]
        precision = np.linalg.inv(factor @ factor.T)
        total = np.stack([(Y - X @ drawn["coefficients"][k])[psu == c].sum(0) for c in range(PSUS)])
        V = np.linalg.inv(np.diag(drawn["psu_spread"][k] ** -2.0) + EACH * precision)
        means.append(total @ precision @ V)
    effect = drawn["psu_effect"]
    distance = np.abs(effect.mean(axis=0) - np.mean(means, axis=0)) / effect.std(axis=0)
    assert distance.max() < 0.35


def topcoded() -> us.Survey:
    survey = scores(bounds=(0.0, 40.0), special=(40.0,))
    capped = survey.frame().with_columns(pl.col("score").clip(upper_bound=40.0))
    return us.Survey(capped, survey.design, survey.codebook)


def test_files_keep_the_clusters_and_stop_at_the_topcode() -> None:
    """The standard error of a mean by PSU is that of the confidential file, not that of free
    records; a short fit, since intercepts of PSUs with 20 records are well known."""
    survey = topcoded()
    model = FBS("score", "sex", psu_intercepts=True)
    result = us.synthesize(
        survey, model, us.Unweighted(), seed=5, draws=50, warmup=100, chains=1,
        diagnostics="report",
    )  # fmt: skip
    made = result.datasets[0]
    assert made.design.psu == "school"
    assert (made.frame()["score"] <= 40).all()
    error = us.tabulate(survey, "mean(score)")["se"][0]
    assert us.tabulate(made, "mean(score)")["se"][0] > 0.6 * error
    shuffled = made.frame().with_columns(pl.col("score").shuffle(seed=1))
    free = us.Survey(shuffled, made.design, made.codebook)
    assert us.tabulate(free, "mean(score)")["se"][0] < 0.5 * error


def test_psus_are_counted_within_strata_where_their_numbers_start_again() -> None:
    nested = us.Design(weight="w", strata="area", psu="school", nest=True)
    model = FBS("score", "sex", psu_intercepts=True).for_survey(scores(nested))
    assert isinstance(model, PsuIntercepts)
    assert model.columns == ("area", "school")
    assert model.given_columns() == ("sex", "area", "school")
    assert len(model.labels) == PSUS


def test_piles_go_around_intercepts() -> None:
    survey = topcoded()
    model = FBS("score", "sex", psu_intercepts=True).for_survey(survey)
    assert isinstance(model, Piled)
    assert isinstance(model.base, PsuIntercepts)
    arrays = model.prepare(survey)
    density = density_of(model, arrays)
    position = density.unconstrain_now(PARAMETERS, arrays)
    loglik = np.asarray(density.evaluate_now(position, arrays)[1])
    i = int(np.argmax(arrays["kind"] == -1))
    X = arrays["X"]
    mean = X[i] @ PARAMETERS["coefficients"] + PARAMETERS["psu_effect"][arrays["psu"][i]]
    factor = PARAMETERS["scale"][:, None] * PARAMETERS["correlation"]
    Sigma = factor @ factor.T
    log_w = arrays["w"][i]
    slope = Sigma[0, 1] / Sigma[1, 1]
    centre, spread = mean[0] + slope * (log_w - mean[1]), np.sqrt(Sigma[0, 0] - slope * Sigma[0, 1])
    expected = stats.norm.logsf(np.log(40), centre, spread)
    expected += stats.norm.logpdf(log_w, mean[1], np.sqrt(Sigma[1, 1]))
    assert loglik[i] == pytest.approx(expected, rel=1e-9)


def test_what_has_no_clusters_is_refused() -> None:
    model = FBS("score", "sex", psu_intercepts=True)
    with pytest.raises(Refused, match="name their column in the design"):
        model.for_survey(scores(us.Design(weight="w")))
    survey = scores()
    alone = us.Survey(
        survey.frame().with_row_index("id"), us.Design("w", psu="id"), survey.codebook
    )
    with pytest.raises(Refused, match="Every record is a `id` of its own"):
        model.for_survey(alone)
    other = us.Survey(
        survey.frame().with_columns(school=pl.col("school") + 1), survey.design, survey.codebook
    )
    bound = model.for_survey(survey)
    with pytest.raises(Refused, match="not those of the confidential survey"):
        bound.prepare(other, like=survey)
    with pytest.raises(Refused, match="stands for one variable"):
        bound.bounded_target(survey.codebook)
