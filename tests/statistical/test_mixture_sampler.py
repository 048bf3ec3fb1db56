"""The mixture's Gibbs sampler draws from its posterior: against NumPy draws of the prior alone.

Sweeps: parameters from the prior and records given them are a draw from the posterior, so sweeps
may change nothing in the joint distribution (Geweke). Thousands of such files are swept side by
side, and every number's mean change must be zero.

A whole fit: on a file that says little, draws of the prior weighted by prod_i S_i^alpha_i are the
posterior, in any number of dimensions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np
import polars as pl
import pytest
from monte_carlo import FAR, Matrix, compare, known_moments

from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.gibbs import has_gibbs, sample_by_gibbs
from understudy.mechanisms.contract import Terms
from understudy.models.compilation import compiled
from understudy.models.mixture import gibbs
from understudy.models.mixture.mixture import SIGMA_FLOOR, SPREAD_FLOOR, Mixture
from understudy.survey.survey import Survey

K, R = 3, 2


def half_t(rng: np.random.Generator, floor: float, shape: Any) -> Matrix:
    """|t| with 3 degrees of freedom, above `floor`."""
    draws = np.abs(rng.standard_t(3, shape))
    while (low := draws <= floor).any():
        draws[low] = np.abs(rng.standard_t(3, low.sum()))
    return draws


def prior_draws(rng: np.random.Generator, m: int, L: Matrix) -> gibbs.State:
    """gamma ~ Gamma(1, 1), pi ~ Dirichlet(gamma / K), theta = L beta, beta_kr ~ N(0, s_r^2)."""
    gamma = rng.gamma(1.0, 1.0, m)
    shape = np.repeat(gamma[:, None] / K, K, axis=1)
    log_share = np.log(rng.gamma(shape + 1.0)) + np.log(rng.random((m, K))) / shape
    log_share -= np.logaddexp.reduce(log_share, axis=1)[:, None]
    sigma, spread = half_t(rng, SIGMA_FLOOR, (m, K)), half_t(rng, SPREAD_FLOOR, (m, R))
    beta = rng.standard_normal((m, K, R)) * spread[:, None]
    loss_sigma = half_t(rng, SIGMA_FLOOR, (m, 1))
    return gibbs.State(
        beta @ L.T, sigma, log_share, spread, gamma, rng.normal(0.0, 2.0, m), loss_sigma
    )


def log_sums(state: gibbs.State, Q: Matrix, size: Matrix) -> Matrix:
    """log S_i of each record, (m, n)."""
    mean = np.einsum("mkr,nr->mnk", state.theta, Q)
    z = (size[..., None] - mean) / state.sigma[:, None]
    joint = (state.log_share - np.log(state.sigma))[:, None] - 0.5 * z**2
    return np.asarray(np.logaddexp.reduce(joint, axis=2))


# --- sweeps ---------------------------------------------------------------------------------------

FILES = 4000
SWEEPS = 10
RECORDS = 10
LOSSES = 4
Q = np.c_[np.ones(RECORDS), np.linspace(-1.5, 1.5, RECORDS)]
L = np.array([[1.0, 0.0], [0.6, 0.8]])


def records_given(rng: np.random.Generator, state: gibbs.State) -> tuple[Matrix, Matrix]:
    """Sizes (m, RECORDS) of positive incomes, and log losses (m, LOSSES)."""
    m = len(state.gamma)
    below = np.cumsum(np.exp(state.log_share), axis=1)
    level = rng.random((m, RECORDS, 1)) * below[:, None, -1:]
    component = (level > below[:, None]).sum(axis=2)
    mean = np.einsum("mkr,nr->mnk", state.theta, Q)
    size = np.take_along_axis(mean, component[..., None], axis=2)[..., 0]
    size += np.take_along_axis(state.sigma, component, axis=1) * rng.standard_normal(size.shape)
    losses = state.loss_mean[:, None] + state.loss_sigma * rng.standard_normal((m, LOSSES))
    return size, losses


def sweep_data(
    rng: np.random.Generator, size: Matrix, losses: Matrix, weights: Matrix
) -> tuple[dict[str, Matrix], dict[str, Matrix]]:
    """What a sweep needs, by file and for all files. Each record is there twice, with weights that
    add up to one (or to nothing): S^w S^(1 - w) = S, so the posterior is that of whole records.
    Records without weight, whose values are anything, are there as well. The order is random, so
    that both copies may take part in a sweep, or none."""
    m = len(size)
    order = rng.permutation(len(weights))
    sizes = np.concatenate([size, size, rng.standard_normal(size.shape)], axis=1)[:, order]
    rows, weights = np.concatenate([Q, Q, Q])[order], weights[order]
    table = np.concatenate([np.broadcast_to(rows, (m, *rows.shape)), sizes[..., None]], axis=2)
    table = np.concatenate([table, np.zeros((m, 1, R + 1))], axis=1)
    number = float(weights.any()) * LOSSES
    sums = np.stack([losses**0, losses, losses**2], axis=2).mean(axis=1) * number
    of_all = {
        "rows": np.ascontiguousarray(rows.T),
        "alpha": weights,
        "inverse": np.linalg.inv(L),
        "floors": np.array([SIGMA_FLOOR, SPREAD_FLOOR]),
    }
    return {"table": table, "size": sizes, "losses": sums}, of_all


def swept(keys: Any, states: Any, by_file: Any, of_all: Any) -> Any:
    def chain(key: Any, state: gibbs.State, own: Any) -> gibbs.State:
        def step(state: gibbs.State, key: Any) -> tuple[gibbs.State, None]:
            return gibbs.sweep(key, state, own | of_all, weighted=True), None

        return jax.lax.scan(step, state, jax.random.split(key, SWEEPS))[0]

    return jax.vmap(chain)(keys, states, by_file)


@cache
def swept_program() -> Any:
    """For all files; XLA's level 1, at which it runs in a third of the time of level 0."""
    keys = jax.random.split(jax.random.key(5), FILES)
    rng = np.random.default_rng(3)
    states = prior_draws(rng, FILES, L)
    data = sweep_data(rng, *records_given(rng, states), np.ones(3 * RECORDS))
    return compiled(swept, keys, states, *data, optimisation=1)


def numbers(state: gibbs.State, size: Matrix, losses: Matrix) -> Matrix:
    """Of parameters alone, and of parameters with the records, (m, numbers)."""
    beta = (state.theta @ np.linalg.inv(L).T / state.spread[:, None]).reshape(len(size), -1)
    logs = np.log(np.c_[state.gamma, state.sigma, state.spread, state.loss_sigma])
    single = np.c_[logs, state.loss_mean / 2.0, beta]
    products = [beta[:, ::2] * beta[:, 1::2], np.exp(state.log_share).max(axis=1)]
    mean = np.einsum("mkr,nr->mnk", state.theta, Q)
    z = (size[..., None] - mean) / state.sigma[:, None]
    log_sum = log_sums(state, Q, size)
    joint = (state.log_share - np.log(state.sigma))[:, None] - 0.5 * z**2
    own = np.exp(joint - log_sum[..., None])  # each component's part in each record
    of_losses = (losses - state.loss_mean[:, None]) / state.loss_sigma
    with_records = [
        log_sum.sum(axis=1),
        (own * z**2).sum(axis=(1, 2)),
        (own * z).sum(axis=(1, 2)),
        (own * np.arcsinh(mean)).sum(axis=(1, 2)),
        (own * np.log(state.sigma)[:, None]).sum(axis=(1, 2)),
        (of_losses**2).sum(axis=1),
        of_losses.sum(axis=1),
    ]
    return np.column_stack([single, single**2, *products, *with_records])


@pytest.mark.parametrize("weights", ["split", "whole", "none"])
def test_sweeps_leave_the_joint_distribution_alone(weights: str) -> None:
    """Records with whole weights, the same records in parts, and records without weight, which
    leave the prior. The mean change of a number is seen from .2 of its standard deviation on."""
    rng = np.random.default_rng(3)
    before = prior_draws(rng, FILES, L)
    size, losses = records_given(rng, before)
    if weights == "none":  # records of other parameters
        size, losses = size[::-1], losses[::-1]
    first = {
        "split": rng.uniform(0.05, 0.95, RECORDS),
        "whole": np.ones(RECORDS),
        "none": np.zeros(RECORDS),
    }[weights]
    second = (1.0 - first) * (weights != "none")
    alpha = np.concatenate([first, second, np.zeros(RECORDS)])
    by_file, of_all = sweep_data(rng, size, losses, alpha)
    keys = jax.random.split(jax.random.key(5), FILES)
    after = jax.tree.map(np.asarray, swept_program()(keys, before, by_file, of_all))
    assert (after.theta != before.theta).mean() > 0.9  # the chains move
    old, new = numbers(before, size, losses), numbers(after, size, losses)
    if weights == "none":
        old, new = old[:, :-7], new[:, :-7]  # records tell nothing
    change = new - old
    error = change.std(axis=0) / np.sqrt(FILES)
    assert (FAR * error / old.std(axis=0)).max() < 0.2
    score = change.mean(axis=0) / error
    assert np.abs(score).max() < FAR, score.round(1)


# --- a whole fit ----------------------------------------------------------------------------------

MODEL = Mixture("income", "age", K, zero_by=("sex",), typical=40_000)


def few_incomes() -> Survey:
    """Seven positive incomes, two zeros, three losses."""
    rng = np.random.default_rng(4)
    y = 40_000 * np.exp(np.array([-1.2, -0.7, -0.2, 0.0, 0.3, 0.6, 1.1]))
    y = np.r_[y, 0.0, 0.0, -40_000 * np.exp([-1.0, -0.3, 0.4])]
    sex = np.array(["F", "M"])[np.arange(12) % 2]
    return Survey(pl.DataFrame({"sex": sex, "age": rng.normal(45, 12, 12), "income": y}))


def label_free(values: dict[str, Matrix]) -> Matrix:
    """Numbers that do not depend on labels, (..., numbers)."""
    share, sigma, theta = values["share"], values["sigma"], values["theta"]
    singles = [
        np.log(values["gamma"]),
        share.max(axis=-1),
        np.log(sigma).min(axis=-1),
        np.log(sigma).max(axis=-1),
        (share * np.log(sigma)).sum(axis=-1),
        np.arcsinh((share * theta[..., 0]).sum(axis=-1)),
        np.arcsinh((share * theta[..., 1]).sum(axis=-1)),
        np.arcsinh(theta[..., 0] - theta[..., 1]).std(axis=-1),
        values["loss_mean"],
        np.log(values["loss_sigma"]),
        values["negative"],
    ]
    rest = [np.log(values["spread"]), values["zero"]]
    return np.concatenate([np.stack(singles, axis=-1), *rest], axis=-1)


def weighted_prior(arrays: Any, alpha: Matrix, m: int = 200_000) -> tuple[Matrix, Matrix]:
    """Draws of the prior, as numbers without labels, and their weights under the records."""
    rng = np.random.default_rng(9)
    state = prior_draws(rng, m, np.asarray(arrays["L"]))
    y, groups = arrays["y"], arrays["groups"]
    positive, loss = y > 0, y < 0
    size = np.log(y[positive] / 40_000)[None]
    log_weight = log_sums(state, arrays["Q"][positive], size) @ alpha[positive]
    losses = np.log(-y[loss] / 40_000)
    z = (losses - state.loss_mean[:, None]) / state.loss_sigma
    log_weight += (-0.5 * z**2 - np.log(state.loss_sigma)) @ alpha[loss]
    zeros, others = groups.T @ (alpha * (y == 0)), groups.T @ (alpha * positive)
    of_losses = alpha[loss].sum()
    values = {
        "share": np.exp(state.log_share), "sigma": state.sigma, "theta": state.theta,
        "gamma": state.gamma, "spread": state.spread,
        "loss_mean": state.loss_mean, "loss_sigma": state.loss_sigma[:, 0],
        "zero": rng.beta(0.5 + zeros, 0.5 + others, (m, len(zeros))),  # independent of the rest
        "negative": rng.beta(0.5 + of_losses, 0.5 + alpha.sum() - of_losses, m),
    }  # fmt: skip
    return label_free(values), np.exp(log_weight - log_weight.max())


def test_a_fit_is_the_weighted_prior() -> None:
    survey = few_incomes()
    arrays = MODEL.prepare(survey)
    nobody = np.zeros(survey.n, dtype=bool)
    settings = Settings(2000, 4, 100, most_thinning=1)
    fitter = ModelFitter(MODEL, survey, arrays, nobody, settings, 3, (), False)
    alpha = np.random.default_rng(8).uniform(0.05, 0.6, survey.n)
    terms = Terms(alpha, np.zeros(survey.n))
    assert has_gibbs(fitter.density, terms)
    posterior = fitter.fit(terms, "release")
    points, mass = weighted_prior(arrays, alpha)
    assert mass.sum() ** 2 / (mass**2).sum() > 10_000  # what the draws of the prior are worth
    compare(label_free(posterior.draws), known_moments(points, mass), shift=0.3, spread=0.3)

    # the same key gives the same draws, however far a chain is run
    start = fitter._own_starts(MODEL.start(fitter.safe_arrays, alpha), terms)
    problem = fitter.density, fitter.safe_arrays, alpha
    short, long = (
        sample_by_gibbs(*problem, Settings(draws, 2, 50, most_thinning=1), jax.random.key(1), start)
        for draws in (100, 200)
    )
    np.testing.assert_array_equal(short.positions, long.positions[:, :50])
    later = sample_by_gibbs(
        *problem, Settings(100, 2, 75, most_thinning=1), jax.random.key(1), start
    )
    np.testing.assert_array_equal(later.positions, long.positions[:, 25:75])  # warm-up is left out
