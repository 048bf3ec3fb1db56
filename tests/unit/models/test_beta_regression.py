"""BetaRegression: log-likelihoods and prior against SciPy, on a hand-made design matrix."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
import scipy.stats

from understudy.models.beta_regression import BetaRegression
from understudy.models.density import density_of
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey


@pytest.fixture
def salaries() -> Survey:
    rng = np.random.default_rng(2)
    frame = pl.DataFrame(
        {
            "gender": rng.choice(["f", "m"], 30),
            "weeks": rng.integers(2, 53, 30),
            "salary": rng.uniform(20_000, 180_000, 30),
        }
    )
    columns = [
        Column("gender", type="categorical", levels=("f", "m")),
        Column("weeks", type="integer"),
        Column("salary", role="sensitive", bounds=(0.0, 200_000.0)),
    ]
    return Survey(frame, codebook=Codebook({c.name: c for c in columns}))


def test_log_likelihoods_and_prior_are_scipys(salaries: Survey) -> None:
    model = BetaRegression("salary", "gender + weeks")
    arrays = model.prepare(salaries)
    density = density_of(model, arrays)
    beta, log_excess = np.array([-0.4, 0.3, 0.8]), 1.1
    sites = {"beta": beta, "lambda": np.array([log_excess])}
    position = jnp.asarray(np.concatenate([sites[name] for name in density.shapes]))
    log_prior, loglik = density.evaluate(position, arrays)

    frame = salaries.frame()
    weeks = frame["weeks"].to_numpy().astype(float)
    male = (frame["gender"] == "m").to_numpy().astype(float)
    eta = beta[0] + beta[1] * male + beta[2] * (weeks - weeks.mean()) / weeks.std()
    phi, lam = 1 / (1 + np.exp(-eta)), 0.1 + np.exp(log_excess)
    y = frame["salary"].to_numpy() / 200_000
    expected = scipy.stats.beta.logpdf(y, lam * phi, lam * (1 - phi))
    np.testing.assert_allclose(loglik, expected, rtol=1e-10, atol=1e-10)

    prior = scipy.stats.norm.logpdf(beta, 0, [2.5, 1, 1]).sum() + log_excess
    prior += scipy.stats.pareto.logpdf(lam, 1.5, scale=0.1)
    assert float(log_prior) == pytest.approx(prior, abs=1e-12)


def test_extreme_predictors_keep_the_likelihood_finite(salaries: Survey) -> None:
    model = BetaRegression("salary", "gender + weeks")
    arrays = model.prepare(salaries)
    density = density_of(model, arrays)
    loglik = density.record_loglik(jnp.full(density.dimension, 12.0), arrays)
    assert np.isfinite(np.asarray(loglik)).all()
