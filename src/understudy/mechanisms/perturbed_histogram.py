"""PerturbedHistogram (C §2.3): a noisy histogram of one bounded variable instead of a posterior.

Proof: docs/proofs/perturbed-histogram.md; the histogram itself is dp/histogram.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from understudy.claim import Claim, checked_epsilon
from understudy.dp.contributions import clip_bound
from understudy.dp.histogram import Bins, bin_count
from understudy.dp.record_bounds import RecordBounds
from understudy.mechanisms.contract import (
    Fitted,
    Fitter,
    Mechanism,
    Prepared,
    Released,
    about,
    plain_terms,
)
from understudy.mechanisms.outputs.outcome_draws import Histograms


@dataclass(frozen=True)
class PerturbedHistogram(Mechanism):
    """A noisy histogram, and uniform draws inside its bins.

    The model only names the variable and its bounds. Each data set has its own histogram at
    epsilon/m. The noise is OpenDP's and unseeded, so the same seed gives other bytes. epsilon is
    the paper's, under `replace`; under `blank` it is half.
    """

    claims = "formal"
    relation = "replace"
    seeded = False
    fits = 0
    synthesizes = "outcome"
    hands_out = "draws"
    delta = 0.0

    epsilon: Annotated[float, "Privacy budget of the whole release, over all data sets."]
    bins: Annotated[Bins, "sqrt, log, or a number of bins."] = "sqrt"

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        bin_count(self.bins, 1)

    def check_sources(self, fitter: Fitter) -> None:
        fitter.check_histogram()

    def prepare(self, fitter: Fitter, datasets: int) -> Prepared:
        return Prepared(plain_terms(fitter, limit=clip_bound(self.epsilon, datasets)))

    def claim(self, prepared: Prepared, fitted: Fitted | None, datasets: int) -> Claim:  # noqa: ARG002
        return Claim(
            "formal",
            self.epsilon,
            relation="replace",
            mechanism=f"PerturbedHistogram, {datasets} histogram{'s' if datasets > 1 else ''}",
        )

    def release(self, fitter: Fitter, datasets: int) -> Released:
        prepared = self.prepare(fitter, datasets)
        # 2M = epsilon/m, rounded down; blanking a unit moves the log-probability by at most M
        limit = prepared.terms.limit
        histograms = [fitter.histogram(2 * limit, self.bins) for _ in range(datasets)]
        draws = tuple(
            {"edges": histogram.edges, "probabilities": histogram.probabilities}
            for histogram in histograms
        )
        each = np.full(fitter.n, limit)
        bounds = RecordBounds(each, each, each, limit, datasets)
        claim = about(fitter, self.claim(prepared, None, datasets))
        return Released(Histograms(draws), claim, prepared.terms.alpha, bounds)
