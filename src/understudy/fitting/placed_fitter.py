"""A Gaussian model on records that stay where they are: what mechanisms ask for, by passes there.

Its vectors over records are numbers that hold for all of them, or functions that are evaluated
where the records are (dp/record_weights). Exact fits need one pass (fitting/moments), clipped ones
a few, whatever the number of draws (fitting/independence). A clipped posterior for which proposals
from moments do not do is refused: chains of gradients need every record for every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from math import isinf
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from understudy.chance import Chance
from understudy.claim import RECORD
from understudy.dp.clipped_moments import ExactCellSums, NoisyCellSums
from understudy.errors import Refused
from understudy.fitting.fit_settings import Settings
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.independence import (
    WIDER,
    log_proposal,
    misses_a_mode,
    tempered,
    weighed_chains,
)
from understudy.fitting.missing import without_missing
from understudy.fitting.moments import Moments, is_proper, sample_given_moments
from understudy.fitting.noisy_moments import drawn_given_noisy, refuse_small_cells
from understudy.fitting.nuts import Chains, prior_of_terms
from understudy.fitting.placed_parts import Side
from understudy.fitting.placed_records import PlacedBoundsOfFit, PlacedRecords
from understudy.fitting.posterior import Posterior
from understudy.mechanisms.contract import Clips, Matrix, NoisyDraws, Terms, Vector
from understudy.models.density import Density, density_at
from understudy.models.generation import random_key
from understudy.models.survey_normal import SurveyNormal
from understudy.survey.random_part import random_part
from understudy.survey.survey import Survey

MOST_OF_ANOTHER = 2_000_000  # records of a past file, which are in memory
PART = 19  # the seed of a part of them: it decides what is rehearsed, and so is no secret

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PlacedPosterior(Posterior):
    """Its `density` and `arrays` are those of a made-up record of each cell."""

    placed: PlacedRecords | None = field(default=None, repr=False)

    @cached_property
    def bounds(self) -> PlacedBoundsOfFit:  # type: ignore[override]
        assert self.placed is not None
        terms = self.terms
        weights = terms.placed or terms.alpha
        return self.placed.bounds(self.positions, weights, terms.reference, terms.limit)


@dataclass(frozen=True, eq=False)
class PlacedFitter:
    """As `ModelFitter`, for FBS and FBP on a survey without units and missing values."""

    placed: PlacedRecords
    settings: Settings
    chance: Chance = field(repr=False)
    conditions: tuple[str, ...] = ()

    unit, units = RECORD, None
    has_moments = True
    weighs_proposals = True
    present = np.ones((), dtype=bool)  # of every record
    units = None

    @property
    def model(self) -> SurveyNormal:
        return self.placed.model

    @property
    def survey(self) -> Survey:
        return self.placed.survey

    @property
    def n(self) -> int:
        return self.survey.n

    @property
    def tolerant(self) -> bool:
        return self.settings.tolerant

    @cached_property
    def density(self) -> Density:
        return density_at(self.model, self.placed.arrays)

    def fit(self, terms: Terms, stage: str, start: Matrix | None = None) -> Posterior:  # noqa: ARG002
        key, arrays = random_key(self.chance, stage), self.placed.arrays
        moments = self.placed.moments(terms.placed or terms.alpha)
        if isinf(terms.limit) and isinf(terms.prior_scale):
            chains = sample_given_moments(self.density, arrays, moments, self.settings, key)
        else:
            chains = self._clipped(terms, moments, key)
        if chains is None:
            raise Refused(
                "This posterior cannot be drawn from moments (too little weight, a second mode, or "
                "little in common with the one without a clip); read the file into memory, where "
                "chains of gradients can be run."
            )
        present = np.ones(len(arrays["X"]), dtype=bool)
        drawn = chains.positions, chains.diagnostics
        return PlacedPosterior(self.density, arrays, terms, present, *drawn, placed=self.placed)

    def _clipped(self, terms: Terms, moments: Moments, key: Any) -> Chains | None:
        if terms.placed is not None or not is_proper(tempered(moments, WIDER)):
            return None
        centre = terms.prior_centre
        inputs = {
            "arrays": {name: jnp.asarray(array) for name, array in self.placed.arrays.items()},
            "prior_centre": jnp.zeros(self.density.dimension)
            if centre is None
            else jnp.asarray(centre),
            "prior_scale": jnp.asarray(terms.prior_scale, dtype=jnp.float64),
        }
        sums = partial(
            self.placed.clipped_sums,
            reference=terms.reference, alpha=terms.alpha, limit=terms.limit,
        )  # fmt: skip
        if misses_a_mode(moments, _PlacedSides(self, terms, moments, inputs)):
            return None
        return weighed_chains(self.density, inputs, moments, sums, self.settings, key)

    def record_loglik(self, position: Vector) -> Vector:  # noqa: ARG002
        """It stays with the records: terms name the position (`Terms.reference`)."""
        return np.zeros(())

    def cell_sums_within(self, clip: Clips | None) -> ExactCellSums:
        """Sums of clipped values within cells; refused where a bound is not declared."""
        refuse_small_cells(self.n, len(self.placed.rows))
        low, high = self.model.clipped_range(clip, self.survey)
        return self.placed.cell_sums((low + high) / 2, (high - low) / 2)

    def given_noisy(self, seen: Any, noisy: Any, datasets: int) -> NoisyDraws:
        assert isinstance(seen, ExactCellSums)
        assert isinstance(noisy, NoisyCellSums)
        key = random_key(self.chance, "given noisy sums")
        problem = self.density, self.placed.arrays
        return drawn_given_noisy(*problem, seen, noisy, datasets, self.settings, key)

    def on(self, survey: Any, purpose: str) -> ModelFitter:
        """The same model on another survey, in memory, coded like this one; on a part of it where
        it is large. A part of so many records says as well where a clipped posterior is."""
        if not isinstance(survey, Survey):
            raise Refused(f"{purpose.capitalize()} must come from a Survey with the same columns.")
        if survey not in self._others:
            cells = self.placed.cells
            try:
                part = random_part(survey, MOST_OF_ANOTHER, np.random.default_rng(PART))
                complete, _ = without_missing(part, self.model.sensitive)
                arrays = self.model.prepare(complete, like=cells)
            except Refused as error:
                raise Refused(f"The survey for {purpose} does not fit this one: {error}") from None
            nobody = np.zeros(complete.n, dtype=bool)
            self._others[survey] = ModelFitter(
                self.model, complete, arrays, nobody, self.settings, self.chance, coding=cells
            )
        return self._others[survey]

    @cached_property
    def _others(self) -> dict[Survey, ModelFitter]:
        return {}


class _PlacedSides:
    """Records that a fit gives up, by rules that are applied where they are."""

    def __init__(
        self, fitter: PlacedFitter, terms: Terms, moments: Moments, inputs: dict[str, Any]
    ) -> None:
        self._fitter, self._terms, self._moments, self._inputs = fitter, terms, moments, inputs
        self.differing = fitter.placed.differing
        self.moments_of_others = fitter.placed.moments_of_others

    def _position(self, B: Floats, Sigma: Floats) -> Floats:
        return np.asarray(self._fitter.model.position(jnp.asarray(B), jnp.asarray(Sigma)))

    def given_up(self, B: Floats, Sigma: Floats) -> Side:
        placed, terms = self._fitter.placed, self._terms
        gains = placed.quadratics(self._position(B, Sigma)[None])[0]
        if terms.reference is not None:
            gains = gains - placed.quadratics(terms.reference[None])[0]
        return Side(gains, terms.alpha, terms.limit)

    def disliked(self, B: Floats, Sigma: Floats) -> Side:
        """f less than its highest value in the cell by the median of a chi-square's half."""
        loglik = self._fitter.placed.quadratics(self._position(B, Sigma)[None])[0]
        cut = highest(loglik) - 0.5 * chi2.median(len(Sigma))
        return Side(loglik, self._terms.alpha, self._terms.limit, cut)

    def height(self, B: Floats, Sigma: Floats) -> tuple[Any, Any]:
        position, terms = self._position(B, Sigma), self._terms
        density = self._fitter.density
        own = density.evaluate_now(position, self._inputs["arrays"])[0]
        sums = self._fitter.placed.clipped_sums(
            position[None], terms.reference, terms.alpha, terms.limit
        )
        height = prior_of_terms(own, jnp.asarray(position), self._inputs) + sums[0]
        return height, height - log_proposal(jnp.asarray(B), jnp.asarray(Sigma), self._moments)


def highest(quadratics: Floats) -> Floats:
    """The largest value of concave quadratics (cells, q)."""
    d = int(np.sqrt(2 * quadratics.shape[-1])) - 1
    j, k = np.triu_indices(d)
    slope, second = quadratics[:, 1 : d + 1], np.zeros((len(quadratics), d, d))
    second[:, j, k] += quadratics[:, d + 1 :]
    second[:, k, j] += quadratics[:, d + 1 :]  # twice the square's coefficient: second derivatives
    at = np.linalg.solve(second, -slope[..., None])[..., 0]
    return np.asarray(quadratics[:, 0] + 0.5 * (slope * at).sum(axis=1))
