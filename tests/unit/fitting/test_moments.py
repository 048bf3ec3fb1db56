"""The exact sampler: moments, proposals against closed forms, and whole posteriors against weighted
independent draws and NUTS."""

from __future__ import annotations

from math import inf
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from flat_prior import fbs_numbers, fbs_reference, flat_draws
from monte_carlo import FAR, Matrix, compare, known_moments, standard_scores

from understudy.demo.doctorates import doctorates
from understudy.dp.moment_sums import IN_CACHE
from understudy.fitting import moments as moments_module
from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.moments import (
    Moments,
    cell_moments,
    is_linear,
    is_proper,
    metropolis_places,
    one_draw,
    propose,
    sample_exactly,
)
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
    n = 3 * IN_CACHE // 2
    rows, cell = rng.standard_normal((7, 3)), rng.integers(0, 7, n)
    X, Y, alpha = rows[cell], rng.standard_normal((n, 3)), rng.random(n)
    moments = cell_moments(rows, cell, Y.T, alpha)
    weighed = alpha[:, None] * X
    for ours, numpys in (
        (moments.XX, weighed.T @ X),
        (moments.XY, weighed.T @ Y),
        (moments.YY, (alpha[:, None] * Y).T @ Y),
        (moments.total, alpha.sum()),
    ):
        np.testing.assert_allclose(ours, numpys, rtol=1e-10, atol=1e-9)


def test_proposals_are_inverse_wishart_and_matrix_normal() -> None:
    """Means and a whole marginal distribution, against SciPy's closed forms."""
    rng = np.random.default_rng(1)
    X = np.c_[np.ones(40), rng.standard_normal(40)]
    Y = X @ rng.standard_normal((2, 3)) + rng.standard_normal((40, 3)) @ rng.random((3, 3))
    alpha = rng.random(40)
    moments = cell_moments(X, np.arange(40), Y.T, alpha)
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
    x = jax.random.normal(key_x, (120_000,))
    ratio = scipy.stats.norm.logpdf(x, 0.5, 0.8) - scipy.stats.norm.logpdf(x)
    levels = jnp.log(jax.random.uniform(key_u, x.shape))
    chain = np.asarray(x[jax.jit(metropolis_places)(jnp.asarray(ratio), levels)])[::10]
    assert scipy.stats.kstest(chain, scipy.stats.norm(0.5, 0.8).cdf).pvalue > 1e-6


# --- the whole sampler, against independent draws that are weighted ------------------------------


def fbp_reference(B: Matrix, Sigma: Matrix) -> tuple[Matrix, Matrix]:
    """beta, kappa_y, kappa_x and log sigmas of each draw; log prior of (B, Sigma), T appendix D."""
    y, yl, ll = Sigma[:, 0, 0], Sigma[:, 0, 1], Sigma[:, 1, 1]
    kappa = yl / y
    first = np.eye(B.shape[1])[0]  # the intercept
    beta = B[:, :, 0] - yl[:, None] * first
    kappa_x = B[:, :, 1] - kappa[:, None] * beta - ll[:, None] * first
    sigma_y, sigma_pi = np.sqrt(y), np.sqrt(ll - kappa * yl)
    coefficients = np.c_[beta, kappa, kappa_x]
    log_prior = scipy.stats.norm.logpdf(coefficients, 0, 10).sum(axis=1)
    log_prior += scipy.stats.halfcauchy.logpdf(sigma_y) + scipy.stats.halfcauchy.logpdf(sigma_pi)
    log_prior -= 3 * np.log(sigma_y) + np.log(sigma_pi)  # dSigma = 4 s_y^3 s_pi ds_y dkappa ds_pi
    return np.c_[coefficients, np.log(sigma_y), np.log(sigma_pi)], log_prior


def fbp_numbers(draws: dict[str, Matrix]) -> Matrix:
    logs = [np.log(draws["sigma_y"]), np.log(draws["sigma_pi"][..., None])]
    coefficients = [draws["beta"][..., 0], draws["kappa_y"], draws["kappa_x"]]
    return np.concatenate([*coefficients, *logs], axis=2)


@pytest.mark.parametrize(
    ("model", "sign", "reference", "numbers"),
    [(FBS, 1.0, fbs_reference, fbs_numbers), (FBP, -1.0, fbp_reference, fbp_numbers)],
    ids=["FBS", "FBP"],
)
def test_draws_are_those_of_the_weighted_posterior(
    model: type[FBS], sign: float, reference: Any, numbers: Any
) -> None:
    """Independent draws under the flat prior, weighted by the model's prior written with SciPy:
    the same means within .1 sd, and the same sds within 8 %."""
    survey = doctorates(80, seed=2)
    fitter = fitter_of(model("salary", "gender"), survey, draws=20_000)
    alpha = 0.2 + 0.8 * np.random.default_rng(0).random(survey.n)
    terms = plain_terms(fitter, alpha)
    assert is_linear(fitter.density, terms)
    posterior = fitter.fit(terms, "release")
    posterior.check()
    assert posterior.diagnostics.divergences == 0
    assert posterior.chains.shape[:2] == (4, 5000)
    Y = np.c_[fitter.arrays["y0"], sign * fitter.arrays["w"]]
    B, Sigma = flat_draws(fitter.arrays["X"], Y, alpha)
    points, log_prior = reference(B, Sigma)
    log_weight = log_prior + 1.5 * np.linalg.slogdet(Sigma)[1]  # over the flat |Sigma|^(-3/2)
    known = known_moments(points, np.exp(log_weight - log_weight.max()))
    compare(numbers(posterior.draws), known, shift=0.1, spread=0.08)


@pytest.mark.slow
@pytest.mark.parametrize("model", [FBS, FBP])
@pytest.mark.parametrize("n", [80, 400])
def test_same_posterior_as_nuts(model: type[FBS], n: int) -> None:
    survey = doctorates(n, seed=2)
    fitter = fitter_of(model("salary", "gender"), survey, draws=20_000)
    alpha = 0.2 + 0.8 * np.random.default_rng(0).random(survey.n)
    terms = plain_terms(fitter, alpha)
    exact = fitter.fit(terms, "release")
    nuts = fitter._sampled(terms, "release", exact.positions)
    exact.check()
    assert np.abs(standard_scores(exact.chains, nuts.positions)).max() < FAR


def test_linear_terms_only(survey: Survey) -> None:
    fitter = fitter_of(FBS("salary", "gender"), survey)
    ones, zeros = np.ones(survey.n), np.zeros(survey.n)
    assert is_linear(fitter.density, Terms(ones, zeros))
    assert not is_linear(fitter.density, Terms(ones, zeros, limit=3.0))
    assert not is_linear(
        fitter.density, Terms(ones, zeros, inf, np.zeros(fitter.density.dimension), 0.5)
    )


def test_one_draw_has_a_chain_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def chains(density: Any, count: int, per_chain: int, *rest: Any) -> Matrix:
        asked.append((density, count, per_chain, *rest))
        return np.arange(3.0 * count * per_chain).reshape(count, per_chain, 3)

    monkeypatch.setattr(moments_module, "_drawn", chains)
    arrays = {"y0": np.zeros(5), "X": np.zeros((5, 2), np.float32)}
    problem: list[Any] = ["density", arrays, "moments", "key"]
    assert one_draw(*problem).tolist() == [0.0, 1.0, 2.0]
    like = (("X", (5, 2), "float32"), ("y0", (5,), "float64"))
    assert asked == [("density", 1, 1, like, "key", "moments")]


def test_too_little_weight_is_left_to_nuts(survey: Survey) -> None:
    fitter = fitter_of(FBS("salary", "gender"), survey)
    density, arrays, key = fitter.density, fitter.safe_arrays, jax.random.key(0)
    female = arrays["X"][:, 1] == 1
    small, lopsided = np.full(survey.n, 1e-3), np.where(female, 0.0, 1.0)
    for alpha in (small, lopsided):
        draws = sample_exactly(density, arrays, jnp.asarray(alpha), fitter.settings, key)
        assert draws is None


def test_proposals_need_a_covariance_matrix_that_has_a_mean() -> None:
    """SciPy's inverse Wishart has a mean of Sigma under the same weights; units do not matter."""
    d, unit = 3, np.array([1e-9, 1e9])
    XX = np.array([[2.0, 0.5], [0.5, 1.0]]) * np.outer(unit, unit)
    zeros, R = jnp.zeros((2, d)), jnp.eye(d)
    for total in (5.5, 6.0, 6.01, 7.0):
        exists = scipy.stats.invwishart(total - 2, np.eye(d)).mean() is not None
        moments = Moments(jnp.asarray(XX), zeros, R, jnp.asarray(total))
        assert is_proper(moments) is exists
    without_weight, repeated = np.diag([1.0, 0.0]), np.outer(unit, unit)
    for singular in (without_weight, repeated):
        assert is_proper(Moments(jnp.asarray(singular), zeros, R, jnp.asarray(7.0))) is False


def test_a_part_of_the_weight_is_that_part_of_all_moments() -> None:
    """By the same random numbers, draw for draw, whatever the parts of the others."""
    rng = np.random.default_rng(5)
    X, Y = np.c_[np.ones(60), rng.normal(size=60)], rng.normal(size=(60, 2)) @ [[1, 0.4], [0, 2]]
    moments, key = cell_moments(X, np.arange(60), Y.T, np.full(60, 0.8)), jax.random.key(3)
    tempered = Moments(
        *(0.25 * part for part in (moments.XX, moments.XY, moments.YY, moments.total))
    )
    parts = np.tile([0.25, 1.0], 20)
    mixed = propose(key, moments, 40, parts)
    for k, of_all in enumerate((tempered, moments)):
        for ours, expected in zip(mixed, propose(key, of_all, 40), strict=True):
            np.testing.assert_allclose(ours[k::2], expected[k::2], rtol=1e-9)
