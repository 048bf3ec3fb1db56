"""The sampler draws from the density that it is given: against grids, closed forms, NumPyro and
simulation.

Each test compares with something that shares no code with the sampler. Moments must agree within
six standard errors of long runs, which see shifts of a tenth of a standard deviation and standard
deviations that are wrong by a twelfth.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import polars as pl
import pytest
import scipy.special
import scipy.stats
from monte_carlo import FAR, KnownMoments, compare, lattice_moments, standard_scores
from numpyro.infer import MCMC, NUTS

from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.posterior import Posterior
from understudy.mechanisms.contract import Terms
from understudy.models.beta import Beta
from understudy.models.beta_regression import BetaRegression
from understudy.models.contract import Model
from understudy.models.from_numpyro import from_numpyro
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey

Matrix = np.ndarray


def fitter_of(model: Model, survey: Survey, seed: int = 1, **changed: Any) -> ModelFitter:
    settings = Settings(**{"draws": 10_000, "chains": 4, "warmup": 400, **changed})
    arrays = model.prepare(survey)
    return ModelFitter(model, survey, arrays, np.zeros(survey.n, bool), settings, seed)


def plain(n: int) -> Terms:
    return Terms(np.ones(n), np.zeros(n))


# --- Beta against a grid, for every kind of contribution -----------------------------------------

N = 150


@pytest.fixture(scope="module")
def shares() -> Survey:
    y = np.random.default_rng(7).beta(0.5, 3, N)
    codebook = Codebook({"y": Column("y", role="sensitive", bounds=(0.0, 1.0))})
    return Survey(pl.DataFrame({"y": y}), codebook=codebook)


def log_pareto(log_excess: Matrix) -> Matrix:
    """lambda ~ Pareto(0.1, 1.5) in u = log(lambda - 0.1): SciPy's density and d lambda / d u."""
    lam = 0.1 + np.exp(log_excess)
    return np.asarray(scipy.stats.pareto.logpdf(lam, 1.5, scale=0.1) + log_excess)


def log_beta_loglik(y: Matrix, logit: Matrix, lam: Matrix) -> Matrix:
    """log Beta(y; lam phi, lam (1 - phi)), by SciPy's special functions."""
    a, b = lam * scipy.special.expit(logit), lam * scipy.special.expit(-logit)
    powers = (a - 1) * np.log(y) + (b - 1) * np.log1p(-y)
    gammaln = scipy.special.gammaln
    return np.asarray(powers - gammaln(a) - gammaln(b) + gammaln(lam))


def beta_posterior(points: Matrix, y: Matrix, terms: Terms) -> Matrix:
    """Log density of (logit phi, log(lambda - 0.1)); phi is uniform."""
    logit, log_excess = points[:, :1], points[:, 1:]
    gain = log_beta_loglik(y, logit, 0.1 + np.exp(log_excess)) - terms.reference_loglik
    contributions = np.clip(terms.alpha * gain, -terms.limit, terms.limit)
    log_prior = scipy.stats.logistic.logpdf(logit[:, 0]) + log_pareto(log_excess[:, 0])
    return np.asarray(contributions.sum(axis=1) + log_prior)


@pytest.mark.parametrize("kind", ["unweighted", "weighted", "censored", "reference"])
def test_beta_draws_match_a_grid(shares: Survey, kind: str) -> None:
    fitter = fitter_of(Beta("y"), shares)
    y = shares.frame()["y"].to_numpy()
    alpha = np.linspace(0.2, 1.0, N)
    terms = {
        "unweighted": plain(N),
        "weighted": Terms(alpha, np.zeros(N)),
        "censored": Terms(alpha, np.zeros(N), 1.2),
        # records near 0 are clipped, and yet the density falls off for other data too
        "reference": Terms(np.full(N, 0.5), scipy.stats.beta.logpdf(y, 1.0, 3.0), 0.9),
    }[kind]
    start = np.array([[-1.8, 1.2]] * 4)
    posterior = fitter.fit(terms, "test", start)
    posterior.check()
    phi, lam = posterior.draws["phi"], posterior.draws["lambda"]
    chains = np.stack([scipy.special.logit(phi), np.log(lam - 0.1)], axis=2)
    known = lattice_moments(lambda q: beta_posterior(q, y, terms), chains.reshape(-1, 2), 0.2)
    limit = 0.25 if kind == "reference" else 0.1  # a density with many kinks is a slow one
    compare(chains, known, shift=limit, spread=limit)


# --- Beta regression against a grid, and against NumPyro's own NUTS -------------------------------


@pytest.fixture(scope="module")
def regression() -> tuple[Survey, Posterior]:
    rng = np.random.default_rng(5)
    n = 150  # as in the study of C: the same shapes are the same program
    gender, weeks = np.repeat(["f", "m"], n // 2), rng.uniform(10, 52, n)
    phi = 1 / (1 + np.exp(-(-1 + 0.4 * (gender == "m") + 0.02 * (weeks - 30))))
    y = rng.beta(8 * phi, 8 * (1 - phi))
    columns = [
        Column("gender", type="categorical", levels=("f", "m")),
        Column("weeks"),
        Column("y", role="sensitive", bounds=(0.0, 1.0)),
    ]
    frame = pl.DataFrame({"gender": gender, "weeks": weeks, "y": y})
    survey = Survey(frame, codebook=Codebook({c.name: c for c in columns}))
    posterior = fitter_of(BetaRegression("y", "gender + weeks"), survey).fit(plain(n), "test")
    posterior.check()
    return survey, posterior


def regression_chains(draws: Any) -> Matrix:
    """beta and log(lambda - 0.1), (chains, draws, 4)."""
    log_excess = np.log(np.asarray(draws["lambda"]) - 0.1)
    return np.concatenate([np.asarray(draws["beta"]), log_excess[..., None]], axis=-1)


def test_beta_regression_matches_a_grid(regression: tuple[Survey, Posterior]) -> None:
    survey, posterior = regression
    frame = survey.frame()
    y, weeks = frame["y"].to_numpy(), frame["weeks"].to_numpy()
    standard = (weeks - weeks.mean()) / weeks.std()
    X = np.c_[np.ones(survey.n), frame["gender"].to_numpy() == "m", standard]

    def log_density(points: Matrix) -> Matrix:
        beta, log_excess = points[:, :3], points[:, 3]
        logit, lam = beta @ X.T, 0.1 + np.exp(log_excess[:, None])
        log_prior = scipy.stats.norm.logpdf(beta, 0, [2.5, 1, 1]).sum(axis=1)
        return log_beta_loglik(y, logit, lam).sum(axis=1) + log_prior + log_pareto(log_excess)

    chains = regression_chains(posterior.draws)
    flat = chains.reshape(-1, 4)
    known = lattice_moments(log_density, flat, spacing=0.9, reach=7.2)
    compare(chains, known, shift=0.12, spread=0.12)


@pytest.mark.slow
def test_beta_regression_equals_numpyros_nuts(regression: tuple[Survey, Posterior]) -> None:
    survey, posterior = regression

    def written_again(X: Any, y: Any) -> None:  # with NumPyro's Beta, not our density
        beta = numpyro.sample("beta", dist.Normal(0, jax.numpy.array([2.5, 1, 1])).to_event(1))
        lam = numpyro.sample("lambda", dist.Pareto(0.1, 1.5))
        mean = jax.nn.sigmoid(X @ beta)
        with numpyro.plate("record", X.shape[0]):
            numpyro.sample("y", dist.Beta(lam * mean, lam * (1 - mean)), obs=y)

    kernel = NUTS(written_again, dense_mass=True)
    sampler = MCMC(kernel, num_warmup=400, num_samples=10_000, progress_bar=False)
    sampler.run(jax.random.PRNGKey(3), **BetaRegression("y", "gender + weeks").prepare(survey))
    theirs = regression_chains(sampler.get_samples()).reshape(4, 2500, 4)
    score = standard_scores(regression_chains(posterior.draws), theirs)
    assert np.abs(score).max() < FAR, score.round(1)


# --- A hierarchy: closed form given its two scales, and simulation-based calibration --------------

GROUPS = 4
RECORDS = 40


def hierarchy(group: Any, y: Any = None) -> None:
    centre = numpyro.sample("centre", dist.Normal(0.0, 1.0))
    spread = numpyro.sample("spread", dist.LogNormal(-0.5, 0.5))
    raw = numpyro.sample("raw", dist.Normal(0.0, 1.0).expand([GROUPS]).to_event(1))
    sigma = numpyro.sample("sigma", dist.LogNormal(0.0, 0.5))
    with numpyro.plate("record", group.shape[0]):
        numpyro.sample("y", dist.Normal(centre + spread * raw[group], sigma), obs=y)


HIERARCHY = from_numpyro(hierarchy, ["y"])
GROUP = np.arange(RECORDS) % GROUPS


def survey_of(y: Matrix) -> Survey:
    return Survey(pl.DataFrame({"group": GROUP, "y": y}), codebook=Codebook())


def hierarchy_moments(y: Matrix, alpha: Matrix) -> KnownMoments:
    """Of centre, the four effects, log spread and log sigma: given the two scales the others are
    normal, so that a grid over the two scales, up to 6 prior standard deviations, is all."""
    grid = np.stack(np.meshgrid(np.linspace(-3.5, 2.5, 121), np.linspace(-3, 3, 241)), -1)
    scales = grid.reshape(-1, 2)
    log_spread, log_sigma = scales.T
    Z = np.c_[np.ones(RECORDS), GROUP[:, None] == np.arange(GROUPS)]  # centre, effects
    m, k = len(scales), GROUPS + 1
    prior = np.concatenate([np.ones((m, 1)), np.exp(-2 * log_spread[:, None]).repeat(GROUPS, 1)], 1)
    by_noise = np.exp(-2 * log_sigma)
    precision = (Z.T * alpha) @ Z * by_noise[:, None, None] + prior[:, :, None] * np.eye(k)
    right = (Z.T * alpha) @ y * by_noise[:, None]
    covariance = np.linalg.inv(precision)
    mean = np.einsum("mij,mj->mi", covariance, right)
    height = scipy.stats.norm.logpdf(log_spread, -0.5, 0.5)
    height += scipy.stats.norm.logpdf(log_sigma, 0.0, 0.5)
    height += 0.5 * (np.log(prior).sum(axis=1) - np.linalg.slogdet(precision)[1])
    height += 0.5 * (right * mean).sum(axis=1)
    height -= 0.5 * alpha @ y**2 * by_noise + alpha.sum() * log_sigma
    mass = np.exp(height - height.max())
    mass /= mass.sum()
    # moments of a mixture of normals N(mean, v) about its own mean, in closed form
    v = np.diagonal(covariance, axis1=1, axis2=2)
    all_mean, all_v = np.c_[mean, scales], np.c_[v, np.zeros((m, 2))]
    centre = mass @ all_mean
    off = all_mean - centre
    fourth = off**4 + 6 * off**2 * all_v + 3 * all_v**2
    return KnownMoments(centre, mass @ (off**2 + all_v), mass @ fourth)


@pytest.mark.parametrize("kind", ["far apart", "alike", "weighted"])
def test_a_hierarchy_has_its_closed_form(kind: str) -> None:
    rng = np.random.default_rng(11)
    effects = {"alike": 0.1, "far apart": 1.5, "weighted": 0.6}[kind] * np.array([-1.0, 1, 0, 0.5])
    y = rng.normal(0.5 + effects[GROUP], 0.8)
    alpha = rng.uniform(0.1, 1.0, RECORDS) if kind == "weighted" else np.ones(RECORDS)
    fitter = fitter_of(HIERARCHY, survey_of(y), draws=12_000, target_acceptance=0.9)
    posterior = fitter.fit(Terms(alpha, np.zeros(RECORDS)), "test")
    posterior.check()
    draws = posterior.draws
    effect = draws["spread"][..., None] * draws["raw"]
    logs = [np.log(draws["spread"])[..., None], np.log(draws["sigma"])[..., None]]
    chains = np.concatenate([draws["centre"][..., None], effect, *logs], axis=2)
    compare(chains, hierarchy_moments(y, alpha), shift=0.12, spread=0.12)


def ranks(replicates: int, kept: int = 63) -> dict[str, np.ndarray]:
    """Rank of the true parameter among `kept` posterior draws, for each replicate."""
    rng = np.random.default_rng(11)
    rank: dict[str, list[int]] = {"centre": [], "spread": [], "sigma": [], "effect": []}
    for replicate in range(replicates):
        truth = {
            "centre": rng.normal(),
            "spread": np.exp(rng.normal(-0.5, 0.5)),
            "sigma": np.exp(rng.normal(0.0, 0.5)),
        }
        raw = rng.normal(size=GROUPS)
        truth["effect"] = truth["spread"] * raw[0]
        y = rng.normal(truth["centre"] + truth["spread"] * raw[GROUP], truth["sigma"])
        settings = {"draws": 600, "chains": 1, "warmup": 250, "most_thinning": 1}
        fitter = fitter_of(
            HIERARCHY, survey_of(y), seed=replicate, target_acceptance=0.9, **settings
        )
        draws = fitter.fit(plain(RECORDS), "test").draws
        values = {name: draws[name][0] for name in ("centre", "spread", "sigma")}
        values["effect"] = values["spread"] * draws["raw"][0, :, 0]
        for name, value in values.items():
            chosen = value[np.linspace(0, value.size - 1, kept).astype(int)]
            rank[name].append(int((chosen < truth[name]).sum()))
    return {name: np.array(of_name) for name, of_name in rank.items()}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_simulation_based_calibration_of_a_hierarchy() -> None:
    for name, rank in ranks(600).items():
        counts = np.bincount(rank * 8 // 64, minlength=8)
        assert scipy.stats.chisquare(counts).pvalue > 1e-6, name
