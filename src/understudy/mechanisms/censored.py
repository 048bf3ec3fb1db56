"""Censored likelihood (C §3): clip(alpha_i f_i, -M, M) with M = epsilon/(2m).

Proof: docs/proofs/censoring.md. It needs alpha to be fixed: the same function of a record's own
values whatever the other records are. Weights from another file (`weights=`) are, and so is
alpha = 1: formal claims. Weights that were computed from the same database are not: one record
moves the weights of all, and what is lost may be many times epsilon; kind `local`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from understudy.claim import Claim, ClaimKind, checked_epsilon, several
from understudy.dp.contributions import clip_bound
from understudy.errors import Refused
from understudy.mechanisms.contract import (
    Fitted,
    Fitter,
    FixedWeights,
    Mechanism,
    Prepared,
    plain_terms,
    weights_from,
)
from understudy.mechanisms.risk_weights import RiskWeights
from understudy.mechanisms.weighted import checked_scale, fixed_weights
from understudy.survey.survey import Survey

WEIGHTS_FROM_THE_SAME = (
    "The record weights alpha were computed from the same database. What holds: for a database "
    "with the same weights the probabilities differ by the stated factor at most. A database that "
    "differs in one record has other weights, of all its records, and that may give away many "
    "times as much"
)


@dataclass(frozen=True)
class Censored(Mechanism):
    """Censor_w (`weighted=True`) or Censor_uw (`weighted=False`) of the paper.

    Formal with `weighted=False`, and with `weights` from elsewhere.

    `weights` takes the record weights' function from elsewhere: a reference survey on which it is
    fitted, the function of an earlier release (`fixed_from`), or identification risk
    (`PairwiseRisk(...)`, on the same data or against its own `reference`). Without it, weights
    come from an unweighted fit on the same data, as in the paper.
    """

    relation = "blank"
    seeded = True
    fits = 2
    synthesizes = "outcome"
    hands_out = "draws"
    delta = 0.0

    epsilon: Annotated[float, "Privacy budget of the whole release, over all data sets."]
    weighted: Annotated[bool, "Whether records are weighted first."] = True
    c1: Annotated[float, "Scale of the record weights."] = 1.0
    c2: Annotated[float, "Shift of the record weights."] = 0.0
    weights: Annotated[
        RiskWeights | FixedWeights | Survey | None,
        'Risk weights instead: { mechanism = "PairwiseRisk", ... }.',
    ] = None

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        checked_scale(self.c1, self.c2)
        if self.weights is not None and not self.weighted:
            raise Refused("`weights` goes with `weighted=True`; leave one of them out.")

    @property
    def claims(self) -> ClaimKind:
        """Weights from the same database break the proof, whatever is clipped afterwards."""
        return "formal" if self._alpha_is_fixed else "local"

    @property
    def _alpha_is_fixed(self) -> bool:
        if isinstance(self.weights, RiskWeights):
            return self.weights.reference is not None
        return not self.weighted or self.weights is not None

    def fixed_from(self, result: Any) -> Censored:
        """c1, c2 and the weight function of an earlier release (C §4.5): alpha is then fixed."""
        return replace(self, weights=fixed_weights(result), weighted=True)

    def prepare(self, fitter: Fitter, datasets: int) -> Prepared:
        limit = clip_bound(self.epsilon, datasets)
        if isinstance(self.weights, RiskWeights) and self.weights.reference is not None:
            fitter.on(self.weights.reference, "the record weights")  # refuses the same database
        # clipped, the density is flat far from the data: chains start from a fit without a clip
        first = fitter.fit(plain_terms(fitter), "weights")
        first.check()
        if not self.weighted:
            return Prepared(plain_terms(fitter, limit=limit), first.positions)
        if isinstance(self.weights, RiskWeights):
            alpha, source = self.weights.settle(fitter)
            terms = plain_terms(fitter, alpha, limit)
            return Prepared(terms, first.positions, conditions=(source,))
        weights, source = self._weights(fitter, first)
        terms = plain_terms(fitter, weights(fitter), limit)
        return Prepared(terms, first.positions, weights=weights, conditions=(source,))

    def _weights(self, fitter: Fitter, first: Fitted) -> tuple[FixedWeights, str]:
        if self.weights is None:
            return weights_from(fitter, first, self.c1, self.c2), WEIGHTS_FROM_THE_SAME
        source = (
            "The record weights are a function of each record's own values that was fixed on "
            "another file; the claim does not cover that file"
        )
        if isinstance(self.weights, FixedWeights):
            if self.weights.source is not None:
                fitter.refuse_source(self.weights.source, "the record weights")
            return self.weights, source
        reference = fitter.on(self.weights, "the record weights")
        fitted = reference.fit(plain_terms(reference), "reference")
        fitted.check()
        return weights_from(reference, fitted, self.c1, self.c2), source

    def claim(self, prepared: Prepared, fitted: Fitted, datasets: int) -> Claim:  # noqa: ARG002
        name = "Censored with record weights" if self.weighted else "Censored without weights"
        return Claim(
            self.claims,
            self.epsilon,
            conditions=prepared.conditions,
            mechanism=f"{name}, {several(datasets, 'draw')}",
        )
