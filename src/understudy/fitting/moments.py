"""Exact draws for Gaussian models with linear contributions: one pass over the data, then none.

With contributions alpha_i f_i the density depends on the data through X'AX, X'AY and Y'AY alone
(methods §4). Under a flat prior of B and |Sigma|^(-(d+1)/2) for Sigma it is

    Sigma ~ inverse Wishart(A - K, R),   B | Sigma ~ matrix normal(B_hat, (X'AX)^-1, Sigma),

A = sum alpha_i, R the weighted residual sum of squares. The model's own prior comes in by
independence Metropolis: such a draw is a proposal, and it is accepted with the ratio of the
model's prior to that flat one. Draws are thinned, so that kept ones are all but independent.
Clipped contributions have other tails; for them these draws are proposals (fitting/independence).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isinf

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular
from numpy.typing import ArrayLike, NDArray

from understudy.dp.moment_sums import moment_sums
from understudy.fitting.continuation import run_until_good
from understudy.fitting.fit_settings import Settings
from understudy.fitting.nuts import Chains
from understudy.mechanisms.contract import Terms
from understudy.models.compilation import kept
from understudy.models.contract import Arrays, Judged
from understudy.models.density import Density
from understudy.models.gaussian import GaussianModel

THINNING = 6  # proposals per kept draw: acceptance is .65 (FBS) to .95, so few repeat
BURN_IN = 30  # proposals of each chain that are left out
FEW_PROPOSALS = 20_000  # up to so many take less time than a compiler that optimises
LARGEST_CONDITION = 1e12  # of X'AX; beyond it the prior decides, and NUTS is asked


Floats = NDArray[np.float64]
Shapes = tuple[tuple[str, tuple[int, ...], str], ...]


@dataclass(frozen=True)
class Moments:
    """Weighted moments of the records, and the sum of their weights."""

    XX: Array | Floats  # (K, K)
    XY: Array | Floats  # (K, d)
    YY: Array | Floats  # (d, d)
    total: Array | np.float64


jax.tree_util.register_dataclass(Moments, ["XX", "XY", "YY", "total"], [])


def is_linear(density: Density, terms: Terms) -> bool:
    """Whether contributions are alpha_i f_i under the model's own prior, and f_i Gaussian."""
    own_prior = isinf(terms.prior_scale)
    return isinstance(density.model, GaussianModel) and isinf(terms.limit) and own_prior


def cell_moments(
    X: Floats, cell: NDArray[np.int64], Y: Sequence[Floats] | Floats, alpha: ArrayLike
) -> Moments:
    """X'AX, X'AY, Y'AY and the sum of alpha, in one pass over the records: X (cells, K) has a row
    for each cell, so that a record adds to the sums of its cell alone. Y are d columns (n,)."""
    return moments_of(X, *moment_sums(cell, len(X), Y, alpha))


def moments_of(X: Floats, size: Floats, sums: Floats, products: Floats) -> Moments:
    """From sums of the weights and of the weighted values by cell, and of products."""
    return Moments((X.T * size) @ X, X.T @ sums, products, size.sum())


def sample_exactly(
    density: Density, arrays: Arrays, alpha: ArrayLike, settings: Settings, key: Array
) -> Chains | None:
    """Chains of kept draws; None where the flat-prior posterior does not exist (too little weight
    for the covariance matrix, or a combination of predictors without weight)."""
    model = density.model
    if not isinstance(model, GaussianModel):
        return None
    moments = cell_moments(*model.gaussian_cells(arrays), alpha)
    return sample_given_moments(density, arrays, moments, settings, key)


def sample_given_moments(
    density: Density, arrays: Arrays, moments: Moments, settings: Settings, key: Array
) -> Chains | None:
    """The same where the moments are known; of the arrays nothing but their shapes is used."""
    if not is_proper(moments):
        return None
    like = tuple((name, a.shape, str(a.dtype)) for name, a in sorted(arrays.items()))
    shape = settings.chains, settings.per_chain
    drawn: list[NDArray[np.float64]] = []

    def run(times: int) -> tuple[NDArray[np.float64], int]:
        for number in range(len(drawn), times):
            of_run = jax.random.fold_in(key, number)
            drawn.append(_drawn(density, *shape, like, of_run, moments))
        return np.concatenate(drawn, axis=1)[:, times - 1 :: times], 0

    def judged(positions: NDArray[np.float64]) -> Judged:
        return Judged(density.coordinates, positions)

    positions, diagnostics = run_until_good(run, judged, settings.most_thinning)
    return Chains(positions, replace(diagnostics, thinning=THINNING * diagnostics.thinning))


def one_draw(density: Density, arrays: Arrays, moments: Moments, key: Array) -> NDArray[np.float64]:
    """One position drawn given moments, by a chain of its own."""
    like = tuple((name, a.shape, str(a.dtype)) for name, a in sorted(arrays.items()))
    return np.asarray(_drawn(density, 1, 1, like, key, moments)[0, 0])


def is_proper(moments: Moments) -> bool:
    """Whether the posterior under the flat prior exists, and can be computed."""
    K, d = moments.XY.shape
    XX = np.asarray(moments.XX)
    scale = np.sqrt(np.diag(XX))
    if not (scale > 0).all() or float(moments.total) - K <= d + 1:
        return False
    return bool(np.linalg.cond(XX / np.outer(scale, scale)) < LARGEST_CONDITION)


def _chains(
    density: Density, chains: int, per_chain: int, like: Shapes, key: Array, moments: Moments
) -> Array:
    """(chains, per_chain, D) unconstrained positions."""
    model = density.model
    assert isinstance(model, GaussianModel)  # settled by the caller
    # the model's function wants arrays; its prior ignores them, and the compiler drops them
    blank = {name: jnp.zeros(shape, dtype) for name, shape, dtype in like}
    steps = BURN_IN + per_chain * THINNING
    of_proposals, of_steps = jax.random.split(key)
    B, Sigma = propose(of_proposals, moments, chains * steps)
    positions = jax.vmap(model.position)(B, Sigma)
    log_prior = jax.vmap(lambda q: density.evaluate(q, blank)[0])(positions)
    d = Sigma.shape[-1]
    flat = -0.5 * (d + 1) * jnp.linalg.slogdet(Sigma)[1] + jax.vmap(model.log_volume)(B, Sigma)
    log_ratio = (log_prior - flat).reshape(chains, steps)
    levels = jnp.log(jax.random.uniform(of_steps, (chains, steps)))
    places = jax.vmap(metropolis_places)(log_ratio, levels)[:, BURN_IN + THINNING - 1 :: THINNING]
    by_chain = positions.reshape(chains, steps, -1)
    return jnp.take_along_axis(by_chain, places[:, :, None], axis=1)


# 6,060 proposals: 1.1 seconds to compile and 0.04 to run, or 2.4 and 0.01
_quickly_compiled, _thoroughly_compiled = (
    kept(constants=4, few_runs=few)(_chains) for few in (True, False)
)


def _drawn(
    density: Density, chains: int, per_chain: int, like: Shapes, key: Array, moments: Moments
) -> NDArray[np.float64]:
    few = chains * (BURN_IN + per_chain * THINNING) <= FEW_PROPOSALS
    run = _quickly_compiled if few else _thoroughly_compiled
    return np.asarray(run(density, chains, per_chain, like, key, moments))


def propose(
    key: Array, moments: Moments, count: int, part: Array | float = 1.0
) -> tuple[Array, Array]:
    """B (count, K, d) and Sigma (count, d, d) from the flat-prior posterior; each draw at its
    `part` (count,) of every weight.

    With R = C C' and A the Bartlett factor of a Wishart(nu, I), Sigma = F F', F = C A'^-1, and
    B = B_hat + L'^-1 E F' with X'AX = L L' and E standard normal. At a part t of the weight R and
    X'AX are t times as large, so Sigma is, too, and B stays as it is, but for nu.
    """
    of_chi, of_lower, of_normal = jax.random.split(key, 3)
    K, d = moments.XY.shape
    L = jnp.linalg.cholesky(moments.XX)
    half = solve_triangular(L, moments.XY, lower=True)
    centre = solve_triangular(L.T, half, lower=False)
    C = jnp.linalg.cholesky(moments.YY - half.T @ half)
    part = jnp.broadcast_to(jnp.asarray(part), (count,))
    freedom = part[:, None] * moments.total - K - jnp.arange(d)
    chi = jnp.sqrt(2.0 * jax.random.gamma(of_chi, 0.5 * freedom, (count, d)))
    lower = jnp.tril(jax.random.normal(of_lower, (count, d, d)), -1)
    A = lower + chi[:, :, None] * jnp.eye(d)
    inverse = jax.vmap(lambda a: solve_triangular(a, jnp.eye(d), lower=True))(A)
    F = jnp.einsum("ij,skj->sik", C, inverse)
    E = jax.random.normal(of_normal, (count, K, d))
    spread = jnp.einsum("kj,sjd->skd", solve_triangular(L.T, jnp.eye(K), lower=False), E)
    B = centre + jnp.einsum("skd,sjd->skj", spread, F)
    return B, jnp.einsum("s,sij,skj->sik", part, F, F)


def metropolis_places(log_ratio: Array, levels: Array) -> Array:
    """Which proposal the chain is at after each step; `levels` are logs of uniform numbers."""

    def step(at: Array, proposal: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        number, ratio, level = proposal
        moved = level < ratio - log_ratio[at]
        at = jnp.where(moved, number, at)
        return at, at

    numbers = jnp.arange(log_ratio.shape[0])
    return jax.lax.scan(step, jnp.zeros((), numbers.dtype), (numbers, log_ratio, levels))[1]
