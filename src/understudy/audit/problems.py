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

Where records belong to households, the worst record is a whole household, whose members say the
same, and it is the household that is protected.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import jax
import numpy as np
from numpy.typing import NDArray

from understudy.audit.attack import ALPHA, AuditRelation, Losses, MechanismAttack, Simulation
from understudy.audit.epsilon_bound import exact_epsilon, parts_of, shown_by_counts
from understudy.claim import Claim
from understudy.dp.contributions import clip_bound, reference_censored
from understudy.dp.record_bounds import RecordBounds
from understudy.mechanisms.contract import Fitter, Mechanism, Terms

Vector = NDArray[np.float64]

GRID = np.arange(-10, 31) / 20.0
COMMON, RARE = 0.0, 1.0  # the two values of theta between which the databases decide
BLANK = math.nan
FLAT = np.full(GRID.size, -math.log(GRID.size))


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

    attack: GridAttack
    epsilon: float
    first: Vector
    second: Vector
    sigma: float
    log_prior: Vector
    reference: Vector
    datasets: int
    mutant: str | None = None

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

    def on_grid(self, values: Vector) -> GridFitter:
        # a grid generates no data sets: what is audited are the draws
        units = None
        if self.attack.per_unit > 1 and self.mutant != "clipped-by-record":
            units = np.arange(values.size) // self.attack.per_unit
        return GridFitter(values, self.sigma, self.log_prior, units=units)

    def _fitter(self, values: Vector) -> Fitter:
        return cast(Fitter, self.on_grid(values))

    def _chosen(self, values: Vector) -> Mechanism:
        return self.attack.chosen(self, values)


class GridAttack(MechanismAttack, abstract=True):
    """A draw of a mechanism's exact posterior on the grid, on the pairs of `grid_neighbours`."""

    relations = ("blank", "replace")
    trials = 3_000_000
    leaks = False
    alpha: ClassVar[float]  # the weight of every record
    per_unit: ClassVar[int]  # records of what is protected

    @abstractmethod
    def chosen(self, pair: Neighbours, values: Vector) -> Mechanism:
        """The mechanism; `values` are the file's, which a mutant may take a setting from."""

    def sigma(self, M: float) -> float:
        """alpha f reaches 2M at its top, and then lies far below -M one unit away."""
        return math.exp(-2 * M / self.alpha) / math.sqrt(2 * math.pi)

    def moved(self, M: float) -> tuple[list[float], float, float]:  # noqa: ARG002
        """The other records, the one that would move a setting, and the centre of the reference.

        The linear map gives 0 to the sixteen at RARE, and nearly 1 once a far record stretches it.
        """
        return [COMMON] * 24 + [RARE] * 16, 50.0, 0.5

    def losses(self, simulation: Simulation) -> Losses:
        """The largest over the pairs of databases, which share alpha."""
        relation, rng = simulation.relation, simulation.rng
        pairs = grid_neighbours(self, simulation.epsilon, relation, simulation.mutant)
        claim = pairs[0].claim()
        claimed = claim.epsilon if relation == "blank" else claim.epsilon_replace
        shown, exact = 0.0, 0.0
        for pair in pairs:
            first, second = pair.log_posteriors()
            drawn = [counts_of_draws(log_p, simulation.trials, rng) for log_p in (first, second)]
            shown = max(shown, shown_by_counts(drawn[0], drawn[1], ALPHA / len(pairs)))
            exact = max(exact, exact_epsilon(first, second))
        return Losses(float(claimed or 0.0), shown, exact)


def counts_of_draws(
    log_probability: Vector, trials: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """How often each cell comes out in `trials` independent draws, (2, cells): those that choose
    an event and those that judge it. Counts of independent draws are multinomial."""
    probability = np.exp(log_probability)
    return np.asarray(rng.multinomial(parts_of(trials), probability / probability.sum()))


def grid_neighbours(
    attack: GridAttack,
    epsilon: float,
    relation: AuditRelation,
    mutant: str | None = None,
    datasets: int = 1,
) -> list[Neighbours]:
    """The pairs of databases for one posterior mechanism; epsilon is its own (`blank`)."""
    M = clip_bound(epsilon, datasets)
    claimed = 2 * M if relation == "blank" else 4 * M  # for one draw
    rare = 0.03 * claimed / math.expm1(claimed)  # costs 3 % of the claim and is still met often
    instead = BLANK if relation == "blank" else COMMON
    others, mover, centre = attack.moved(M)
    pairs = [
        ([COMMON, RARE], [COMMON, instead], 0.5, rare),
        ([*others, mover], [*others, instead], centre, 0.5),
    ]
    built = []
    for first, second, reference, share in pairs:
        sound = Neighbours(
            attack,
            epsilon,
            np.repeat(first, attack.per_unit),
            np.repeat(second, attack.per_unit),
            attack.sigma(M),
            FLAT,
            np.full(50, reference),
            datasets,
        )
        built.append(replace(sound, log_prior=_prior_for(sound, share), mutant=mutant))
    return built


def _prior_for(pair: Neighbours, share: float) -> Vector:
    """A proper prior in two narrow humps, such that the second database gives RARE this share."""
    likelihood = pair.one_draw(pair.second)  # under the flat prior that the pair still has
    humps = np.stack([log_hump(COMMON), log_hump(RARE)])
    mass = np.logaddexp.reduce(humps + likelihood, axis=1)
    odds = math.log(share / (1 - share)) - (mass[1] - mass[0])
    log_prior = np.logaddexp(humps[0], humps[1] + odds)
    return np.asarray(log_prior - np.logaddexp.reduce(log_prior), dtype=np.float64)


def log_hump(centre: float) -> Vector:
    density = -0.5 * ((GRID - centre) / 0.01) ** 2
    # every theta keeps some prior mass, so that no mechanism is audited on a two-point space
    both = np.logaddexp(density, np.full(GRID.size, -12.0))
    return np.asarray(both - np.logaddexp.reduce(both), dtype=np.float64)
