"""NoisyMoments: sums within public cells, with noise once, for any number of files (M Figure 2.1
for models whose sums suffice, and for others by counts in bins).

All that touches the records is `dp/clipped_moments.py` (sums, squares and products of clipped
values) or `dp/binned_counts.py` (how many values lie in each bin); parameters are drawn from their
posterior given the noisy sums, which knows the noise (fitting/noisy_moments.py, noisy_counts.py),
and files from these. That is post-processing: the claim rests on the noise alone, not on a sampler,
and m files cost what one costs. Proof: docs/proofs/noisy-moments.md.

All files share one noise. They are spread so that b/m holds its variance, and the rule for partial
synthesis, T = ubar + b/m, is right for every statistic (docs/decisions/039).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np

from understudy.claim import Claim, checked_epsilon, several
from understudy.errors import Refused
from understudy.mechanisms.contract import Fitter, Mechanism, Released, about, checked_share
from understudy.mechanisms.outputs.outcome_draws import ParameterDraws
from understudy.survey.survey import Survey

if TYPE_CHECKING:
    from understudy.dp.binned_counts import BinnedValues
    from understudy.dp.clipped_moments import ExactCellSums
    from understudy.models.contract import Model

FEW_FILES = 5  # below it the spread between them says little
CLIPPED = (
    "Values were clipped to public bounds before they were added up, within the {cells} of "
    "predictors that occur, which are public"
)
COUNTED = "Values were counted in public bins, within the {cells} of predictors, which are public"
UNSURE = (
    "The chains that draw parameters given the noisy sums had not agreed; the guarantee does not "
    "rest on them, but intervals may be too short"
)


@dataclass(frozen=True)
class NoisyMoments(Mechanism):
    """Noisy sums, squares and products within the predictors' cells for FBS and FBP; noisy counts
    in bins there for models of one outcome with declared bounds, or whose values end by the model
    itself: yes and no, levels, so many of so many.

    `clip` gives the values between which each column is clipped, outcomes in the model's order and
    the weight last; without it the codebook's declared bounds are taken. Tighter ones mean less
    noise, and values beyond them are pulled in. Both it and `share` are for FBS and FBP, `bins` is
    for the others.
    """

    claims = "formal"
    relation = "blank"
    seeded = False
    fits = 0
    synthesizes = "outcome"
    hands_out = "draws"
    delta = 0.0
    needs_records = False

    epsilon: Annotated[float, "Privacy budget of the whole release, whatever the number of files."]
    clip: Annotated[
        tuple[tuple[float, float], ...] | None,
        "Public low and high of each column, the weight last; the codebook's bounds if left out.",
    ] = None
    share: Annotated[float, "Of epsilon for the sums; the rest is for squares and products."] = 0.8
    bins: Annotated[
        int | Literal["auto"], "Bins of an outcome between its bounds; auto goes by n and epsilon."
    ] = "auto"

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        checked_share(self.share, "share")
        for low, high in self.clip or ():
            if not 0 < low < high < np.inf:
                raise Refused("Each pair of `clip` must be two numbers above 0, low before high.")
        if self.bins != "auto" and not (type(self.bins) is int and self.bins >= 2):
            raise Refused("`bins` must be 'auto' or a whole number of at least 2.")

    def check_sources(self, fitter: Fitter) -> None:
        self._seen(fitter)

    def _seen(self, fitter: Fitter) -> ExactCellSums | BinnedValues:
        """What is summed: with moments that suffice if the model has them, in bins otherwise."""
        if fitter.has_moments:
            return fitter.cell_sums_within(self.clip)
        if self.clip is not None:
            raise Refused("`clip` is for FBS and FBP; other models take the declared bounds.")
        return fitter.binned_values(self.bins, self.epsilon)

    def forecast(self, model: Model, survey: Survey, datasets: int) -> list[str]:  # noqa: ARG002
        lines = [f"Noise is drawn once: {datasets} files cost as much as one."]
        if datasets < FEW_FILES:
            lines.append(
                f"The noise's share of the error is estimated from {datasets} files; ask for "
                f"{FEW_FILES} or more, at no cost, for narrower intervals."
            )
        return lines

    def release(self, fitter: Fitter, datasets: int) -> Released:
        seen = self._seen(fitter)
        drawn = fitter.given_noisy(seen, seen.noisy(self.epsilon, self.share), datasets)
        within = several(seen.cells, "combination")
        conditions = [(CLIPPED if fitter.has_moments else COUNTED).format(cells=within)]
        if seen.per_unit > 1:
            conditions.append(f"No `{fitter.unit}` has more than {seen.per_unit} records")
        if not drawn.passed:
            conditions.append(UNSURE)
        claim = Claim(
            "formal",
            self.epsilon,
            conditions=tuple(conditions),
            mechanism=f"NoisyMoments, noise drawn once, {several(datasets, 'draw')}",
        )
        output = ParameterDraws(tuple(drawn.parameters))
        return Released(output, about(fitter, claim), np.broadcast_to(1.0, (fitter.n,)))
