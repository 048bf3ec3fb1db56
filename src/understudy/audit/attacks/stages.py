"""`ReferenceCensored` without a history: its first stage's draw and that of the file, together.

Both are exact draws on the grid, with the terms that the mechanism prepares, given each draw that
the first stage may have made. The record says RARE. The public guess lies half-way, where the
first stage's clip is met on both sides; and where that stage drew NEAR, so is the second one's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from understudy.audit.attack import ALPHA, Losses, MechanismAttack, Simulation
from understudy.audit.epsilon_bound import exact_epsilon, shown_by_counts
from understudy.audit.problems import (
    BLANK,
    COMMON,
    FLAT,
    GRID,
    RARE,
    GridFitter,
    Vector,
    counts_of_draws,
    log_hump,
)
from understudy.dp.contributions import clip_bound
from understudy.mechanisms.contract import Terms
from understudy.mechanisms.reference_censored import ReferenceCensored

NEAR = 0.75
SHARE = 0.5  # of epsilon, for the first stage
SIGMA, SCALE = 0.05, 0.1  # a quarter of a unit away a record loses more than any limit


class OneDraw(NamedTuple):
    """A stage of which only its one draw is asked about."""

    positions: Vector

    def check(self) -> None:
        """Nothing can fail: the posterior is exact."""


@dataclass(frozen=True, eq=False)
class StagedFitter(GridFitter):
    """Its first stage draws the theta that is asked about."""

    drawn: float = 0.0
    stages: list[Terms] = field(default_factory=list)

    def on_guess(self, number: int) -> StagedFitter:  # noqa: ARG002
        return StagedFitter(np.full(50, 0.5), self.sigma, FLAT, drawn=0.5)

    def rehearsing(self, fast: bool) -> StagedFitter:  # noqa: ARG002
        return self

    def fit(self, terms: Terms, stage: str, start: Any = None) -> Any:  # noqa: ARG002
        self.stages.append(terms)
        return OneDraw(np.array([[self.drawn]]))


class StagesAttack(MechanismAttack):
    name = "reference-censored-stages"
    relations = ("blank", "replace")
    mutants: ClassVar[tuple[str, ...]] = ("stage-not-charged",)
    trials = 1_000_000_000
    leaks = False
    per_unit: ClassVar[int] = 1

    def losses(self, simulation: Simulation) -> Losses:
        epsilon, blank = simulation.epsilon, simulation.relation == "blank"
        mechanism = ReferenceCensored(epsilon, "none", scale=SCALE, stages=(SHARE,))
        claimed = epsilon if blank else 2 * epsilon
        prior = _prior(claimed / 2, blank)
        files = [np.full(self.per_unit, value) for value in (RARE, BLANK if blank else COMMON)]
        first, second = (self._joint(mechanism, file, prior, simulation.mutant) for file in files)
        drawn = [
            counts_of_draws(log_p, simulation.trials, simulation.rng) for log_p in (first, second)
        ]
        shown = shown_by_counts(drawn[0], drawn[1], ALPHA)
        return Losses(claimed, shown, exact_epsilon(first, second))

    def _joint(
        self, mechanism: ReferenceCensored, file: Vector, prior: Vector, mutant: str | None
    ) -> Vector:
        """log P(theta_1, theta_2) of the stage and one data set."""
        by_record = self.per_unit == 1 or mutant == "clipped-by-record"
        units = None if by_record else np.zeros(self.per_unit, dtype=np.int64)
        rows = []
        for k, drawn in enumerate(GRID):
            fitter = StagedFitter(file, SIGMA, prior, units=units, drawn=float(drawn))
            last = mechanism.prepare(cast(Any, fitter), 1).terms
            if mutant == "stage-not-charged":
                last = replace(last, limit=clip_bound(mechanism.epsilon))
            (stage,) = fitter.stages
            rows.append(fitter.log_posterior(stage)[k] + fitter.log_posterior(last))
        return np.concatenate(rows)


class StagesUnitsAttack(StagesAttack):
    """Of a household of three."""

    name = "reference-censored-stages-units"
    relations = ("blank", "replace")
    mutants = ("stage-not-charged", "clipped-by-record")
    trials = 1_000_000_000
    leaks = False
    per_unit = 3


def _prior(claimed: float, blank: bool) -> Vector:
    """Proper, and such that without the record either of NEAR and RARE costs about 2 % of what one
    of the two draws claims, and is still met."""
    share = 0.02 * claimed / math.expm1(claimed)
    odds = math.log(share / (1 - 2 * share)) + (0.0 if blank else claimed / 2)
    humps = [log_hump(COMMON), odds + log_hump(NEAR), odds + log_hump(RARE)]
    log_prior = np.logaddexp.reduce(humps, axis=0)
    return np.asarray(log_prior - np.logaddexp.reduce(log_prior), dtype=np.float64)
