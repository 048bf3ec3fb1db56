"""Small problems on which the posterior mechanisms are audited, and the mutants planted in them.

The mechanisms are the package's own: they prepare their terms (record weights, reference, limit)
from a `GridFitter`, whose model is y_i ~ N(theta, sigma^2) with theta on a grid of 41 points.
There the posterior is known exactly, and so is a draw from it. Two pairs of neighbouring
databases for each mechanism and relation:

- "worst record": the record says M for one theta and -M for nearly all the rest. The prior
  makes that theta rare, and then the bounds 2M (`blank`) and 4M (`replace`) are reached up to a
  few per cent (docs/proofs/censoring.md, "The bound is tight").
- "moved setting": the record would move a reference or record weights that are computed from
  the file, and with them the contributions of many other records.

"censored-units" is `Censored` where records belong to households: the worst record is a household
of three, whose members say the same, and it is the household that is protected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import jax
import numpy as np
from numpy.typing import NDArray

from understudy.claim import Claim
from understudy.dp.contributions import clip_bound, reference_censored
from understudy.dp.record_bounds import RecordBounds
from understudy.mechanisms.censored import Censored
from understudy.mechanisms.contract import Fitter, FixedWeights, Mechanism, Terms
from understudy.mechanisms.reference_censored import ReferenceCensored

Vector = NDArray[np.float64]
AuditRelation = Literal["blank", "replace"]

GRID = np.arange(-10, 31) / 20.0
COMMON, RARE = 0.0, 1.0  # the two values of theta between which the databases decide
BLANK = math.nan
HOUSEHOLD = 3  # records of each household in the problem with units
FLAT = np.full(GRID.size, -math.log(GRID.size))
# weight 1/2 for every record, fixed beforehand
HALF = FixedWeights(GRID[:, None], low=0.0, high=1.0, c1=0.0, c2=0.5)

MUTANTS = {
    "censored": ("M-doubled", "clip-missing", "two-draws"),
    "censored-weighted": ("M-doubled", "clip-missing", "two-draws", "weights-from-data"),
    "reference-censored": ("M-doubled", "clip-missing", "two-draws", "reference-from-data"),
    "censored-units": ("M-doubled", "clip-missing", "two-draws", "clipped-by-record"),
    "perturbed-histogram": ("scale-halved", "two-draws"),
}
MECHANISMS = tuple(MUTANTS)


@dataclass(frozen=True, eq=False)
class GridFitted:
    """Draws that represent an exact posterior on the grid, and the bounds over them."""

    positions: Vector
    bounds: RecordBounds

    def check(self) -> None:
        """Nothing can fail: the posterior is exact."""


@dataclass(frozen=True, eq=False)
class GridFitter:
    """The normal model on the grid for one database; a blanked value is NaN."""

    values: Vector
    sigma: float
    log_prior: Vector
    conditions: tuple[str, ...] = ()
    units: NDArray[np.int64] | None = None
    unit: str = "record"

    @property
    def n(self) -> int:
        return int(self.values.size)

    @property
    def present(self) -> NDArray[np.bool_]:
        return ~np.isnan(self.values)

    @property
    def sensitive_values(self) -> Vector:
        return self.values[self.present][:, None]

    def refuse_source(self, values: Vector, purpose: str) -> None:
        """The mutants take what they should not from the same file: nothing is refused here."""

    def record_loglik(self, position: Vector) -> Vector:
        """log N(y_i; theta, sigma^2), shape (n,)."""
        return np.asarray(self._loglik(np.asarray(position))[0], dtype=np.float64)

    def bounds_over(self, positions: Vector) -> Vector:
        largest = np.abs(self._loglik(positions[:, 0])).max(axis=0)
        return np.where(self.present, largest, np.inf)

    def on(self, survey: Any, purpose: str) -> GridFitter:  # noqa: ARG002
        """The same model on a reference file, under a flat prior."""
        return GridFitter(np.asarray(survey), self.sigma, FLAT)

    def fit(self, terms: Terms, stage: str, start: Any = None) -> GridFitted:  # noqa: ARG002
        """400 evenly spread quantiles of the exact posterior: its draws without their noise."""
        distribution = np.cumsum(np.exp(self.log_posterior(terms)))
        levels = (np.arange(400) + 0.5) / 400 * distribution[-1]
        positions = GRID[np.searchsorted(distribution, levels)][:, None]
        bounds = self.bounds_over(positions)
        return GridFitted(positions, RecordBounds(bounds, bounds, bounds, terms.limit, 400))

    def log_posterior(self, terms: Terms) -> Vector:
        """log of the exact posterior probabilities on the grid (C eq. 3.6)."""
        with jax.enable_x64(True):
            contributions = np.asarray(
                reference_censored(
                    self._loglik(GRID),
                    terms.reference_loglik,
                    terms.alpha,
                    terms.limit,
                    self.units,
                )
            )
        density = self.log_prior + contributions.sum(axis=1)
        return np.asarray(density - np.logaddexp.reduce(density), dtype=np.float64)

    def _loglik(self, theta: Vector) -> Vector:
        scaled = (self.values[None, :] - theta[:, None]) / self.sigma
        return np.asarray(-0.5 * scaled**2 - math.log(self.sigma * math.sqrt(2 * math.pi)))


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Two databases that differ in their last record, under one mechanism and public prior."""

    mechanism: str
    epsilon: float
    first: Vector
    second: Vector
    sigma: float
    log_prior: Vector
    reference: Vector
    mutant: str | None = None
    datasets: int = 1

    def log_posteriors(self) -> tuple[Vector, Vector]:
        """Exact log probabilities of what is released: one draw, or several on a product grid."""
        return self._released(self.first), self._released(self.second)

    def claim(self) -> Claim:
        """What the mechanism itself claims for this release, whatever is planted in it."""
        sound = replace(self, mutant=None)
        fitter, chosen = sound._fitter(self.first), sound._chosen(self.first)
        prepared = chosen.prepare(fitter, self.datasets)
        fitted = prepared.fitted or fitter.fit(prepared.terms, "release")
        return chosen.claim(prepared, fitted, self.datasets)

    def one_draw(self, values: Vector) -> Vector:
        """Exact log probabilities of one draw, with the terms that the mechanism prepares."""
        fitter = self._fitter(values)
        terms = self._chosen(values).prepare(fitter, self.datasets).terms
        if self.mutant == "M-doubled":
            terms = replace(terms, limit=2 * terms.limit)
        if self.mutant == "clip-missing":
            terms = replace(terms, limit=math.inf)
        return cast(GridFitter, fitter).log_posterior(terms)

    def _released(self, values: Vector) -> Vector:
        log_probabilities = self.one_draw(values)
        draws = 2 if self.mutant == "two-draws" else self.datasets
        released = log_probabilities
        for _ in range(draws - 1):
            released = np.add.outer(released, log_probabilities).ravel()
        return released

    def _fitter(self, values: Vector) -> Fitter:
        # a grid generates no data sets: what is audited are the draws
        units = None
        if self.mechanism == "censored-units" and self.mutant != "clipped-by-record":
            units = np.arange(values.size) // HOUSEHOLD
        return cast(Fitter, GridFitter(values, self.sigma, self.log_prior, units=units))

    def _chosen(self, values: Vector) -> Mechanism:
        if self.mechanism in ("censored", "censored-units"):
            return Censored(self.epsilon, weighted=False)
        if self.mechanism == "censored-weighted":
            leaked = self.mutant == "weights-from-data"
            return Censored(self.epsilon, weights=None if leaked else HALF)
        leaked = self.mutant == "reference-from-data"
        reference = values[~np.isnan(values)] if leaked else self.reference
        return ReferenceCensored(self.epsilon, cast(Any, reference), scale=0.5)


def grid_neighbours(
    mechanism: str,
    epsilon: float,
    relation: AuditRelation,
    mutant: str | None = None,
    datasets: int = 1,
) -> list[Neighbours]:
    """The pairs of databases for one posterior mechanism; epsilon is its own (`blank`)."""
    M = clip_bound(epsilon, datasets)
    alpha = 1.0 if mechanism in ("censored", "censored-units") else 0.5
    claimed = 2 * M if relation == "blank" else 4 * M  # for one draw
    rare = 0.03 * claimed / math.expm1(claimed)  # costs 3 % of the claim and is still met often
    instead = BLANK if relation == "blank" else COMMON
    if mechanism == "reference-censored":
        sigma = math.sqrt(alpha / (16 * M))
        others = [COMMON] * 16
        # with this record the mean lies where each of the others loses exactly M against COMMON
        mover = 17 * sigma * math.sqrt(2 * M / alpha)
        centre = COMMON
    else:
        # alpha f reaches 2M at its top and lies below -M one unit away
        sigma = min(math.exp(-2 * M / alpha) / math.sqrt(2 * math.pi), math.sqrt(alpha / (8 * M)))
        # the linear map gives 0 to the sixteen at RARE, and nearly 1 once a far record stretches it
        others = [COMMON] * 24 + [RARE] * 16
        mover = 50.0
        centre = 0.5
    pairs = [
        ([COMMON, RARE], [COMMON, instead], 0.5, rare),
        ([*others, mover], [*others, instead], centre, 0.5),
    ]
    if mechanism == "censored-units":
        pairs = [
            (list(np.repeat(first, HOUSEHOLD)), list(np.repeat(second, HOUSEHOLD)), centre, share)
            for first, second, centre, share in pairs
        ]
    built = []
    for first, second, reference, share in pairs:
        sound = Neighbours(
            mechanism,
            epsilon,
            np.array(first),
            np.array(second),
            sigma,
            FLAT,
            np.full(50, reference),
            datasets=datasets,
        )
        built.append(replace(sound, log_prior=_prior_for(sound, share), mutant=mutant))
    return built


def _prior_for(pair: Neighbours, share: float) -> Vector:
    """A proper prior in two narrow humps, such that the second database gives RARE this share."""
    likelihood = pair.one_draw(pair.second)  # under the flat prior that the pair still has
    humps = np.stack([_log_hump(COMMON), _log_hump(RARE)])
    mass = np.logaddexp.reduce(humps + likelihood, axis=1)
    odds = math.log(share / (1 - share)) - (mass[1] - mass[0])
    log_prior = np.logaddexp(humps[0], humps[1] + odds)
    return np.asarray(log_prior - np.logaddexp.reduce(log_prior), dtype=np.float64)


def _log_hump(centre: float) -> Vector:
    density = -0.5 * ((GRID - centre) / 0.01) ** 2
    # every theta keeps some prior mass, so that no mechanism is audited on a two-point space
    both = np.logaddexp(density, np.full(GRID.size, -12.0))
    return np.asarray(both - np.logaddexp.reduce(both), dtype=np.float64)
