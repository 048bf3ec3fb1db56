"""ReferenceCensored: clip(alpha (f_i(theta) - f_i(theta_ref)), -M, M), M = epsilon/(2m).

Subtracting f_i(theta_ref), a constant in theta, leaves the posterior unchanged while nothing is
clipped, but makes contributions small near theta_ref, so that clipping almost never happens
(methods §3; proof in docs/proofs). theta_ref and alpha depend on no confidential value of this
database: they come from another survey, or from a first stage that spends a part of epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, nextafter
from typing import Annotated, Any, Literal

import numpy as np

from understudy.claim import Claim, checked_epsilon
from understudy.dp.contributions import clip_bound
from understudy.dp.histogram import Bins
from understudy.errors import Refused
from understudy.mechanisms.contract import (
    Fitted,
    Fitter,
    Matrix,
    Mechanism,
    Prepared,
    Terms,
    Vector,
    checked_share,
    plain_terms,
)
from understudy.survey.survey import Survey

CLIPPED_SHARE = 0.02  # of the reference's own contributions, at most
SCALE_DRAWS = 50  # of the reference's, at which its contributions are looked at,
SCALE_NUMBERS = 2_000_000  # or as many as make so many contributions; at least five


@dataclass(frozen=True)
class ReferenceCensored(Mechanism):
    """`reference` is a historical or public survey with the same columns, or "two-stage".

    `scale` is alpha, one number for all records. "auto" starts at min(1, M) (a larger one makes
    clipped losses cheap, and the tails are given up) and is lowered until at most 2 % of the
    reference's own contributions are clipped; it looks at the reference alone.
    `prior_scale` replaces the model's prior by a normal one around theta_ref with that standard
    deviation on the unconstrained scale; for models with vast priors.
    "two-stage" spends `first_stage` of epsilon on a perturbed histogram with `bins` and fits
    theta_ref there; it is for models of one bounded variable. A model with predictors would need
    noisy moments within the predictors' cells instead.
    """

    claims = "formal"
    relation = "blank"
    fits = 3
    synthesizes = "outcome"
    hands_out = "draws"
    delta = 0.0

    epsilon: Annotated[float, "Privacy budget of the whole release, over all data sets."]
    reference: Annotated[
        Survey | Literal["two-stage"],
        "A historical file with the same columns, or `two-stage`.",
    ]
    scale: Annotated[float | Literal["auto"], "auto, or a number."] = "auto"
    prior_scale: Annotated[float | None, "Spread of the prior around the reference."] = None
    first_stage: Annotated[float, "Share of epsilon for the first stage of two."] = 1 / 3
    bins: Annotated[Bins, "sqrt, log, or a number of bins."] = "sqrt"

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        checked_share(self.first_stage, "first_stage")
        if self.reference is None or (
            isinstance(self.reference, str) and self.reference != "two-stage"
        ):
            raise Refused("`reference` must be a survey with the same columns, or 'two-stage'.")
        if self.scale != "auto" and not (_is_positive(self.scale) and float(self.scale) <= 1):
            raise Refused("`scale` must be 'auto' or a number above 0 and at most 1.")
        if self.prior_scale is not None and not _is_positive(self.prior_scale):
            raise Refused("`prior_scale` must be a finite number above 0.")

    @property
    def seeded(self) -> bool:
        """The first of two stages draws its histogram's noise from OpenDP."""
        return self.reference != "two-stage"

    def check_sources(self, fitter: Fitter) -> None:
        super().check_sources(fitter)
        if isinstance(self.reference, str):
            fitter.check_histogram(alone=True)

    def prepare(self, fitter: Fitter, datasets: int) -> Prepared:
        if isinstance(self.reference, str):
            spent = self.first_stage * self.epsilon
            # under `blank` one count changes by one, so noise of scale 1/spent costs `spent`;
            # perturbed_histogram states its epsilon under `replace`, which is twice that
            reference = fitter.on_histogram(2 * spent, self.bins)
            left = nextafter(self.epsilon - spent, 0.0)
            source = (
                f"theta_ref comes from a perturbed histogram that spends {spent:g} of epsilon; "
                "the rest is for the draws"
            )
        else:
            reference, left = fitter.on(self.reference, "the reference"), self.epsilon
            source = (
                "theta_ref and the scale come from a reference file that shares no confidential "
                "value with this database; the claim does not cover that file"
            )
        limit = clip_bound(left, datasets)
        fitted = reference.fit(plain_terms(reference), "reference")
        fitted.check()
        centre = fitted.positions.mean(axis=0)
        scale = (
            reference_scale(reference, fitted.positions, centre, limit)
            if self.scale == "auto"
            else float(self.scale)
        )
        terms = Terms(
            np.where(fitter.present, scale, 0.0),
            fitter.record_loglik(centre),
            limit,
            centre,
            self.prior_scale or inf,
        )
        scaled = f"All records have the weight alpha = {scale:.4g}"
        return Prepared(terms, fitted.positions, conditions=(source, scaled))

    def claim(self, prepared: Prepared, fitted: Fitted, datasets: int) -> Claim:  # noqa: ARG002
        stages = "two stages" if isinstance(self.reference, str) else "reference file"
        return Claim(
            "formal",
            self.epsilon,
            conditions=prepared.conditions,
            mechanism=f"ReferenceCensored, {stages}, {datasets} draw{'s' if datasets > 1 else ''}",
        )


def reference_scale(reference: Fitter, positions: Matrix, centre: Vector, limit: float) -> float:
    """alpha = min(1, M), halved until at most 2 % of the reference's contributions are clipped.

    Under the weight alpha the posterior is about 1/sqrt(alpha) times as wide, so the reference's
    draws are stretched by that much around their mean before the gains are computed.
    """
    at_centre = reference.record_loglik(centre)
    draws = min(SCALE_DRAWS, max(5, SCALE_NUMBERS // len(at_centre)))
    chosen = positions[:: max(1, len(positions) // draws)]
    scale = min(1.0, limit)
    shares = {}
    for _ in range(10):
        stretched = centre + (chosen - centre) / np.sqrt(scale)
        clipped = [
            np.mean(scale * np.abs(reference.record_loglik(position) - at_centre) > limit)
            for position in stretched
        ]
        shares[scale] = float(np.mean(clipped))
        if shares[scale] <= CLIPPED_SHARE:
            return scale
        scale /= 2
    # Too few records for this limit: no scale avoids clipping, so the best that was seen.
    return min(shares, key=lambda tried: (shares[tried], -tried))


def _is_positive(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and isfinite(value) and value > 0
