"""Small problems on which the formal mechanisms are audited, and the mutants planted in them.

The posterior mechanisms run on a model whose parameter space is a grid: y_i ~ N(theta, sigma^2)
with theta on 41 points, so a posterior draw is exact. The contributions are the package's own.
Two pairs of neighbours for each relation:

- "worst record": the record says M for one theta and -M for nearly all the rest. The prior
  makes that theta rare, and then the bounds 2M (`blank`) and 4M (`replace`) are reached up to a
  few per cent (docs/proofs/censoring.md, "The bound is tight").
- "moved setting": the record would move a reference or record weights that are computed from
  the file, and with them the contributions of sixteen other records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import jax
import numpy as np
from numpy.typing import NDArray

from understudy.privacy.contributions import (
    censored,
    clip_bound,
    reference_censored,
    weighted,
)
from understudy.privacy.record_weights import linear_weights

Vector = NDArray[np.float64]
AuditRelation = Literal["blank", "replace"]

GRID = np.arange(-10, 31) / 20.0
COMMON, RARE = 0.0, 1.0  # the two values of theta between which the databases decide
BLANK = math.nan

MUTANTS = {
    "censored": ("M-doubled", "clip-missing", "two-draws"),
    "censored-weighted": ("M-doubled", "clip-missing", "two-draws", "weights-from-data"),
    "reference-censored": ("M-doubled", "clip-missing", "two-draws", "reference-from-data"),
    "perturbed-histogram": ("scale-halved", "two-draws"),
}
MECHANISMS = tuple(MUTANTS)


@dataclass(frozen=True)
class GridProblem:
    """A posterior mechanism on the grid: what is public, and which mutant is planted."""

    mechanism: str
    M: float
    alpha: float
    sigma: float
    reference: float
    mutant: str | None = None

    def contributions(self, values: Vector) -> Vector:
        """(grid, records) contributions of the records that are not blanked."""
        present = values[~np.isnan(values)]
        loglik = _normal_loglik(present, self.sigma)
        M = 2 * self.M if self.mutant == "M-doubled" else self.M
        alpha: float | Vector = self.alpha
        if self.mutant == "weights-from-data":
            alpha = linear_weights(np.abs(loglik).max(axis=0))
        with jax.enable_x64(True):
            if self.mechanism == "reference-censored":
                leaked = self.mutant == "reference-from-data" and present.size > 0
                theta = np.array([present.mean() if leaked else self.reference])
                at_reference = _normal_loglik(present, self.sigma, theta)
                if self.mutant == "clip-missing":
                    return np.asarray(weighted(loglik - at_reference, alpha))
                return np.asarray(reference_censored(loglik, at_reference, alpha, M))
            if self.mutant == "clip-missing":
                return np.asarray(weighted(loglik, alpha))
            return np.asarray(censored(loglik, alpha, M))

    def log_posterior(self, values: Vector, log_prior: Vector) -> Vector:
        """Exact log probabilities on the grid; of pairs of draws under the mutant `two-draws`."""
        density = log_prior + self.contributions(values).sum(axis=1)
        log_probability = density - np.logaddexp.reduce(density)
        if self.mutant == "two-draws":
            log_probability = np.add.outer(log_probability, log_probability).ravel()
        return np.asarray(log_probability, dtype=np.float64)


@dataclass(frozen=True)
class Neighbours:
    """Two databases that differ in their last record, and a public prior on the grid."""

    problem: GridProblem
    first: Vector
    second: Vector
    log_prior: Vector

    def log_posteriors(self) -> tuple[Vector, Vector]:
        return (
            self.problem.log_posterior(self.first, self.log_prior),
            self.problem.log_posterior(self.second, self.log_prior),
        )


def grid_neighbours(
    mechanism: str, epsilon: float, relation: AuditRelation, mutant: str | None = None
) -> list[Neighbours]:
    """The pairs of databases for one posterior mechanism at `epsilon` (`blank`, one draw)."""
    M = clip_bound(epsilon)
    claimed = epsilon if relation == "blank" else 2 * epsilon
    rare = 0.03 * claimed / math.expm1(claimed)  # costs 3 % of the claim and is still met often
    alpha = 1.0 if mechanism == "censored" else 0.5
    worst = ([RARE], [BLANK] if relation == "blank" else [COMMON])
    pairs = [(*worst, 0.5, rare)]
    others = [COMMON] * 16
    if mechanism == "reference-censored":
        sigma = math.sqrt(alpha / (16 * M))
        # with this record the mean lies where each of the others loses exactly M against COMMON
        mover = 17 * sigma * math.sqrt(2 * M / alpha)
        pairs.append(([*others, mover], [*others, worst[1][0]], COMMON, 0.5))
    else:
        # alpha f reaches 2M at its top and lies below -M one unit away
        sigma = min(math.exp(-2 * M / alpha) / math.sqrt(2 * math.pi), math.sqrt(alpha / (8 * M)))
        # a far record stretches the linear map: the others, at weight 0 before, get nearly 1
        moved = [*others, 0.5]
        pairs.append(([*moved, 5.0], [*moved, worst[1][0]], 0.5, 0.5))
    built = []
    for first, second, reference, share in pairs:
        sound = GridProblem(mechanism, M, alpha, sigma, reference)
        log_prior = _prior_for(sound, np.array(second), share)
        planted = GridProblem(mechanism, M, alpha, sigma, reference, mutant)
        built.append(Neighbours(planted, np.array(first), np.array(second), log_prior))
    return built


def _prior_for(problem: GridProblem, values: Vector, share: float) -> Vector:
    """A proper prior in two narrow humps, such that the posterior of RARE is about `share`."""
    humps = np.stack([_log_hump(COMMON), _log_hump(RARE)])
    density = humps + problem.contributions(values).sum(axis=1)
    mass = np.logaddexp.reduce(density, axis=1)
    odds = math.log(share / (1 - share)) - (mass[1] - mass[0])
    log_prior = np.logaddexp(humps[0], humps[1] + odds)
    return np.asarray(log_prior - np.logaddexp.reduce(log_prior), dtype=np.float64)


def _log_hump(centre: float) -> Vector:
    density = -0.5 * ((GRID - centre) / 0.01) ** 2
    # every theta keeps some prior mass, so that no mechanism is audited on a two-point space
    floor = np.full(GRID.size, -12.0)
    both = np.logaddexp(density, floor)
    return np.asarray(both - np.logaddexp.reduce(both), dtype=np.float64)


def _normal_loglik(values: Vector, sigma: float, theta: Vector = GRID) -> Vector:
    """log N(y_i; theta_g, sigma^2), shape (grid, records)."""
    scaled = (values[None, :] - theta[:, None]) / sigma
    return np.asarray(-0.5 * scaled**2 - math.log(sigma * math.sqrt(2 * math.pi)))
