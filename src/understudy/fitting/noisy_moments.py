"""The posterior of a Gaussian model given noisy moments: it knows the noise.

The records enter through noisy sums alone (dp/clipped_moments.py). With V = Y - centre, cells c of
public X (x_c, n_c records), the true moments are latent:

    vbar_c | B, Sigma ~ N(x_c B, Sigma / n_c),   W | Sigma ~ Wishart(n - C, Sigma)
    first_c  = n_c vbar_c + Laplace(s_1),   second = W + sum n_c vbar_c vbar_c' + Laplace(s_2)

A Laplace variable is a normal one whose variance is exponential, so that given these variances the
sums are normal (Bernstein and Sheldon 2018, 2019). One sweep:

1. the variances tau: 1/tau is inverse Gaussian given the noise; those of the second sums just
   before step 4, as the other steps look at their Laplace noise itself, which mixes better;
2. B and all vbar at once, from their exact normal law given the first sums under a flat prior of B,
   or a step of that law around where they are; accepted by the second sums and the model's prior;
3. Sigma given all moments: inverse Wishart, accepted by the prior;
4. W: the Wishart's normal approximation times the normal second sums, accepted by the Wishart;
5. Sigma and W together, Sigma = L L', W = L W_0 L' with W_0 held: a random walk of L, which moves
   where the noise is larger than what the records say of Sigma.

Each step leaves the posterior as it is. It is post-processing: no claim rests on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import cho_solve, solve_triangular
from numpy.typing import NDArray

from understudy.dp.clipped_moments import ExactCellSums, NoisyCellSums, pairs
from understudy.errors import Refused
from understudy.fitting.continuation import run_until_good
from understudy.fitting.diagnostics import Diagnostics
from understudy.fitting.fit_settings import Settings
from understudy.fitting.moments import Moments, Shapes, one_draw
from understudy.fitting.posterior import parameters_at
from understudy.mechanisms.contract import NoisyDraws
from understudy.models.compilation import kept
from understudy.models.contract import Arrays, Judged
from understudy.models.density import Density
from understudy.models.gaussian import GaussianModel

THINNING = 5  # sweeps per kept draw
BURN_IN = 300  # sweeps of each chain that are left out, at least
STAYS = (0.0, 0.8)  # how much of its place a step of B and vbar keeps
WALKS = 4  # steps of L in a sweep
STEPS = (-0.7, 0.3)  # powers of ten between which such a step lies, in what the sums leave open
LARGEST_STEP = 1.0  # of a logarithm or ratio of W's factor, in one file
LEAST_PER_CELL = 5  # records, on average, for sums within cells
SMALLEST = 1e-10  # of a noise's size, in its scale

ChainState = dict[str, Array]
LogDensity = Callable[[ChainState], Array]


@dataclass(frozen=True)
class ShownMoments:
    """What the posterior is given, in the units of V; all of it public or noisy."""

    sizes: Array  # (C,) records of each cell
    X: Array  # (C, K)
    first: Array  # (C, d)
    second: Array  # (d (d + 1)/2,) in the order of `pairs`
    first_scale: Array  # (d,)
    second_scale: Array  # (d (d + 1)/2,)
    centre: Array  # (d,) of Y
    half: Array  # (d,) bounds of V: -half and half
    B: Array  # (K, d) and
    Sigma: Array  # (d, d): where chains start
    reach: Array  # (d, d) about how far log L_kk and L_jk/L_kk can be from there


jax.tree_util.register_dataclass(ShownMoments, [field.name for field in fields(ShownMoments)], [])


@dataclass(frozen=True, eq=False)
class LatentDraws:
    """Draws of the true moments given the noisy ones, and diagnostics of the parameters."""

    mean: NDArray[np.float64]  # (draws, C, d), of V
    W: NDArray[np.float64]  # (draws, d, d)
    diagnostics: Diagnostics


def shown_moments(seen: ExactCellSums, noisy: NoisyCellSums) -> ShownMoments:
    """Noisy sums in the units of V, with what is public of the cells, and a rough estimate."""
    d, n, sizes = len(seen.half), seen.sizes.sum(), seen.sizes[:, None]
    j, k = pairs(d)
    products = seen.half[j] * seen.half[k]
    first, second = noisy.first * seen.half, noisy.second * products
    B = np.linalg.solve(seen.X.T @ (sizes * seen.X), seen.X.T @ first)
    scatter, error = np.zeros((2, d, d))
    scatter[j, k] = scatter[k, j] = second
    error[j, k] = error[k, j] = noisy.second_scale * products
    scatter -= (seen.X @ B).T @ (sizes * (seen.X @ B))
    # no less than the noise, and no more than the bounds allow
    spread = np.sqrt(np.clip(np.diag(scatter), np.diag(error), n * seen.half**2))
    scatter = np.clip(scatter / np.outer(spread, spread), -0.9, 0.9)
    values, vectors = np.linalg.eigh(scatter - np.diag(np.diag(scatter)) + np.eye(d))
    scatter = (vectors * np.maximum(values, 0.1)) @ vectors.T * np.outer(spread, spread)
    size = np.diag(scatter)
    reach = np.sqrt(np.outer(size, 1 / size) / n + 2 * np.square(error / size))
    reach[np.diag_indices(d)] *= 0.5
    parts = (
        seen.sizes, seen.X, first, second, noisy.first_scale * seen.half,
        noisy.second_scale * products, seen.centre, seen.half, B, scatter / n,
        np.minimum(reach, 1.0),
    )  # fmt: skip
    return ShownMoments(*(jnp.asarray(part, dtype=jnp.float64) for part in parts))


def sample_given_noisy(
    density: Density, arrays: Arrays, noisy: ShownMoments, settings: Settings, key: Array
) -> LatentDraws:
    """Chains of kept draws, longer where their diagnostics ask for it."""
    like = tuple((name, a.shape, str(a.dtype)) for name, a in sorted(arrays.items()))
    of_start, of_burn_in, of_sweeps = jax.random.split(key, 3)
    per_chain = settings.per_chain
    state = starts(of_start, settings.chains, noisy)
    for of_run in jax.random.split(of_burn_in, -(-BURN_IN // (THINNING * per_chain))):
        state, _ = _sweeps(density, per_chain, like, state, of_run, noisy)
    drawn: list[NDArray[np.float64]] = []
    moments: list[ChainState] = []

    def run(times: int) -> tuple[NDArray[np.float64], int]:
        nonlocal state
        for number in range(len(drawn), times):
            of_run = jax.random.fold_in(of_sweeps, number)
            state, shown = _sweeps(density, per_chain, like, state, of_run, noisy)
            drawn.append(np.asarray(shown.pop("position")))
            moments.append(shown)
        return np.concatenate(drawn, axis=1)[:, times - 1 :: times], 0

    def judged(positions: NDArray[np.float64]) -> Judged:
        return Judged(density.coordinates, positions)

    _, diagnostics = run_until_good(run, judged, settings.most_thinning)
    mean, W = (
        np.concatenate([np.asarray(part[name]) for part in moments], axis=1)
        for name in ("mean", "W")
    )
    return LatentDraws(mean.reshape(-1, *mean.shape[2:]), W.reshape(-1, *W.shape[2:]), diagnostics)


def spread_positions(
    density: Density,
    arrays: Arrays,
    noisy: ShownMoments,
    latent: LatentDraws,
    count: int,
    key: Array,
) -> NDArray[np.float64]:
    """A position for each of m files, (count, D): drawn given moments that are spread by sqrt(m).

    The files' moments are those of m draws, moved so that their mean is the posterior's and their
    spread sqrt(m) times as wide: what noise leaves open, V, then makes up V of b/m (docs/decisions/
    039). W is spread by the logarithms and ratios of its factor, so that it stays a covariance.
    """
    ends = (np.arange(1, count + 1) * len(latent.mean)) // count - 1
    roots = np.linalg.cholesky(latent.W)
    diagonal = np.diagonal(roots, axis1=1, axis2=2)
    logs = _spread(np.log(diagonal), ends, LARGEST_STEP)
    ratios = _spread(roots / diagonal[:, None, :], ends, LARGEST_STEP)
    L = ratios * np.exp(logs)[:, None, :]
    # a mean of clipped values lies between their bounds
    half, centre = np.asarray(noisy.half), np.asarray(noisy.centre)
    means = centre + np.clip(_spread(latent.mean, ends), -half, half)
    sizes, X = np.asarray(noisy.sizes)[:, None], np.asarray(noisy.X)
    positions = []
    for number in range(count):
        mean, factor = means[number], L[number]
        scatter = factor @ factor.T + mean.T @ (sizes * mean)
        sums = X.T @ (sizes * X), X.T @ (sizes * mean), scatter, sizes.sum()
        moments = Moments(*map(jnp.asarray, sums))
        positions.append(one_draw(density, arrays, moments, jax.random.fold_in(key, number)))
    return np.stack(positions)


def _spread(
    draws: NDArray[np.float64], ends: NDArray[np.int64], most: float = np.inf
) -> NDArray[np.float64]:
    """Some of the draws, around the mean of all, sqrt(m) times as far from each other; one alone
    stays where it is."""
    chosen, m = draws[ends], len(ends)
    if m == 1:
        return chosen
    apart = np.sqrt(m) * (chosen - chosen.mean(axis=0))
    return np.asarray(draws.mean(axis=0) + np.clip(apart, -most, most))


def starts(key: Array, chains: int, shown: ShownMoments) -> ChainState:
    """The rough estimate, with Sigma wider or narrower by chance in each chain."""
    wider = jnp.exp(0.5 * jax.random.normal(key, (chains, 1, 1)))
    Sigma = wider * shown.Sigma
    return {
        "B": jnp.tile(shown.B, (chains, 1, 1)),
        "mean": jnp.tile(shown.X @ shown.B, (chains, 1, 1)),
        "Sigma": Sigma,
        "W": (shown.sizes.sum() - len(shown.sizes)) * Sigma,
        "log_prior": jnp.zeros(chains),
    }


@kept(constants=3, few_runs=True)
def _sweeps(
    density: Density, count: int, like: Shapes, state: ChainState, key: Array, noisy: ShownMoments
) -> tuple[ChainState, ChainState]:
    """The chains after `count` times THINNING sweeps; position and moments after each THINNING."""
    model = density.model
    assert isinstance(model, GaussianModel)  # settled by the caller
    blank = {name: jnp.zeros(shape, dtype) for name, shape, dtype in like}

    def position(state: ChainState) -> Array:
        return model.position(state["B"].at[0].add(noisy.centre), state["Sigma"])

    def log_prior(state: ChainState) -> Array:
        """Of (B, Sigma), Sigma by its lower triangle."""
        B = state["B"].at[0].add(noisy.centre)
        own = density.evaluate(position(state), blank)[0]
        return own - model.log_volume(B, state["Sigma"])

    def chain(state: ChainState, key: Array) -> tuple[ChainState, ChainState]:
        def kept_draw(state: ChainState, key: Array) -> tuple[ChainState, ChainState]:
            def once(state: ChainState, key: Array) -> tuple[ChainState, None]:
                return sweep(state, key, noisy, log_prior), None

            state, _ = jax.lax.scan(once, state, jax.random.split(key, THINNING))
            shown = {"position": position(state), "mean": state["mean"], "W": state["W"]}
            return state, shown

        start = placed(state, log_prior)
        return jax.lax.scan(kept_draw, start, jax.random.split(key, count))

    return jax.vmap(chain)(state, jax.random.split(key, state["B"].shape[0]))


def sweep(state: ChainState, key: Array, noisy: ShownMoments, log_prior: LogDensity) -> ChainState:
    """All five steps once."""
    keys = jax.random.split(key, 5)

    def fits(state: ChainState) -> Array:
        """The second sums, with their Laplace noise, and the prior."""
        gap = noisy.second - _second(state, noisy)
        return -(jnp.abs(gap) / noisy.second_scale).sum() + state["log_prior"]

    first_noise = noisy.first - noisy.sizes[:, None] * state["mean"]
    first_variance = mixing_variance(keys[0], first_noise, noisy.first_scale)

    def step(state: ChainState, step: tuple[Array, Array]) -> tuple[ChainState, None]:
        of_proposal, of_choice = jax.random.split(step[0])
        proposed = placed(_means(of_proposal, state, noisy, first_variance, step[1]), log_prior)
        return _chosen(of_choice, fits(proposed) - fits(state), proposed, state), None

    steps = jax.random.split(keys[1], len(STAYS)), jnp.array(STAYS)
    state = jax.lax.scan(step, state, steps)[0]
    state = _covariance(keys[2], state, noisy, log_prior)
    of_noise, of_scatter = jax.random.split(keys[3])
    second_noise = noisy.second - _second(state, noisy)
    second_variance = mixing_variance(of_noise, second_noise, noisy.second_scale)
    state = _scatter(of_scatter, state, noisy, second_variance)

    def walk(state: ChainState, key: Array) -> tuple[ChainState, None]:
        return _together(key, state, noisy, fits, log_prior), None

    return jax.lax.scan(walk, state, jax.random.split(keys[4], WALKS))[0]


def placed(state: ChainState, log_prior: LogDensity) -> ChainState:
    """With the prior's log density, which is kept: the model's own takes long to compile."""
    return {**state, "log_prior": log_prior(state)}


def mixing_variance(key: Array, noise: Array, scale: Array) -> Array:
    """tau given a Laplace variable of this scale that is N(0, tau): scale^2/tau is inverse Gaussian
    with mean scale/|noise| and shape 1 (Michael, Schucany and Haas 1976)."""
    of_square, of_root = jax.random.split(key)
    mean = 1.0 / jnp.maximum(jnp.abs(noise) / scale, SMALLEST)
    y = jnp.square(jax.random.normal(of_square, noise.shape))
    small = 2.0 * mean / (2.0 + mean * y + jnp.sqrt(4.0 * mean * y + jnp.square(mean * y)))
    uniform = jax.random.uniform(of_root, noise.shape)
    ratio = jnp.where(uniform <= mean / (mean + small), small, mean**2 / small)
    return jnp.square(scale) / ratio


def _means(
    key: Array, state: ChainState, noisy: ShownMoments, variance: Array, stay: Array
) -> ChainState:
    """B and the cells' means from their normal law given the first sums, or nearer to where they
    are: mean + stay (old - mean) + sqrt(1 - stay^2) (drawn - mean)."""
    of_B, of_means = jax.random.split(key)
    sizes, X, Sigma = noisy.sizes, noisy.X, state["Sigma"]
    K, d = X.shape[1], Sigma.shape[0]
    shown = noisy.first / sizes[:, None]
    of_noise = jax.vmap(jnp.diag)(variance / jnp.square(sizes)[:, None])  # (C, d, d)
    of_sample = Sigma / sizes[:, None, None]
    precision = jnp.linalg.inv(of_noise + of_sample)
    P = jnp.einsum("ck,cij,cl->kilj", X, precision, X).reshape(K * d, K * d)
    right = jnp.einsum("ck,cij,cj->ki", X, precision, shown).ravel()
    root = jnp.linalg.cholesky(P)
    centre = cho_solve((root, True), right)
    drawn = centre + solve_triangular(root.T, jax.random.normal(of_B, (K * d,)), lower=False)
    gain = of_sample @ precision  # (C, d, d)
    spread = of_sample - gain @ of_sample
    # symmetric to the last digit, and above 0 where the noise is next to nothing
    spread = 0.5 * (spread + spread.mT) + 1e-14 * of_sample
    deviates = jnp.linalg.cholesky(spread) @ jax.random.normal(of_means, (*shown.shape, 1))

    def means_at(B: Array) -> Array:
        fitted = X @ B
        return jnp.asarray(fitted + (gain @ (shown - fitted)[:, :, None])[:, :, 0])

    centre_B, drawn_B = centre.reshape(K, d), drawn.reshape(K, d)
    at = {"B": centre_B, "mean": means_at(centre_B)}
    new = {"B": drawn_B, "mean": means_at(drawn_B) + deviates[:, :, 0]}
    move = jnp.sqrt(1.0 - stay**2)
    moved = {
        name: at[name] + stay * (state[name] - at[name]) + move * (new[name] - at[name])
        for name in at
    }
    return {**state, **moved}


def _covariance(
    key: Array, state: ChainState, noisy: ShownMoments, log_prior: LogDensity
) -> ChainState:
    """Sigma given all moments: inverse Wishart(n, R) under |Sigma|^(-(d+1)/2)."""
    of_chi, of_lower, of_choice = jax.random.split(key, 3)
    d, n = state["Sigma"].shape[0], noisy.sizes.sum()
    residual = state["mean"] - noisy.X @ state["B"]
    R = state["W"] + (residual * noisy.sizes[:, None]).T @ residual
    chi = jnp.sqrt(2.0 * jax.random.gamma(of_chi, 0.5 * (n - jnp.arange(d))))
    A = jnp.tril(jax.random.normal(of_lower, (d, d)), -1) + jnp.diag(chi)
    F = jnp.linalg.cholesky(R) @ solve_triangular(A, jnp.eye(d), lower=True).T
    proposed = placed({**state, "Sigma": F @ F.T}, log_prior)

    def left_over(state: ChainState) -> Array:
        of_flat = 0.5 * (d + 1) * jnp.linalg.slogdet(state["Sigma"])[1]
        return jnp.asarray(state["log_prior"] + of_flat)

    return _chosen(of_choice, left_over(proposed) - left_over(state), proposed, state)


def _scatter(key: Array, state: ChainState, noisy: ShownMoments, variance: Array) -> ChainState:
    """W given Sigma and the second sums."""
    of_proposal, of_choice = jax.random.split(key)
    Sigma, d = state["Sigma"], state["Sigma"].shape[0]
    j, k = pairs(d)
    freedom = noisy.sizes.sum() - noisy.sizes.shape[0]
    centre = freedom * Sigma[j, k]
    covariance = freedom * (
        Sigma[jnp.ix_(j, j)] * Sigma[jnp.ix_(k, k)] + Sigma[jnp.ix_(j, k)] * Sigma[jnp.ix_(k, j)]
    )
    shown = noisy.second - _of_means(state, noisy)
    gain = covariance @ jnp.linalg.inv(covariance + jnp.diag(variance))
    spread = covariance - gain @ covariance
    spread = 0.5 * (spread + spread.T) + 1e-14 * jnp.diag(jnp.diagonal(covariance))
    deviates = jnp.linalg.cholesky(spread) @ jax.random.normal(of_proposal, j.shape)
    proposed = {**state, "W": _square(centre + gain @ (shown - centre) + deviates, d)}

    def left_over(state: ChainState) -> Array:
        """The Wishart's log density less that of its normal approximation."""
        gap = state["W"][j, k] - centre
        normal = -0.5 * gap @ jnp.linalg.solve(covariance, gap)
        return jnp.asarray(_log_wishart(state["W"], Sigma, freedom) - normal)

    return _chosen(of_choice, left_over(proposed) - left_over(state), proposed, state)


def _together(
    key: Array,
    state: ChainState,
    noisy: ShownMoments,
    fits: LogDensity,
    log_prior: LogDensity,
) -> ChainState:
    """L by a random walk of log L_kk and L_jk/L_kk, W = L W_0 L' along with it."""
    of_size, of_step, of_choice = jax.random.split(key, 3)
    d = state["Sigma"].shape[0]
    size = 10.0 ** jax.random.uniform(of_size, (), minval=STEPS[0], maxval=STEPS[1])
    L = jnp.linalg.cholesky(state["Sigma"])
    step = jnp.tril(size * noisy.reach * jax.random.normal(of_step, (d, d)))
    ratios = jnp.tril(L / jnp.diagonal(L), -1) + jnp.tril(step, -1)
    diagonal = jnp.diagonal(L) * jnp.exp(jnp.diagonal(step))
    moved = (ratios + jnp.eye(d)) * diagonal
    carry = moved @ solve_triangular(L, jnp.eye(d), lower=True)
    proposed = {**state, "Sigma": moved @ moved.T, "W": carry @ state["W"] @ carry.T}
    proposed = placed(proposed, log_prior)
    powers = 2.0 * (d - jnp.arange(d))

    def target(state: ChainState) -> Array:
        """Of (log L_kk, L_jk/L_kk, W_0): dSigma/dL is prod L_kk^(d-k+1), k from 1, log L_kk gives
        L_kk and the ratios L_kk^(d-k) more."""
        L = jnp.linalg.cholesky(state["Sigma"])
        residual = state["mean"] - noisy.X @ state["B"]
        white = solve_triangular(L, residual.T, lower=True)
        log_diagonal = jnp.log(jnp.diagonal(L))
        cells = noisy.sizes.shape[0]
        of_means = -0.5 * (noisy.sizes * white**2).sum() - cells * log_diagonal.sum()
        return fits(state) + of_means + (powers * log_diagonal).sum()

    return _chosen(of_choice, target(proposed) - target(state), proposed, state)


def _log_wishart(W: Array, Sigma: Array, freedom: Array) -> Array:
    """Up to what does not depend on W; minus infinity where W is not positive definite."""
    d = W.shape[0]
    root = jnp.linalg.cholesky(W)
    log_size = 2.0 * jnp.log(jnp.diagonal(root)).sum()
    value = 0.5 * (freedom - d - 1) * log_size - 0.5 * jnp.trace(jnp.linalg.solve(Sigma, W))
    return jnp.where(jnp.isfinite(value), value, -jnp.inf)


def _chosen(key: Array, log_ratio: Array, proposed: ChainState, state: ChainState) -> ChainState:
    """Metropolis: NaN counts as rejected."""
    moved = jnp.log(jax.random.uniform(key)) < log_ratio
    return {name: jnp.where(moved, proposed[name], state[name]) for name in state}


def _of_means(state: ChainState, noisy: ShownMoments) -> Array:
    j, k = pairs(state["Sigma"].shape[0])
    mean = state["mean"]
    return ((mean * noisy.sizes[:, None]).T @ mean)[j, k]


def _second(state: ChainState, noisy: ShownMoments) -> Array:
    j, k = pairs(state["Sigma"].shape[0])
    return state["W"][j, k] + _of_means(state, noisy)


def _square(values: Array, d: int) -> Array:
    """The symmetric matrix of its entries j <= k."""
    upper = jnp.zeros((d, d)).at[pairs(d)].set(values)
    return upper + jnp.triu(upper, 1).T


def refuse_small_cells(n: int, cells: int) -> None:
    if n < LEAST_PER_CELL * cells:
        raise Refused(
            f"The predictors have {cells:,} combinations for {n:,} records, too few "
            "in each for sums with noise; leave predictors out, merge levels, or cut numbers "
            "into classes."
        )


def drawn_given_noisy(
    density: Density,
    arrays: Arrays,
    seen: ExactCellSums,
    noisy: NoisyCellSums,
    datasets: int,
    settings: Settings,
    key: Array,
) -> NoisyDraws:
    """Draws of a Gaussian model given noisy sums; of the arrays nothing but the shapes is used."""
    shown = shown_moments(seen, noisy)
    latent = sample_given_noisy(density, arrays, shown, settings, key)
    positions = spread_positions(density, arrays, shown, latent, datasets, key)
    parameters = parameters_at(density, positions, arrays)
    return NoisyDraws(parameters, not latent.diagnostics.failures)
