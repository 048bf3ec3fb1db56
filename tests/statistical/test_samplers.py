"""The sampler draws from the density that it is given: against grids, NumPyro and simulation.

Each test compares with something that shares no code with the sampler. p-values must exceed 1e-6:
all seeds pass.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import polars as pl
import pytest
import scipy.stats
from numpyro.infer import MCMC, NUTS

from understudy.fitting.fitter import ModelFitter
from understudy.fitting.nuts import Settings
from understudy.fitting.posterior import Posterior
from understudy.mechanisms.contract import Terms
from understudy.models.beta import Beta
from understudy.models.beta_regression import BetaRegression
from understudy.models.contract import Model
from understudy.models.from_numpyro import from_numpyro
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey


def fitter_of(model: Model, survey: Survey, seed: int = 1, **changed: Any) -> ModelFitter:
    settings = Settings(**{"draws": 3000, "chains": 4, "warmup": 500, **changed})
    arrays = model.prepare(survey)
    return ModelFitter(model, survey, arrays, np.zeros(survey.n, bool), settings, seed)


def thinned(draws: np.ndarray, posterior: Posterior) -> np.ndarray:
    """About as many draws as they are worth, so that tests for independent draws apply."""
    worth = min(posterior.diagnostics.least_ess_bulk, posterior.diagnostics.least_ess_tail)
    step = int(np.ceil(1.5 * draws.size / min(worth, draws.size)))
    return draws.reshape(-1)[::step]


# --- Beta against a grid, for every kind of contribution -----------------------------------------


def grid_marginals(
    y: np.ndarray, terms: Terms, phi: np.ndarray, lam: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """CDFs of phi and lambda on a grid: SciPy's densities and sums, nothing of ours."""
    log_post = np.empty((phi.size, lam.size))
    for a, p in enumerate(phi):
        loglik = scipy.stats.beta.logpdf(y[:, None], lam * p, lam * (1 - p))
        gain = terms.alpha[:, None] * (loglik - terms.reference_loglik[:, None])
        log_post[a] = np.clip(gain, -terms.limit, terms.limit).sum(axis=0)
    log_post += scipy.stats.pareto.logpdf(lam, 1.5, scale=0.1)
    mass = np.exp(log_post - log_post.max()) * np.gradient(phi)[:, None] * np.gradient(lam)
    mass /= mass.sum()
    cdfs = [np.cumsum(mass.sum(axis=axis)) for axis in (1, 0)]
    return cdfs[0] - mass.sum(axis=1) / 2, cdfs[1] - mass.sum(axis=0) / 2


N = 150


@pytest.fixture(scope="module")
def shares() -> Survey:
    y = np.random.default_rng(7).beta(0.5, 3, N)
    codebook = Codebook({"y": Column("y", role="sensitive", bounds=(0.0, 1.0))})
    return Survey(pl.DataFrame({"y": y}), codebook=codebook)


@pytest.mark.parametrize("kind", ["unweighted", "weighted", "censored", "reference"])
def test_beta_draws_match_a_grid(shares: Survey, kind: str) -> None:
    fitter = fitter_of(Beta("y"), shares)
    y = shares.frame()["y"].to_numpy()
    alpha = np.linspace(0.2, 1.0, N)
    reference = scipy.stats.beta.logpdf(y, 0.6, 3.2)
    terms = {
        "unweighted": Terms(np.ones(N), np.zeros(N)),
        "weighted": Terms(alpha, np.zeros(N)),
        "censored": Terms(alpha, np.zeros(N), 1.2),
        "reference": Terms(np.full(N, 0.5), reference, 0.3),
    }[kind]
    start = np.array([[-1.8, 1.2]] * 4)
    posterior = fitter.fit(terms, "test", start)
    posterior.check()
    phi, lam = posterior.draws["phi"], posterior.draws["lambda"]
    grid_phi = np.linspace(phi.min() * 0.5, min(1.0, phi.max() * 1.5), 200)
    grid_lam = np.geomspace(0.1001, lam.max() * 3, 250)
    cdf_phi, cdf_lam = grid_marginals(y, terms, grid_phi, grid_lam)
    for draws, grid, cdf in ((phi, grid_phi, cdf_phi), (lam, grid_lam, cdf_lam)):
        uniform = np.interp(thinned(draws, posterior), grid, cdf)
        assert scipy.stats.kstest(uniform, "uniform").pvalue > 1e-6


# --- NumPyro's own NUTS ---------------------------------------------------------------------------


def numpyro_draws(function: Any, arrays: dict[str, np.ndarray], **static: Any) -> dict[str, Any]:
    kernel = NUTS(function, dense_mass=True)
    sampler = MCMC(kernel, num_warmup=400, num_samples=2000, progress_bar=False)
    sampler.run(jax.random.PRNGKey(3), **static, **arrays)
    return sampler.get_samples()


def test_beta_regression_equals_numpyros_nuts() -> None:
    rng = np.random.default_rng(5)
    n = 100
    gender, weeks = rng.choice(["f", "m"], n), rng.uniform(10, 52, n)
    phi = 1 / (1 + np.exp(-(-1 + 0.4 * (gender == "m") + 0.02 * (weeks - 30))))
    y = rng.beta(8 * phi, 8 * (1 - phi))
    columns = [
        Column("gender", type="categorical", levels=("f", "m")),
        Column("weeks"),
        Column("y", role="sensitive", bounds=(0.0, 1.0)),
    ]
    frame = pl.DataFrame({"gender": gender, "weeks": weeks, "y": y})
    survey = Survey(frame, codebook=Codebook({c.name: c for c in columns}))
    model = BetaRegression("y", "gender + weeks")
    fitter = fitter_of(model, survey)
    posterior = fitter.fit(Terms(np.ones(n), np.zeros(n)), "test")
    posterior.check()

    def written_again(X: Any, y: Any) -> None:  # with NumPyro's Beta, not our density
        beta = numpyro.sample("beta", dist.Normal(0, jax.numpy.array([2.5, 1, 1])).to_event(1))
        lam = numpyro.sample("lambda", dist.Pareto(0.1, 1.5))
        mean = jax.nn.sigmoid(X @ beta)
        with numpyro.plate("record", X.shape[0]):
            numpyro.sample("y", dist.Beta(lam * mean, lam * (1 - mean)), obs=y)

    theirs = numpyro_draws(written_again, model.prepare(survey))
    pairs = [(posterior.draws["lambda"], theirs["lambda"])]
    pairs += [(posterior.draws["beta"][..., k], theirs["beta"][:, k]) for k in range(3)]
    for ours, other in pairs:
        a, b = thinned(ours, posterior), np.asarray(other)[::2]
        assert scipy.stats.ks_2samp(a, b).pvalue > 1e-6


# --- Simulation-based calibration -----------------------------------------------------------------

GROUPS = 4
RECORDS = 40


def hierarchy(group: Any, y: Any = None) -> None:
    centre = numpyro.sample("centre", dist.Normal(0.0, 1.0))
    spread = numpyro.sample("spread", dist.LogNormal(-0.5, 0.5))
    raw = numpyro.sample("raw", dist.Normal(0.0, 1.0).expand([GROUPS]).to_event(1))
    sigma = numpyro.sample("sigma", dist.LogNormal(0.0, 0.5))
    with numpyro.plate("record", group.shape[0]):
        numpyro.sample("y", dist.Normal(centre + spread * raw[group], sigma), obs=y)


def ranks(replicates: int, kept: int = 63) -> dict[str, np.ndarray]:
    """Rank of the true parameter among `kept` posterior draws, for each replicate."""
    model = from_numpyro(hierarchy, ["y"])
    rng = np.random.default_rng(11)
    group = np.arange(RECORDS) % GROUPS
    found: dict[str, list[int]] = {"centre": [], "spread": [], "sigma": [], "effect": []}
    for replicate in range(replicates):
        truth = {
            "centre": rng.normal(),
            "spread": np.exp(rng.normal(-0.5, 0.5)),
            "sigma": np.exp(rng.normal(0.0, 0.5)),
        }
        raw = rng.normal(size=GROUPS)
        truth["effect"] = truth["spread"] * raw[0]
        y = rng.normal(truth["centre"] + truth["spread"] * raw[group], truth["sigma"])
        survey = Survey(pl.DataFrame({"group": group, "y": y}), codebook=Codebook())
        settings = {"draws": 600, "chains": 1, "warmup": 250, "most_thinning": 1}
        fitter = fitter_of(model, survey, seed=replicate, target_acceptance=0.9, **settings)
        draws = fitter.fit(Terms(np.ones(RECORDS), np.zeros(RECORDS)), "test").draws
        values = {name: draws[name][0] for name in ("centre", "spread", "sigma")}
        values["effect"] = values["spread"] * draws["raw"][0, :, 0]
        for name, value in values.items():
            chosen = value[np.linspace(0, value.size - 1, kept).astype(int)]
            found[name].append(int((chosen < truth[name]).sum()))
    return {name: np.array(rank) for name, rank in found.items()}


def check_uniform(found: dict[str, np.ndarray], kept: int = 63) -> None:
    for name, rank in found.items():
        counts = np.bincount(rank * 8 // (kept + 1), minlength=8)
        assert scipy.stats.chisquare(counts).pvalue > 1e-6, name


def test_simulation_based_calibration_of_a_hierarchy() -> None:
    check_uniform(ranks(120))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_simulation_based_calibration_of_a_hierarchy_at_length() -> None:
    check_uniform(ranks(600))
