"""Weighted-e pseudo posterior (C §2.2): records above a limit are dropped; asymptotic claims."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import numpy as np

from understudy.claim import Claim, checked_epsilon, several
from understudy.dp.contributions import clip_bound
from understudy.dp.record_weights import linear_weights, truncate_weights
from understudy.errors import Refused, UnknownName
from understudy.mechanisms.contract import (
    Fitted,
    Fitter,
    Mechanism,
    Prepared,
    plain_terms,
    weights_from,
)
from understudy.mechanisms.weighted import bound_condition, checked_scale

Reading = Literal["refitted", "unrefitted"]


@dataclass(frozen=True)
class WeightedE(Mechanism):
    """Weighted, with alpha*_i = 0 where max |alpha_i f_i| > epsilon/(2m) (C §2.2), refitted.

    C does not say over which draws the maximum runs. `reading="refitted"` takes those of the fit
    under alpha, whose contributions they are; `"unrefitted"` those of the unweighted fit.
    """

    claims = "asymptotic"
    relation = "blank"
    seeded = True
    fits = 3
    synthesizes = "outcome"
    hands_out = "draws"
    delta = 0.0

    epsilon: Annotated[float, "Privacy budget of the whole release, over all data sets."]
    c1: Annotated[float, "Scale of the record weights."] = 1.0
    c2: Annotated[float, "Shift of the record weights."] = 0.0
    reading: Annotated[Reading, "Records are dropped by the refitted or by the first bounds."] = (
        "refitted"
    )

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        if self.reading not in get_args(Reading):
            raise UnknownName("reading of Weighted-e", str(self.reading), get_args(Reading))
        checked_scale(self.c1, self.c2)

    def prepare(self, fitter: Fitter, datasets: int) -> Prepared:
        limit = clip_bound(self.epsilon, datasets)
        first = fitter.fit(plain_terms(fitter), "weights")
        first.check()
        weights = weights_from(fitter, first, self.c1, self.c2)
        alpha = plain_terms(fitter, linear_weights(first.bounds.loglik, self.c1, self.c2)).alpha
        latest = first
        bounds = np.multiply(alpha, first.bounds.loglik, where=alpha > 0, out=np.zeros_like(alpha))
        if self.reading == "refitted":
            latest = fitter.fit(plain_terms(fitter, alpha), "weighted", first.positions)
            latest.check()
            bounds = latest.bounds.weighted
        kept = truncate_weights(alpha, bounds, limit)
        if not kept.any():
            raise Refused("Weighted-e drops every record at this epsilon; ask for a larger one.")
        return Prepared(plain_terms(fitter, kept), latest.positions, weights=weights)

    def claim(self, prepared: Prepared, fitted: Fitted, datasets: int) -> Claim:  # noqa: ARG002
        reached = 2 * datasets * fitted.bounds.overall
        condition = (
            "Records were dropped to approach the target epsilon "
            f"{self.epsilon:g}; dropping does not enforce it, and the claim states what came out "
            "where that is larger"
        )
        return Claim(
            "asymptotic",
            max(self.epsilon, reached),
            conditions=(bound_condition(fitted), condition),
            mechanism=f"Weighted-e, {several(datasets, 'draw')}",
        )
