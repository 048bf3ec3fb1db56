"""The exact sampler: moments, proposals against closed forms, and the same posterior as NUTS."""

from __future__ import annotations

from math import inf

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from monte_carlo import FAR, standard_scores

from understudy.demo.doctorates import doctorates
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.moments import (
    is_linear,
    metropolis_places,
    propose,
    sample_exactly,
    weighted_moments,
)
from understudy.fitting.nuts import Settings
from understudy.mechanisms.contract import Terms, plain_terms
from understudy.models.normal_population import FBP
from understudy.models.normal_sample import FBS
from understudy.survey.survey import Survey


@pytest.fixture(scope="module")
def survey() -> Survey:
    return doctorates(400, seed=2)


def fitter_of(model: FBS | FBP, survey: Survey, draws: int = 2000) -> ModelFitter:
    bound = model.for_survey(survey)
    nobody = np.zeros(survey.n, dtype=bool)
    return ModelFitter(bound, survey, bound.prepare(survey), nobody, Settings(draws, warmup=200), 7)


def test_moments_are_numpys() -> None:
    rng = np.random.default_rng(0)
    X, Y, alpha = rng.standard_normal((50, 3)), rng.standard_normal((50, 2)), rng.random(50)
    found = weighted_moments(X, Y, alpha)
    A = np.diag(alpha)
    np.testing.assert_allclose(found.XX, X.T @ A @ X)
    np.testing.assert_allclose(found.XY, X.T @ A @ Y)
    np.testing.assert_allclose(found.YY, Y.T @ A @ Y)
    assert float(found.total) == pytest.approx(alpha.sum())


def test_proposals_are_inverse_wishart_and_matrix_normal() -> None:
    """Means and a whole marginal distribution, against SciPy's closed forms."""
    rng = np.random.default_rng(1)
    X = np.c_[np.ones(40), rng.standard_normal(40)]
    Y = X @ rng.standard_normal((2, 3)) + rng.standard_normal((40, 3)) @ rng.random((3, 3))
    alpha = rng.random(40)
    moments = weighted_moments(X, Y, alpha)
    draw = jax.jit(propose, static_argnums=2)
    B, Sigma = map(np.asarray, draw(jax.random.key(0), moments, 40_000))
    centre = np.linalg.solve(moments.XX, moments.XY)
    R = np.asarray(moments.YY) - np.asarray(moments.XY).T @ centre
    nu = alpha.sum() - 2
    wishart = scipy.stats.invwishart(nu, R)
    spread = Sigma.std(axis=0) / np.sqrt(len(Sigma))
    assert (np.abs(Sigma.mean(axis=0) - wishart.mean()) < FAR * spread).all()
    # a diagonal element of an inverse Wishart is inverse gamma((nu - d + 1)/2, R_jj/2)
    marginal = scipy.stats.invgamma((nu - 3 + 1) / 2, scale=R[1, 1] / 2)
    assert scipy.stats.kstest(Sigma[:, 1, 1], marginal.cdf).pvalue > 1e-6
    # B_kj is a t with nu - d + 1 degrees of freedom around B_hat (scaled by (X'AX)^-1 and R)
    variance = np.linalg.inv(moments.XX)[0, 0] * R[2, 2] / (nu - 3 + 1)
    t = scipy.stats.t(nu - 3 + 1, centre[0, 2], np.sqrt(variance))
    assert scipy.stats.kstest(B[:, 0, 2], t.cdf).pvalue > 1e-6


def test_metropolis_corrects_the_proposals() -> None:
    """Standard normal proposals with the ratio of N(.5, .8^2) to it give N(.5, .8^2)."""
    key_x, key_u = jax.random.split(jax.random.key(3))
    x = jax.random.normal(key_x, (60_000,))
    ratio = scipy.stats.norm.logpdf(x, 0.5, 0.8) - scipy.stats.norm.logpdf(x)
    levels = jnp.log(jax.random.uniform(key_u, x.shape))
    chain = np.asarray(x[jax.jit(metropolis_places)(jnp.asarray(ratio), levels)])[::10]
    assert scipy.stats.kstest(chain, scipy.stats.norm(0.5, 0.8).cdf).pvalue > 1e-6


@pytest.mark.parametrize("model", [FBS, FBP])
@pytest.mark.parametrize("n", [80, pytest.param(400, marks=pytest.mark.slow)])
def test_same_posterior_as_nuts(model: type[FBS], n: int) -> None:
    """Means and variances, by their Monte Carlo errors over 6,000 draws of each, which see a shift
    of .2 sd and an sd that is off by 20 %."""
    survey = doctorates(n, seed=2)
    fitter = fitter_of(model("salary", "gender"), survey, draws=6000)
    alpha = 0.2 + 0.8 * np.random.default_rng(0).random(survey.n)
    terms = plain_terms(fitter, alpha)
    assert is_linear(fitter.density, terms)
    exact = fitter.fit(terms, "release")
    nuts = fitter._sampled(terms, "release", exact.positions)
    exact.check()
    assert np.abs(standard_scores(exact.chains, nuts.positions)).max() < FAR
    spread = nuts.positions.std(axis=(0, 1))
    centre = exact.chains.mean(axis=(0, 1))
    for wrong in (exact.chains + 0.2 * spread, centre + 1.2 * (exact.chains - centre)):
        assert np.abs(standard_scores(wrong, nuts.positions)).max() > FAR  # or it says nothing


def test_linear_terms_only(survey: Survey) -> None:
    fitter = fitter_of(FBS("salary", "gender"), survey)
    ones, zeros = np.ones(survey.n), np.zeros(survey.n)
    assert is_linear(fitter.density, Terms(ones, zeros))
    assert not is_linear(fitter.density, Terms(ones, zeros, limit=3.0))
    assert not is_linear(
        fitter.density, Terms(ones, zeros, inf, np.zeros(fitter.density.dimension), 0.5)
    )


def test_too_little_weight_is_left_to_nuts(survey: Survey) -> None:
    fitter = fitter_of(FBS("salary", "gender"), survey)
    density, arrays, key = fitter.density, fitter.safe_arrays, jax.random.key(0)
    female = arrays["X"][:, 1] == 1
    small, lopsided = np.full(survey.n, 1e-3), np.where(female, 0.0, 1.0)
    for alpha in (small, lopsided):
        found = sample_exactly(density, arrays, jnp.asarray(alpha), fitter.settings, key)
        assert found is None
