"""Clipped posteriors of Gaussian models: independent proposals from moments, each weighed once.

Clipped contributions have no sufficient statistics, but where little is clipped their posterior
is close to the one without a clip, from which draws cost nothing (fitting/moments). So those are
the proposals of independence Metropolis. One pass over the records weighs a proposal, without
gradients; NUTS needs a pass with a gradient for every step of every tree.

Far from the bulk a clipped density falls more slowly than its proposals do, and a chain would stick
there. So a share of the proposals comes from the posterior at a part of the weight, which is wider;
the weight of a proposal is the target's density over that of the mixture. Where proposals and
target have little in common (the effective share of a pilot's weights says so) NUTS is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf, isfinite, log, pi
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import multigammaln
from numpy.typing import NDArray

from understudy.dp.contributions import by_unit, reference_censored, weighted
from understudy.fitting.continuation import run_until_good
from understudy.fitting.fit_settings import Settings
from understudy.fitting.moments import Moments, cell_moments, is_proper, propose
from understudy.fitting.nuts import Chains, Inputs, Tick, log_density, prior_of_terms
from understudy.mechanisms.contract import Terms
from understudy.models.compilation import kept
from understudy.models.contract import Judged
from understudy.models.density import Density, density_at
from understudy.models.gaussian import GaussianModel

DEFENSIVE = 0.1  # share of the proposals from the wider component
WIDER = 0.25  # the part of the weight that it has
BLOCK = 64  # proposals that are made and weighed together
BURN_IN = 30  # proposals of each chain that are left out
LEAST_SHARE = 0.3  # of a pilot's proposals, by their weights; below it NUTS is asked
MOST_FITS = 20  # in search of a mode,
MEDIAN_OF = 10_000  # records, about, that say what most are like: it is a start only
SETTLED = 1e-3  # or until no more than this share of the records changes sides
LOW = 30.0  # a mode so far below the highest, on the log scale, has no mass
FAR = 15.0  # a mode whose log weight is so much above that of the centre is out of reach
LONGEST = 8  # times the asked length, before NUTS is asked

Floats = NDArray[np.float64]
ContributionSums = Callable[
    [Floats], Floats
]  # of all contributions, at positions (draws, D): (draws,)
# positions (BLOCK, D), log weights before contributions are added, and logs of uniform numbers
BlockOfProposals = Callable[[Array], tuple[Array, Array, Array]]


def is_clipped_gaussian(density: Density, terms: Terms) -> bool:
    return isinstance(density.model, GaussianModel) and isfinite(terms.limit)


def sample_by_independence(
    density: Density,
    inputs: Inputs,
    settings: Settings,
    key: Array,
    tick: Tick | None = None,
    sums: ContributionSums | None = None,
) -> Chains | None:
    """Chains of draws from `nuts.log_density`; None where the proposals do not suit it. `sums`
    adds up the contributions, by a pass over all records if it is not given."""
    model = density.model
    assert isinstance(model, GaussianModel)  # settled by the caller
    moments = cell_moments(*model.gaussian_cells(inputs["arrays"]), inputs["alpha"])
    if not is_proper(tempered(moments, WIDER)):
        return None
    if _misses_a_mode(density, moments, inputs):
        return None
    return weighed_chains(
        density,
        inputs,
        moments,
        sums or contributions_by_parts(density, inputs),
        settings,
        key,
        tick,
    )


def weighed_chains(
    density: Density,
    inputs: Inputs,
    moments: Moments,
    sums: ContributionSums,
    settings: Settings,
    key: Array,
    tick: Tick | None = None,
) -> Chains | None:
    """Chains of proposals from these moments, weighed by sums of contributions; None where they
    have little in common with the target. Of the inputs only the prior is used."""
    few = {name: array[:1] for name, array in inputs["arrays"].items()}
    prior = {name: inputs[name] for name in ("prior_centre", "prior_scale")} | {"arrays": few}
    block = partial(_block, density_at(density.model, few), moments, prior)
    return weigh(density, block, sums, settings, key, tick)


def weigh(
    density: Density,
    block: BlockOfProposals,
    sums: ContributionSums,
    settings: Settings,
    key: Array,
    tick: Tick | None,
    thinning: int = 1,
) -> Chains | None:
    """Chains of such proposals, so many to a draw; None where they have little in common with the
    target."""
    chains = [
        _Chain(block, sums, of_chain, tick) for of_chain in jax.random.split(key, settings.chains)
    ]
    if effective_share(np.concatenate([chain.log_weights for chain in chains])) < LEAST_SHARE:
        return None

    def run(times: int) -> tuple[Floats, int]:
        apart = thinning * times
        length = settings.per_chain * apart
        return np.stack([chain.draws(length)[apart - 1 :: apart] for chain in chains]), 0

    def judged(positions: Floats) -> Judged:
        return Judged(density.coordinates, positions)

    positions, diagnostics = run_until_good(run, judged, min(settings.most_thinning, LONGEST))
    return None if diagnostics.failures else Chains(positions, diagnostics)


class Sides(Protocol):
    """Which records a fit gives up; a side stands for a set of them."""

    def given_up(self, B: Floats, Sigma: Floats) -> Any: ...  # whose contributions are clipped

    def disliked(self, B: Floats, Sigma: Floats) -> Any: ...  # about half, those it likes least

    def differing(self, side: Any, other: Any) -> float: ...  # share of all records

    def moments_of_others(self, side: Any) -> Moments: ...

    def height(self, B: Floats, Sigma: Floats) -> tuple[Any, Any]: ...  # target, and its weight


def misses_a_mode(moments: Moments, sides: Sides) -> bool:
    """Whether the target has a mode that no proposal would find."""
    points = fits_of_sides(moments, sides)
    heights, weights = np.array([sides.height(*point) for point in points]).T
    return bool(((heights > heights.max() - LOW) & (weights > weights[0] + FAR)).any())


def fits_of_sides(moments: Moments, sides: Sides) -> list[tuple[Floats, Floats]]:
    """B and Sigma where the target may have modes, the fit to all records first.

    A record that is clipped adds a constant, so a mode is the fit to the records that are not: one
    that gives up a tail may be there beside the fit to all. Fits to the records that are not
    clipped are repeated until these hardly change, from all records and from the half that the fit
    to all likes best.
    """
    points = [_mode(moments)]
    for first in (sides.given_up, sides.disliked):
        (B, Sigma), before = points[0], None
        for _ in range(MOST_FITS):
            side = (first if before is None else sides.given_up)(B, Sigma)
            if before is not None and sides.differing(side, before) <= SETTLED:
                break
            before, inner = side, sides.moments_of_others(side)
            if not is_proper(inner):
                break
            B, Sigma = _mode(inner)
        points.append((B, Sigma))
    return points


def _misses_a_mode(density: Density, moments: Moments, inputs: Inputs) -> bool:
    return misses_a_mode(moments, RecordSides(density, moments, inputs))


class RecordSides:
    """A side is a vector of the records that are given up."""

    def __init__(self, density: Density, moments: Moments, inputs: Inputs) -> None:
        assert isinstance(density.model, GaussianModel)
        self._density, self._moments, self._inputs = density, moments, inputs
        self._data = density.model.gaussian_cells(inputs["arrays"])

    def given_up(self, B: Floats, Sigma: Floats) -> NDArray[np.bool_]:
        return np.asarray(_given_up(self._density, B, Sigma, self._inputs)[0])

    def disliked(self, B: Floats, Sigma: Floats) -> NDArray[np.bool_]:
        return np.asarray(_given_up(self._density, B, Sigma, self._inputs)[1])

    def differing(self, side: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
        return float((side != other).mean())

    def moments_of_others(self, side: NDArray[np.bool_]) -> Moments:
        return cell_moments(*self._data, np.where(side, 0.0, self._inputs["alpha"]))

    def height(self, B: Floats, Sigma: Floats) -> tuple[Any, Any]:
        height: tuple[Any, Any] = _height(self._density, B, Sigma, self._moments, self._inputs)
        return height


@kept(constants=1, few_runs=True)
def _given_up(density: Density, B: Array, Sigma: Array, inputs: Inputs) -> tuple[Array, Array]:
    """Records whose contributions are clipped at a point, and those it likes less than most."""
    assert isinstance(density.model, GaussianModel)
    loglik = density.evaluate(density.model.position(B, Sigma), inputs["arrays"])[1]
    gain = weighted(loglik - inputs["reference_loglik"], inputs["alpha"])
    sums = by_unit(gain, inputs.get("units"))
    clipped = jnp.abs(sums)[inputs.get("units", slice(None))] >= inputs["limit"]
    some = loglik[:: max(1, len(loglik) // MEDIAN_OF)]
    return clipped, loglik < jnp.median(some)


@kept(constants=1, few_runs=True)
def _height(
    density: Density, B: Array, Sigma: Array, moments: Moments, inputs: Inputs
) -> tuple[Array, Array]:
    """The target's log density at a point, and its weight but for a constant."""
    assert isinstance(density.model, GaussianModel)
    height = log_density(density, density.model.position(B, Sigma), inputs)
    return height, height - log_proposal(B, Sigma, moments)


def _mode(moments: Moments) -> tuple[Floats, Floats]:
    """The fit of these moments: B and Sigma."""
    XX, XY, YY = (np.asarray(part) for part in (moments.XX, moments.XY, moments.YY))
    B = np.linalg.solve(XX, XY)
    return B, (YY - XY.T @ B) / np.asarray(moments.total)


def effective_share(log_weights: Floats) -> float:
    """(sum w)^2 / sum w^2 over the number of weights (Kong)."""
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (weights**2).sum() / len(weights))


class _Chain:
    """One chain, whose proposals are weighed in blocks; a longer run begins with the shorter."""

    def __init__(
        self,
        block: BlockOfProposals,
        sums: ContributionSums,
        key: Array,
        tick: Tick | None,
    ) -> None:
        self._block, self._sums, self._key, self._tick = block, sums, key, tick
        self._blocks: list[tuple[Floats, Floats, Floats]] = []
        self._extend(BURN_IN)

    @property
    def log_weights(self) -> Floats:
        return np.concatenate([weights for _, weights, _ in self._blocks])

    def draws(self, length: int) -> Floats:
        """(length, D) positions after the burn-in."""
        self._extend(BURN_IN + length)
        positions, log_weights, levels = map(np.concatenate, zip(*self._blocks, strict=True))
        places = accepted(log_weights, levels)[BURN_IN : BURN_IN + length]
        return np.asarray(positions[places])

    def _extend(self, steps: int) -> None:
        numbers = range(len(self._blocks), -(-steps // BLOCK))
        keys = [jax.random.fold_in(self._key, number) for number in numbers]
        made = [[np.asarray(a) for a in self._block(key)] for key in keys]
        if not made:
            return
        contributions = self._sums(np.concatenate([positions for positions, _, _ in made]))
        for (positions, before, levels), added in zip(
            made, contributions.reshape(-1, BLOCK), strict=True
        ):
            log_weights = np.nan_to_num(before + added, nan=-inf)
            self._blocks.append((positions, log_weights, levels))
            if self._tick is not None:
                self._tick(BLOCK)


def accepted(log_weights: Floats, levels: Floats) -> NDArray[np.int64]:
    """Which proposal the chain is at after each step; `levels` are logs of uniform numbers."""
    places, at, weight = np.zeros(len(levels), dtype=np.int64), 0, -inf
    for step, (proposed, level) in enumerate(
        zip(log_weights.tolist(), levels.tolist(), strict=True)
    ):
        if level < proposed - weight:
            at, weight = step, proposed
        places[step] = at
    return places


@kept(constants=1, few_runs=True)
def _block(
    density: Density, moments: Moments, inputs: Inputs, key: Array
) -> tuple[Array, Array, Array]:
    """Positions (BLOCK, D) of a block of proposals, their log weights before contributions are
    added, and levels."""
    model = density.model
    assert isinstance(model, GaussianModel)
    of_proposals, of_component, of_levels = jax.random.split(key, 3)
    wide = tempered(moments, WIDER)
    from_wide = jax.random.uniform(of_component, (BLOCK,)) < DEFENSIVE
    B, Sigma = propose(of_proposals, moments, BLOCK, jnp.where(from_wide, WIDER, 1.0))
    positions = jax.vmap(model.position)(B, Sigma)

    def log_prior(position: Array) -> Array:
        own = density.evaluate(position, inputs["arrays"])[0]  # which depends on no record
        return prior_of_terms(own, position, inputs)

    def log_proposed(B: Array, Sigma: Array) -> Array:
        mixture = jnp.logaddexp(
            jnp.log1p(-DEFENSIVE) + log_proposal(B, Sigma, moments),
            jnp.log(DEFENSIVE) + log_proposal(B, Sigma, wide),
        )
        return mixture + model.log_volume(B, Sigma)

    before = jax.vmap(log_prior)(positions) - jax.vmap(log_proposed)(B, Sigma)
    return positions, before, jnp.log(jax.random.uniform(of_levels, (BLOCK,)))


def contributions_by_parts(density: Density, inputs: Inputs) -> ContributionSums:
    """Sums by passes over all records, a few at a time."""
    part, arrays = density.in_parts(inputs["arrays"], inputs.get("units"))
    by_part = arrays[density.model.targets[0]].shape[:2]
    filled = by_part[0] * by_part[1] - density.n  # with records of weight 0
    records = {
        name: jnp.pad(inputs[name], (0, filled)).reshape(by_part)
        for name in ("alpha", "reference_loglik")
    }
    problem = {**inputs, **records, "arrays": arrays}

    def sums(positions: Floats) -> Floats:
        blocks = positions.reshape(-1, BLOCK, positions.shape[1])
        return np.concatenate([_contributions(part, block, problem) for block in blocks])

    return sums


@kept(constants=1, few_runs=True)
def _contributions(density: Density, positions: Array, inputs: Inputs) -> Array:
    """The sum of all clipped contributions at each position, part by part of the records."""

    def added(total: Array, part: dict[str, Any]) -> tuple[Array, None]:
        loglik = jax.vmap(lambda q: density.record_loglik(q, part["arrays"]))(positions)
        terms = part["reference_loglik"], part["alpha"], inputs["limit"], inputs.get("units")
        return total + reference_censored(loglik, *terms).sum(axis=1), None

    parts = {name: inputs[name] for name in ("arrays", "reference_loglik", "alpha")}
    totals: Array = jax.lax.scan(added, jnp.zeros(len(positions)), parts)[0]
    return totals


def log_proposal(B: Array, Sigma: Array, moments: Moments) -> Array:
    """The log density of `propose` at B (K, d) and Sigma (d, d), the latter by its lower triangle:
    inverse Wishart(A - K, R) times matrix normal(B_hat, (X'AX)^-1, Sigma)."""
    K, d = moments.XY.shape
    L = jnp.linalg.cholesky(moments.XX)
    half = solve_triangular(L, moments.XY, lower=True)
    C = jnp.linalg.cholesky(moments.YY - half.T @ half)
    F = jnp.linalg.cholesky(Sigma)
    freedom = moments.total - K
    log_sigma, log_residual, log_design = (_half_log_det(each) for each in (F, C, L))
    white = solve_triangular(F, C, lower=True)
    wishart = (
        freedom * log_residual
        - 0.5 * freedom * d * log(2)
        - multigammaln(0.5 * freedom, d)
        - (freedom + d + 1) * log_sigma
        - 0.5 * jnp.square(white).sum()
    )
    away = solve_triangular(F, (L.T @ B - half).T, lower=True)
    normal = -0.5 * K * d * log(2 * pi) + d * log_design - K * log_sigma
    return wishart + normal - 0.5 * jnp.square(away).sum()


def _half_log_det(factor: Array) -> Array:
    """Half of log |F F'|, F lower triangular."""
    return jnp.log(jnp.diagonal(factor)).sum()


def tempered(moments: Moments, part: float) -> Moments:
    """The moments when every weight is `part` of what it is."""
    scaled: Moments = jax.tree.map(lambda each: part * each, moments)
    return scaled
