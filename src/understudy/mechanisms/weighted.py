"""Weighted pseudo posterior (C §2.1): asymptotic claims.

It fits the model without weights first, takes D_i = max |f_i| over its draws, turns them into
record weights alpha_i, and fits again with contributions alpha_i f_i (C eq. 2.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Annotated, Any, Literal

from understudy.claim import Claim, checked_epsilon, several
from understudy.dp.calibrate import calibrate
from understudy.dp.contributions import clip_bound
from understudy.dp.record_weights import inverse_weights, linear_weights
from understudy.errors import Refused, UnknownName
from understudy.mechanisms.contract import (
    Fitted,
    Fitter,
    FixedWeights,
    Mechanism,
    Prepared,
    Vector,
    plain_terms,
    weights_from,
)

ABSOLUTE_TOLERANCE = 0.03  # a tuned bound is at most this far below its target, or 2 %


@dataclass(frozen=True)
class Weighted(Mechanism):
    """alpha_i f_i, with a target for the total epsilon or for the per-draw bound, or neither.

    `map="linear"` is alpha = clip(c1 (1 - (D - min D)/(max D - min D)) + c2, 0, 1), decision 005;
    `map="inverse"` is alpha = clip(c1 target/D + c2, 0, 1), as T §1.4.1 prints it. A
    target is met by scaling c1 in a few refits; with neither, the weights are as they come and the
    claim states the epsilon that results.
    """

    claims = "asymptotic"
    relation = "blank"
    seeded = True
    fits = 6
    synthesizes = "outcome"
    hands_out = "draws"
    delta = 0.0

    epsilon: Annotated[
        float | None, "Target over all data sets; the weights as they come if none."
    ] = None
    bound: Annotated[float | None, "Target of the record bound instead of epsilon."] = None
    map: Annotated[Literal["linear", "inverse"], "linear or inverse."] = "linear"
    c1: Annotated[float, "Scale of the record weights."] = 1.0
    c2: Annotated[float, "Shift of the record weights."] = 0.0
    weights: FixedWeights | None = None

    def __post_init__(self) -> None:
        if self.epsilon is not None and self.bound is not None:
            raise Refused("Give `epsilon` (over all data sets) or `bound` (per draw), not both.")
        if self.epsilon is not None:
            checked_epsilon(self.epsilon)
        if self.bound is not None and not (_is_number(self.bound) and self.bound > 0):
            raise Refused("`bound` must be a finite number above 0.")
        if self.map not in ("linear", "inverse"):
            raise UnknownName("map of the record weights", str(self.map), ("linear", "inverse"))
        if self.map == "inverse" and self.epsilon is None and self.bound is None:
            raise Refused("The inverse map needs a target; give `epsilon` or `bound`.")
        checked_scale(self.c1, self.c2)

    @property
    def needs_records(self) -> bool:
        """Weights of an earlier file are numbers of its records' bounds, one by one."""
        return self.weights is not None

    def fixed_from(self, result: Any) -> Weighted:
        """The same weight function, c1 and c2 on a later file (C §4.5); no target is sought."""
        return replace(self, weights=fixed_weights(result), epsilon=None, bound=None, map="linear")

    def prepare(self, fitter: Fitter, datasets: int) -> Prepared:
        if self.weights is not None:
            return Prepared(plain_terms(fitter, self.weights(fitter)), weights=self.weights)
        first = fitter.fit(plain_terms(fitter), "weights")
        first.check()
        bounds = first.bounds.loglik
        target = clip_bound(self.epsilon, datasets) if self.epsilon is not None else self.bound
        if target is None:
            terms = plain_terms(fitter, linear_weights(bounds, self.c1, self.c2))
            return Prepared(
                terms, first.positions, weights=weights_from(fitter, first, self.c1, self.c2)
            )

        def alpha_at(scale: float) -> Vector:
            if self.map == "inverse":
                return inverse_weights(bounds, scale * self.c1 * target, self.c2)
            return linear_weights(bounds, scale * self.c1, self.c2)

        def fit_at(scale: float, previous: Fitted | None, stream: int) -> tuple[float, Fitted]:
            start = (previous or first).positions
            stage = f"release {stream}" if stream else "release"
            fitted = fitter.fit(plain_terms(fitter, alpha_at(scale)), stage, start)
            return fitted.bounds.overall, fitted

        calibrated = calibrate(fit_at, target, tolerance=min(0.02, ABSOLUTE_TOLERANCE / target))
        terms = plain_terms(fitter, alpha_at(calibrated.scale))
        fixed = weights_from(fitter, first, calibrated.scale * self.c1, self.c2)
        return Prepared(
            terms, fitted=calibrated.fit, weights=fixed if self.map == "linear" else None
        )

    def claim(self, prepared: Prepared, fitted: Fitted, datasets: int) -> Claim:  # noqa: ARG002
        epsilon = 2 * datasets * fitted.bounds.overall
        if self.epsilon is not None:
            epsilon = self.epsilon  # the target: public, and not below what came out
        elif self.bound is not None:
            epsilon = 2 * datasets * self.bound
        return Claim(
            "asymptotic",
            epsilon,
            conditions=(bound_condition(fitted),),
            mechanism=f"Weighted, {several(datasets, 'draw')}",
        )


def bound_condition(fitted: Fitted) -> str:
    """The number of draws belongs to the claim: a maximum grows with it."""
    return (
        "The bound of a record's contribution is the maximum over "
        f"{fitted.bounds.draws:,} posterior draws; more draws give a larger one"
    )


def fixed_weights(result: Any) -> FixedWeights:
    """The weight function of an earlier synthesis."""
    weights = getattr(result, "weights", None)
    if not isinstance(weights, FixedWeights):
        raise Refused(
            "`fixed_from` takes the result of `synthesize` with a mechanism that has linear record "
            "weights (Weighted, WeightedE or Censored)."
        )
    return weights


def checked_scale(c1: float, c2: float) -> None:
    if not (_is_number(c1) and _is_number(c2) and c1 > 0):
        raise Refused("c1 must be a finite number above 0 and c2 a finite number.")


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and isfinite(value)
