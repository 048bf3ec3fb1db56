"""The posterior given noisy moments, against prior simulation weighted by the noise's density."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from understudy.dp.clipped_moments import CellValues, NoisyCellSums
from understudy.fitting.noisy_moments import (
    ShownMoments,
    _spread,
    mixing_variance,
    placed,
    shown_moments,
    starts,
    sweep,
)

SIZES, X = np.array([15, 25]), np.array([[1.0, 0.0], [1.0, 1.0]])
HALF = np.array([1.5, 1.0])
FIRST = np.array([[7.0, -3.0], [2.0, 9.0]])
SECOND = np.array([14.0, -5.0, 17.0])
FREEDOM, SCALE = 9, 2.0 * np.eye(2)  # of the inverse Wishart that Sigma has beforehand
WIDE = 0.5  # the standard deviation that each coefficient has beforehand
SIMULATED = 80_000


def shown(scale: float = 1.0) -> ShownMoments:
    """Scales of noise of 8 for sums and 12 for squares, or a part of them."""
    cell = np.repeat([0, 1], SIZES)
    seen = CellValues(np.zeros((40, 2)), cell, X, np.zeros(2), HALF, 1)
    pairs = np.array([HALF[0] ** 2, HALF[0] * HALF[1], HALF[1] ** 2])
    return shown_moments(
        seen, NoisyCellSums(FIRST / HALF, SECOND / pairs, scale * 5.0, scale * 8.0)
    )


def log_prior(state):
    B, Sigma = state["B"], state["Sigma"]
    size = jnp.linalg.slogdet(Sigma)[1]
    of_Sigma = -0.5 * (FREEDOM + 3) * size - 0.5 * jnp.trace(jnp.linalg.solve(Sigma, SCALE))
    return of_Sigma - 0.5 * (B**2).sum() / WIDE**2


@cache
def compiled():
    def chain(state, key, moments):
        def step(state, key):
            state = sweep(state, key, moments, log_prior)
            kept = [state["B"].ravel(), state["Sigma"][jnp.triu_indices(2)], state["mean"].ravel()]
            return state, jnp.concatenate([*kept, state["W"][jnp.triu_indices(2)]])

        return jax.lax.scan(step, placed(state, log_prior), jax.random.split(key, 2000))[1]

    return jax.jit(jax.vmap(chain, in_axes=(0, 0, None)))


def by_chains(scale: float = 1.0) -> np.ndarray:
    """(draws, 14): B, Sigma, the cells' means and W."""
    moments = shown(scale)
    state = starts(jax.random.key(1), 8, moments)
    drawn = np.asarray(compiled()(state, jax.random.split(jax.random.key(2), 8), moments))
    return drawn[:, 200:]


@cache
def by_simulation() -> tuple[np.ndarray, np.ndarray]:
    """Parameters and moments from the prior, and weights by the Laplace density of the noise."""
    rng = np.random.default_rng(3)
    B = WIDE * rng.standard_normal((SIMULATED, 2, 2))
    Sigma = stats.invwishart(FREEDOM, SCALE).rvs(SIMULATED, random_state=rng)
    root = np.linalg.cholesky(Sigma)
    deviates = rng.standard_normal((SIMULATED, 2, 2))
    mean = X @ B + np.einsum("sij,scj->sci", root, deviates) / np.sqrt(SIZES)[:, None]
    W = root @ stats.wishart(38, np.eye(2)).rvs(SIMULATED, random_state=rng) @ root.mT
    sums = mean * SIZES[:, None]
    second = W + np.einsum("sci,scj->sij", sums, mean)
    j, k = np.triu_indices(2)
    gaps = np.abs(sums - FIRST) / (5.0 * HALF)
    squares = np.abs(second[:, j, k] - SECOND) / (8.0 * HALF[j] * HALF[k])
    weight = np.exp(-gaps.sum(axis=(1, 2)) - squares.sum(axis=1))
    parts = B.reshape(-1, 4), Sigma[:, j, k], mean.reshape(-1, 4), W[:, j, k]
    return np.concatenate(parts, axis=1), weight / weight.sum()


def apart(scale: float = 1.0) -> np.ndarray:
    """How far means and second moments by chains are from those by simulation, in standard
    errors of both."""
    chains, (simulated, weight) = by_chains(scale), by_simulation()
    ours, theirs = (np.concatenate([v, v**2], axis=-1) for v in (chains, simulated))
    centre = weight @ theirs
    error = np.sqrt((weight**2) @ (theirs - centre) ** 2)
    by_chain = ours.mean(axis=1)
    own = by_chain.std(axis=0, ddof=1) / np.sqrt(len(by_chain))
    return np.abs(by_chain.mean(axis=0) - centre) / np.hypot(error, own)


def test_draws_follow_the_posterior_that_knows_the_noise():
    weight = by_simulation()[1]
    assert 1 / (weight**2).sum() > 1_500
    assert apart().max() < 6  # 28 numbers; eight chains have wide tails


def test_a_posterior_that_ignores_the_noise_is_seen():
    assert apart(scale=0.02).max() > 20


def test_a_normal_of_mixed_variance_is_laplace():
    """Noise from the variances that Laplace noise suggests is Laplace noise again."""
    of_first, of_tau, of_second = jax.random.split(jax.random.key(4), 3)
    noise = 3.0 * jax.random.laplace(of_first, (40_000,))
    variance = mixing_variance(of_tau, noise, jnp.array(3.0))
    again = jnp.sqrt(variance) * jax.random.normal(of_second, (40_000,))
    assert stats.kstest(np.asarray(again), stats.laplace(scale=3.0).cdf).pvalue > 1e-4


@pytest.mark.parametrize("m", [2, 5])
def test_files_are_spread_by_the_root_of_their_number_around_the_same_mean(m):
    draws = np.random.default_rng(m).standard_normal((100, 3))
    ends = np.arange(m) * 7
    spread = _spread(draws, ends)
    np.testing.assert_allclose(spread.mean(axis=0), draws.mean(axis=0), atol=1e-12)
    wanted = m * draws[ends].var(axis=0, ddof=1)
    np.testing.assert_allclose(spread.var(axis=0, ddof=1), wanted)


def test_one_file_alone_is_a_draw():
    draws = np.random.default_rng(1).standard_normal((100, 3))
    np.testing.assert_array_equal(_spread(draws, np.array([99])), draws[99:])
