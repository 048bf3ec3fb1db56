"""NegativeBinomial: probabilities against SciPy, generated counts, and what it refuses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
import scipy.stats

from understudy.errors import Refused, UnknownName
from understudy.mechanisms.unweighted import Unweighted
from understudy.models.density import density_of
from understudy.models.negative_binomial import NegativeBinomial
from understudy.survey.survey import Survey
from understudy.synthesis import synthesize


def counts_survey(n: int = 60, seed: int = 1) -> Survey:
    rng = np.random.default_rng(seed)
    y = rng.negative_binomial(4, 4 / (4 + 30), n)
    return Survey(pl.DataFrame({"group": rng.choice(["a", "b"], n), "y": y}))


def test_record_log_likelihoods_are_scipys() -> None:
    model = NegativeBinomial("y", "group")
    arrays = model.prepare(counts_survey())
    density = density_of(model, arrays)
    for position in ([3.0, 0.4, -1.5], [4.6, -0.7, 1.2], [0.1, 0.0, -6.0]):
        value = density.constrain_now(np.asarray(position), arrays)
        mean = np.exp(arrays["X"] @ np.asarray(value["beta"]))
        phi = 1.0 / float(value["overdispersion"])
        # SciPy: successes phi, probability phi/(phi + mean): variance mean + mean^2/phi
        expected = scipy.stats.nbinom.logpmf(arrays["y"], phi, phi / (phi + mean))
        loglik = density.evaluate_now(jnp.asarray(position), arrays)[1]
        np.testing.assert_allclose(loglik, expected, rtol=1e-9, atol=1e-9)


def test_log_prior_is_scipys_with_the_jacobian() -> None:
    model = NegativeBinomial("y", "group")
    arrays = model.prepare(counts_survey())
    density = density_of(model, arrays)
    assert list(density.shapes) == ["beta", "overdispersion"]
    position = np.array([3.1, 0.4, -1.5])
    expected = scipy.stats.norm.logpdf(3.1, 0, 5) + scipy.stats.norm.logpdf(0.4, 0, 1)
    expected += scipy.stats.halfcauchy.logpdf(np.exp(-1.5), scale=5) - 1.5  # R: half-Cauchy(0, 5)
    log_prior, _ = density.evaluate_now(jnp.asarray(position), arrays)
    assert float(log_prior) == pytest.approx(expected, abs=1e-10)


def test_generated_counts_have_the_mean_and_variance() -> None:
    model = NegativeBinomial("y")
    arrays = {"X": np.ones((12_000, 1)), "y": np.arange(12_000.0)}
    density = density_of(model, arrays)
    position = density.unconstrain_now({"beta": [np.log(100.0)], "overdispersion": 1 / 5}, arrays)
    y = np.asarray(jax.jit(density.generate)(jax.random.key(3), position, arrays)["y"])
    assert y.dtype.kind == "i"
    assert y.mean() == pytest.approx(100, abs=6 * np.sqrt(2100 / 12_000))
    assert y.var() == pytest.approx(100 + 100**2 / 5, rel=0.15)


def test_synthesis_follows_the_groups() -> None:
    rng = np.random.default_rng(5)
    group = np.repeat(["a", "b"], 100)
    y = rng.negative_binomial(200, 200 / (200 + np.where(group == "a", 200.0, 600.0)))
    survey = Survey(pl.DataFrame({"group": group, "y": y}))
    result = synthesize(
        survey, NegativeBinomial("y", "group"), Unweighted(), seed=2, draws=800, chains=2,
        warmup=200,
    )  # fmt: skip
    means = result.datasets[0].frame().group_by("group").agg(pl.col("y").mean()).sort("group")
    expected = [y[:100].mean(), y[100:].mean()]  # 0.1 is 7 standard errors of the smaller
    assert means["y"].to_list() == pytest.approx(expected, rel=0.1)
    assert result.claim.kind == "risk"
    assert result.datasets[0].frame()["y"].dtype == pl.Int64


def test_without_predictors_there_is_one_mean() -> None:
    arrays = NegativeBinomial("y").prepare(Survey(pl.DataFrame({"y": [0, 4, 2]})))
    assert arrays["X"].tolist() == [[1.0]] * 3
    assert arrays["y"].tolist() == [0.0, 4.0, 2.0]


def test_it_refuses_what_is_no_count() -> None:
    for values, message in (
        ([1.0, -2.0, 3.0], "negative or not whole"),
        ([1.0, 2.5, 3.0], "negative or not whole"),
        ([1.0, None, 3.0], "missing values"),
        (["a", "b", "c"], "not numeric"),
    ):
        with pytest.raises(Refused, match=message):
            NegativeBinomial("y").prepare(Survey(pl.DataFrame({"y": values})))
    with pytest.raises(UnknownName):
        NegativeBinomial("z").prepare(counts_survey())
