"""A fitter that never fits the same thing twice: mechanisms of one replicate share their fits.

Six mechanisms begin with the same unweighted fit. In a release each would make its own; in a
study that only costs time, and shared draws make the comparison between mechanisms sharper.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

import understudy as us


@dataclass(frozen=True, eq=False)
class SharedFits(us.ModelFitter):
    """Fits by data and terms; the stage and the starting points of the first asker count."""

    fits: dict[bytes, us.Posterior] = field(default_factory=dict, repr=False)

    def fit(
        self, terms: us.Terms, stage: str, start: NDArray[np.float64] | None = None
    ) -> us.Posterior:
        what = self._digest(terms)
        if what not in self.fits:
            self.fits[what] = super().fit(terms, stage, start)
        return self.fits[what]

    def _digest(self, terms: us.Terms) -> bytes:
        centre = np.zeros(0) if terms.prior_centre is None else terms.prior_centre
        scales = np.array([terms.limit, terms.prior_scale])
        digest = blake2b(digest_size=16)
        parts = [self.arrays[name] for name in sorted(self.arrays)]
        for part in [*parts, terms.alpha, terms.reference_loglik, centre, scales]:
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.digest()


def shared_fits(
    survey: us.Survey, model: us.OutcomeModel, settings: us.SamplerSettings, seed: int
) -> SharedFits:
    """For a survey without missing values: `mechanism.release(fitter, 1)` as often as you like."""
    model, missing = model.for_survey(survey), np.zeros(survey.n, dtype=bool)
    return SharedFits(model, survey, model.prepare(survey), missing, settings, seed, (), False)
