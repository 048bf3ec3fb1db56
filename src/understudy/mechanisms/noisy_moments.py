"""NoisyMoments: sums of clipped values within public cells, with noise once, for any number of
files (M Figure 2.1 for models whose sums suffice).

All that touches the records is `dp/clipped_moments.py`; parameters are drawn from their posterior
given the noisy sums, which knows the noise (fitting/noisy_moments.py), and files from these. That
is post-processing: the claim rests on the noise alone, not on a sampler, and m files cost what one
costs. Proof: docs/proofs/noisy-moments.md.

All files share one noise. They are spread so that b/m holds its variance, and the rule for partial
synthesis, T = ubar + b/m, is right for every statistic (docs/decisions/039).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np

from understudy.claim import Claim, checked_epsilon, several
from understudy.dp.clipped_moments import noisy_sums
from understudy.errors import Refused
from understudy.mechanisms.contract import Fitter, Mechanism, Released, about, checked_share
from understudy.mechanisms.outputs.outcome_draws import ParameterDraws
from understudy.survey.survey import Survey

if TYPE_CHECKING:
    from understudy.models.contract import Model

FEW_FILES = 5  # below it the spread between them says little
CLIPPED = (
    "Values were clipped to public bounds before they were added up, within the {cells:,} "
    "combinations of predictors that occur, which are public"
)
UNSURE = (
    "The chains that draw parameters given the noisy sums had not agreed; the guarantee does not "
    "rest on them, but intervals may be too short"
)


@dataclass(frozen=True)
class NoisyMoments(Mechanism):
    """Noisy sums, squares and products within the predictors' cells; for FBS and FBP.

    `clip` gives the values between which each column is clipped, outcomes in the model's order and
    the weight last; without it the codebook's declared bounds are taken. Tighter ones mean less
    noise, and values beyond them are pulled in.
    """

    claims = "formal"
    relation = "blank"
    seeded = False
    fits = 0
    synthesizes = "outcome"
    hands_out = "draws"
    delta = 0.0

    epsilon: Annotated[float, "Privacy budget of the whole release, whatever the number of files."]
    clip: Annotated[
        tuple[tuple[float, float], ...] | None,
        "Public low and high of each column, the weight last; the codebook's bounds if left out.",
    ] = None
    share: Annotated[float, "Of epsilon for the sums; the rest is for squares and products."] = 0.8

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        checked_share(self.share, "share")
        for low, high in self.clip or ():
            if not 0 < low < high < np.inf:
                raise Refused("Each pair of `clip` must be two numbers above 0, low before high.")

    def check_sources(self, fitter: Fitter) -> None:
        fitter.cell_values(self.clip)

    def forecast(self, model: Model, survey: Survey, datasets: int) -> list[str]:  # noqa: ARG002
        lines = [f"Noise is drawn once: {datasets} files cost as much as one."]
        if datasets < FEW_FILES:
            lines.append(
                f"The noise's share of the error is estimated from {datasets} files; ask for "
                f"{FEW_FILES} or more, at no cost, for narrower intervals."
            )
        return lines

    def release(self, fitter: Fitter, datasets: int) -> Released:
        seen = fitter.cell_values(self.clip)
        drawn = fitter.given_noisy(seen, noisy_sums(seen, self.epsilon, self.share), datasets)
        conditions = [CLIPPED.format(cells=len(seen.X))]
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
        return Released(output, about(fitter, claim), np.ones(fitter.n))
