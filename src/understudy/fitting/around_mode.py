"""Clipped posteriors of Gaussian models that moments do not describe: proposals around their mode.

Where a prior around a reference or much clipping takes the posterior away from what moments say
(fitting/independence), its mode is sought by gradients, from the fits that the search for other
modes has found. Proposals are from a t law, first at the mode with the curvature by differences of
the gradient, then, as the density is skewed, with the mean and the covariance of weighted pilots.
The last law is held fixed, and its proposals are weighed and accepted as those from moments.
Contributions are bounded and priors fall at least exponentially, so that no weight exceeds a bound.
Where another mode is out of reach,
or proposals and target have little in common, chains of gradients are asked.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy.optimize import minimize

from understudy.fitting.fit_settings import Settings
from understudy.fitting.independence import (
    BLOCK,
    FAR,
    LOW,
    ContributionSums,
    RecordSides,
    contributions_by_parts,
    effective_share,
    fits_of_sides,
    weigh,
)
from understudy.fitting.moments import cell_moments, is_proper
from understudy.fitting.nuts import Chains, Inputs, Tick, log_density, prior_of_terms
from understudy.models.compilation import kept
from understudy.models.density import Density, density_at
from understudy.models.gaussian import GaussianModel

FREEDOM = 20.0  # degrees of freedom of the proposals
PILOT = 32  # blocks of proposals that a law is judged by, and the next one made of
ROUNDS = 8  # laws at most,
ENOUGH = 0.4  # or until so much of the pilot is worth its number
THINNING = 4  # proposals per kept draw
FLATTEST = 0.02  # curvature, in units of the reference's posterior, that a first law has at least
CUT = 0.95  # quantile above which weights count alike in the next law
STEP = 0.5  # of the differences, in standard deviations of the reference's posterior

Floats = NDArray[np.float64]


def sample_around_mode(
    density: Density,
    inputs: Inputs,
    settings: Settings,
    key: Array,
    tick: Tick | None = None,
    sums: ContributionSums | None = None,
) -> Chains | None:
    """Chains of draws from `nuts.log_density`; None where the proposals do not suit it."""
    model, scale = density.model, np.asarray(inputs["scale"])
    assert isinstance(model, GaussianModel)  # settled by the caller
    plain = {name: value for name, value in inputs.items() if name != "scale"}
    moments = cell_moments(*model.gaussian_cells(inputs["arrays"]), inputs["alpha"])
    if not is_proper(moments):
        return None
    fits = fits_of_sides(moments, RecordSides(density, moments, plain))
    starts = [
        np.linalg.solve(scale, np.asarray(model.position(*map(jnp.asarray, fit)))) for fit in fits
    ]
    modes, heights = zip(*(_mode(density, start, inputs) for start in starts), strict=True)
    mode = modes[int(np.argmax(heights))]
    factor = _factor(density, mode, inputs)
    white = np.linalg.solve(factor, (np.array(modes) - mode).T).T
    below = np.max(heights) - np.array(heights)
    if ((below < LOW) & (-below - _log_t(white) > FAR)).any():
        return None
    few = {name: array[:1] for name, array in inputs["arrays"].items()}
    prior = {name: inputs[name] for name in ("prior_centre", "prior_scale")} | {"arrays": few}
    added = sums or contributions_by_parts(density, plain)
    of_pilots, of_chains = jax.random.split(key)
    centre, factor = scale @ mode, scale @ factor
    for of_round in jax.random.split(of_pilots, ROUNDS):
        block = partial(_block, density_at(model, few), centre, factor, prior)
        made = [[np.asarray(a) for a in block(k)] for k in jax.random.split(of_round, PILOT)]
        positions, before, _ = map(np.concatenate, zip(*made, strict=True))
        log_weights = np.nan_to_num(before + added(positions), nan=-np.inf)
        if effective_share(log_weights) >= ENOUGH:
            return weigh(density, block, added, settings, of_chains, tick, THINNING)
        centre, factor = next_law(positions, log_weights)
    return None


def next_law(positions: Floats, log_weights: Floats) -> tuple[Floats, Floats]:
    """The mean of weighted positions, and F with F F' their covariance."""
    level = np.minimum(log_weights, np.quantile(log_weights, CUT))
    weights = np.exp(level - level.max())
    weights /= weights.sum()
    centre = weights @ positions
    away = positions - centre
    return centre, np.linalg.cholesky((away * weights[:, None]).T @ away)


def _mode(density: Density, start: Floats, inputs: Inputs) -> tuple[Floats, float]:
    """The highest point that a climb from `start` reaches, and its height."""

    def loss(point: Floats) -> tuple[float, Floats]:
        value, slope = _slope(density, point, inputs)
        return -float(value), -np.asarray(slope)

    highest = minimize(loss, start, jac=True, method="L-BFGS-B")
    return highest.x, -float(highest.fun)


def _factor(density: Density, mode: Floats, inputs: Inputs) -> Floats:
    """F with F F' the inverse of minus the second derivative at the mode."""
    steps = STEP * np.eye(len(mode))
    ends = [[_slope(density, mode + sign * step, inputs)[1] for sign in (1, -1)] for step in steps]
    curve = np.array([np.asarray(low) - np.asarray(high) for high, low in ends]) / (2 * STEP)
    values, axes = np.linalg.eigh((curve + curve.T) / 2)
    return np.asarray(axes / np.sqrt(np.maximum(values, FLATTEST)))


@kept(constants=1, few_runs=True)
def _slope(density: Density, point: Array, inputs: Inputs) -> tuple[Array, Array]:
    value, slope = jax.value_and_grad(lambda q: log_density(density, q, inputs))(point)
    return value, slope


def _log_t(white: Array | Floats) -> Array:
    """The log density of t at standardised points (points, D), less that at the middle."""
    power = 0.5 * (FREEDOM + white.shape[-1])
    return -power * jnp.log1p(jnp.square(white).sum(axis=-1) / FREEDOM)


@kept(constants=1, few_runs=True)
def _block(
    density: Density, mode: Array, factor: Array, inputs: Inputs, key: Array
) -> tuple[Array, Array, Array]:
    """Positions (BLOCK, D) of a block of proposals, their log weights before contributions are
    added, and levels."""
    of_normal, of_width, of_levels = jax.random.split(key, 3)
    width = jnp.sqrt(0.5 * FREEDOM / jax.random.gamma(of_width, 0.5 * FREEDOM, (BLOCK, 1)))
    white = width * jax.random.normal(of_normal, (BLOCK, len(mode)))
    positions = mode + white @ factor.T

    def log_prior(position: Array) -> Array:
        own = density.evaluate(position, inputs["arrays"])[0]  # which depends on no record
        return prior_of_terms(own, position, inputs)

    before = jax.vmap(log_prior)(positions) - _log_t(white)
    return positions, before, jnp.log(jax.random.uniform(of_levels, (BLOCK,)))
