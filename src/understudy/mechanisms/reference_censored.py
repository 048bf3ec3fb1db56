"""ReferenceCensored: clip(alpha (f_i(theta) - f_i(theta_ref)), -M, M), M = epsilon/(2m).

Subtracting f_i(theta_ref), a constant in theta, leaves the posterior unchanged while nothing is
clipped, but makes contributions small near theta_ref, so that clipping almost never happens
(methods §3; proof in docs/proofs). theta_ref and alpha depend on no confidential value of this
database: they come from another survey, or from a first stage that spends a part of epsilon.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, isfinite, nextafter
from typing import Annotated, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from understudy.claim import Claim, checked_epsilon, several
from understudy.dp.contributions import clip_bound
from understudy.dp.histogram import Bins
from understudy.errors import Refused
from understudy.mechanisms.contract import (
    Fitted,
    Fitter,
    Matrix,
    Mechanism,
    Prepared,
    Rehearsed,
    Terms,
    Vector,
    checked_share,
    plain_terms,
)
from understudy.mechanisms.scale_rehearsal import LEAST_RATIO, NothingPassed, ScaleRehearsal
from understudy.mechanisms.stage_rehearsal import rehearsed_stages
from understudy.survey.survey import Survey

CLIPPED_SHARE = 0.02  # of the reference's own contributions, at most
SCALE_DRAWS = 50  # of the reference's, at which its contributions are looked at,
SCALE_NUMBERS = 2_000_000  # or as many as make so many contributions; at least five
SHARES = ((0.15, 0.15, 0.15), (0.25,), (0.3, 0.2))  # of epsilon, for stages before the last
RATIOS = (LEAST_RATIO, 4.0, 8.0)  # M/alpha that are tried with each: no guess knows a file's tails
DEARER = (2, 4, 8)  # times epsilon, in search of a setting that would pass
GUESS_SCALE = 1.0  # of the prior around the guess, on the unconstrained scale,
STAGE_SCALE = 0.5  # and around the draw of a stage, where `prior_scale` says nothing
# what was rehearsed for a survey: a check and its release need it both
_KNOWN: WeakKeyDictionary[Survey, dict[Any, Rehearsed]] = WeakKeyDictionary()
# draws given a public guess, with which every division of epsilon and every scale starts
_GUESSED: WeakKeyDictionary[Fitter, Matrix] = WeakKeyDictionary()


@dataclass(frozen=True)
class ReferenceCensored(Mechanism):
    """`reference` is a historical or public survey with the same columns, "none" or "two-stage".

    `scale` is alpha, one number for all records. "auto" starts at min(1, M) (a larger one makes
    clipped losses cheap, and the tails are given up) and is lowered until at most 2 % of the
    reference's own contributions are clipped, and then until the release's own program passes its
    diagnostics on the reference and on files drawn from it (scale_rehearsal.py), before anything is
    paid; it looks at the reference alone. A number is taken as it is, without a rehearsal.
    `prior_scale` replaces the model's prior by a normal one around theta_ref with that standard
    deviation on the unconstrained scale; for models with vast priors.
    "none" starts at the codebook's guess (`typical`, `spread`). `stages` are shares of epsilon:
    each stage draws theta from the clipped posterior around the draw of the stage before, and the
    last one, with the rest of epsilon, makes the files (docs/proofs/iterated-reference.md). "auto"
    takes the shares that did best in a rehearsal on files simulated around the guess.
    "two-stage" spends `first_stage` of epsilon on a perturbed histogram with `bins` and fits
    theta_ref there; it is for models of one bounded variable, and is not rehearsed.
    """

    claims = "formal"
    relation = "blank"
    synthesizes = "outcome"
    hands_out = "draws"
    delta = 0.0

    epsilon: Annotated[float, "Privacy budget of the whole release, over all data sets."]
    reference: Annotated[
        Survey | Literal["none", "two-stage"],
        "A historical file with the same columns, or `none`, or `two-stage`.",
    ]
    scale: Annotated[float | Literal["auto"], "auto, or a number."] = "auto"
    prior_scale: Annotated[float | None, "Spread of the prior around the reference."] = None
    first_stage: Annotated[float, "Share of epsilon for the first stage of two."] = 1 / 3
    bins: Annotated[Bins, "sqrt, log, or a number of bins."] = "sqrt"
    stages: Annotated[
        tuple[float, ...] | Literal["auto"],
        "With `none`: shares of epsilon for the stages before the last, or auto.",
    ] = "auto"

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        checked_share(self.first_stage, "first_stage")
        known = not isinstance(self.reference, str) or self.reference in ("none", "two-stage")
        if self.reference is None or not known:
            raise Refused(
                "`reference` must be a survey with the same columns, 'none' or 'two-stage'."
            )
        if self.stages != "auto":
            shares = [checked_share(share, "stages") for share in self.stages]
            if not shares or sum(shares) >= 1:
                raise Refused("`stages` must be 'auto' or shares that leave a part of epsilon.")
            object.__setattr__(self, "stages", tuple(shares))
        if self.scale != "auto" and not (_is_positive(self.scale) and float(self.scale) <= 1):
            raise Refused("`scale` must be 'auto' or a number above 0 and at most 1.")
        if self.prior_scale is not None and not _is_positive(self.prior_scale):
            raise Refused("`prior_scale` must be a finite number above 0.")

    @property
    def _source(self) -> str:
        return self.reference if isinstance(self.reference, str) else "file"

    @property
    def fits(self) -> int:
        return 2 + len(self._shares) if self._source == "none" else 3

    @property
    def _shares(self) -> tuple[float, ...]:
        return SHARES[0] if isinstance(self.stages, str) else self.stages

    @property
    def seeded(self) -> bool:
        """The first of two stages draws its histogram's noise from OpenDP."""
        return self._source != "two-stage"

    @property
    def needs_records(self) -> bool:
        """A past file says where the posterior is; without one stages and histograms do."""
        return self._source != "file"

    def check_sources(self, fitter: Fitter) -> None:
        super().check_sources(fitter)
        if self._source == "two-stage":
            fitter.check_histogram(alone=True)

    def rehearsed(self, fitter: Fitter, datasets: int) -> Rehearsed:
        """With what passes a rehearsal: the largest scale on the reference, or, where there is
        none, the best shares on files around the guess."""
        settled = self.scale != "auto" and (self._source != "none" or self.stages != "auto")
        if settled or self._source == "two-stage":
            return Rehearsed(self)
        known = _KNOWN.setdefault(fitter.survey, {})
        key = self, fitter.model, datasets, fitter.settings
        if key not in known:
            try:
                known[key] = self._rehearsed(fitter, datasets)
            except NothingPassed as refusal:
                raise Refused(f"{refusal}; {self._nearest(fitter, datasets)}.") from None
        return known[key]

    def _rehearsed(self, fitter: Fitter, datasets: int, walked: bool = True) -> Rehearsed:
        if self._source == "none":
            passed = rehearsed_stages(self._candidates(datasets), fitter, datasets)
            assert isinstance(passed.mechanism, ReferenceCensored)
            return replace(passed, settled=passed.mechanism._division())
        reference = fitter.on(self.reference, "the reference")
        rehearsal = ScaleRehearsal(reference, fitter.n, self.prior_scale or inf)
        limit = clip_bound(self.epsilon, datasets)
        first = reference_scale(reference, rehearsal.positions, rehearsal.centre, limit)
        scale = rehearsal.largest_scale(first, limit, walked)
        return Rehearsed(replace(self, scale=scale), rehearsal.seconds, f"alpha = {scale:.4g}")

    def _nearest(self, fitter: Fitter, datasets: int) -> str:
        """A setting that would pass: one data set, or the least larger epsilon. Where there is a
        fast sampler it alone is asked: this is advice, and should not take longer than the rest."""
        walked = not fitter.weighs_proposals
        fewer = [(self.epsilon, 1)] if datasets > 1 else []
        for epsilon, sets in [*fewer, *((times * self.epsilon, datasets) for times in DEARER)]:
            with suppress(NothingPassed):
                replace(self, epsilon=epsilon)._rehearsed(fitter, sets, walked)
                return f"epsilon = {epsilon:g} passes for {several(sets, 'data set')}"
        return "use another model, or fewer predictors"

    def _candidates(self, datasets: int) -> list[list[Mechanism]]:
        """What is tried without a reference: for each division of epsilon, scales from above."""
        tried: list[list[Mechanism]] = []
        for shares in SHARES if self.stages == "auto" else (self._shares,):
            limit = replace(self, stages=shares)._last_limit(datasets)
            scales = dict.fromkeys(min(1.0, limit / ratio) for ratio in RATIOS)
            asked = scales if self.scale == "auto" else (self.scale,)
            tried.append([replace(self, stages=shares, scale=scale) for scale in asked])
        return tried

    def _division(self) -> str:
        """alpha, and how epsilon is divided, in words."""
        spent = [share * self.epsilon for share in self._shares]
        shown = " + ".join(f"{each:g}" for each in (*spent, self.epsilon - sum(spent)))
        return f"alpha = {self.scale:.4g} and the stages {shown} of epsilon, the last for the files"

    def _last_limit(self, datasets: int) -> float:
        """M of the stage that makes the files: what the stages before it leave of epsilon."""
        spent = sum(Fraction(share * self.epsilon) for share in self._shares)
        left = float(Fraction(self.epsilon) - spent)
        return clip_bound(nextafter(left, 0.0), datasets)

    def _through_stages(self, fitter: Fitter, datasets: int) -> Prepared:
        """Each stage's reference is one draw of the stage before, and that of the first the guess.
        Of a stage's fit nothing but this draw is used."""
        guessed = _guessed(fitter)
        centre = guessed.mean(axis=0)
        around, width = guessed - centre, GUESS_SCALE
        limit, prior_scale = self._last_limit(datasets), self.prior_scale or STAGE_SCALE
        scale = min(1.0, limit / RATIOS[0]) if self.scale == "auto" else float(self.scale)
        spent = [share * self.epsilon for share in self._shares]
        for number, epsilon in enumerate(spent, start=1):
            own = clip_bound(epsilon)
            terms = _around(fitter, centre, min(1.0, scale * own / limit), own, width)
            fitted = fitter.fit(terms, f"stage {number}", centre + around)
            fitted.check()
            centre, width = fitted.positions[-1], prior_scale
        conditions = (
            "theta_ref comes from a public guess and "
            f"{len(spent)} stage{'s' if len(spent) > 1 else ''} of one draw each, which spend "
            f"{', '.join(f'{epsilon:g}' for epsilon in spent)} of epsilon; the rest is for the "
            "draws of the files",
            f"All records have the weight alpha = {scale:.4g}, chosen without them",
        )
        terms = _around(fitter, centre, scale, limit, prior_scale)
        return Prepared(terms, centre + around, conditions=conditions)

    def prepare(self, fitter: Fitter, datasets: int) -> Prepared:
        if self._source == "none":
            return self._through_stages(fitter, datasets)
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
        terms = _around(fitter, centre, scale, limit, self.prior_scale or inf)
        scaled = f"All records have the weight alpha = {scale:.4g}"
        return Prepared(terms, fitted.positions, conditions=(source, scaled))

    def claim(self, prepared: Prepared, fitted: Fitted, datasets: int) -> Claim:  # noqa: ARG002
        stages = "two stages" if isinstance(self.reference, str) else "reference file"
        if self._source == "none":
            stages = f"no history, {1 + len(self._shares)} stages"
        return Claim(
            "formal",
            self.epsilon,
            conditions=prepared.conditions,
            mechanism=f"ReferenceCensored, {stages}, {several(datasets, 'draw')}",
        )


def _guessed(fitter: Fitter) -> Matrix:
    """Draws of the model given the public guess; any will do, so they are not checked."""
    guess = fitter.on_guess(0)
    if guess not in _GUESSED:
        fitted = guess.rehearsing(fast=False).fit(plain_terms(guess), "reference")
        _GUESSED[guess] = fitted.positions
    return _GUESSED[guess]


def _around(
    fitter: Fitter, centre: Vector, scale: float, limit: float, prior_scale: float
) -> Terms:
    """The terms of a clipped posterior around theta_ref = `centre`."""
    alpha = np.where(fitter.present, scale, 0.0)
    return Terms(alpha, fitter.record_loglik(centre), limit, centre, prior_scale, centre)


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
        gains = [reference.record_loglik(position) - at_centre for position in stretched]
        if reference.units is not None:  # what is clipped is the sum of a unit's
            gains = [_by_units(reference.units, gain) for gain in gains]
        shares[scale] = float(np.mean(scale * np.abs(gains) > limit))
        if shares[scale] <= CLIPPED_SHARE:
            return scale
        scale /= 2
    # Too few records for this limit: no scale avoids clipping, so the best that was seen.
    return min(shares, key=lambda tried: (shares[tried], -tried))


def _by_units(units: NDArray[np.int32], gains: Vector) -> Vector:
    return np.asarray(np.bincount(units, gains), dtype=np.float64)


def _is_positive(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and isfinite(value) and value > 0
