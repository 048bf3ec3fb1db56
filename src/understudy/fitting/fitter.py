"""One model on one database, ready to be fitted under any terms: what mechanisms ask for.

It holds the arrays, which records are present, and the random keys. Each stage of a mechanism
(weights, reference, release) has its own key, and repeated fits of one stage share it: random
numbers are held fixed while a target is sought.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf, isinf
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
import polars as pl
from jax import Array
from numpy.typing import NDArray

from understudy.chance import Chance, Seed, chance_of
from understudy.claim import RECORD
from understudy.dp.binned_counts import BinnedValues, NoisyBins, bin_number, counted
from understudy.dp.clipped_moments import ExactCellSums, NoisyCellSums, cell_sums
from understudy.dp.histogram import Bins, HistogramDraw, bin_count, perturbed_histogram
from understudy.dp.record_bounds import bounds_of_ends, record_bounds
from understudy.errors import Refused
from understudy.fitting.around_mode import sample_around_mode
from understudy.fitting.fit_settings import Settings
from understudy.fitting.gaussian_records import GaussianRecords, gaussian_records
from understudy.fitting.gibbs import has_gibbs, sample_by_gibbs
from understudy.fitting.independence import (
    ContributionSums,
    is_clipped_gaussian,
    sample_by_independence,
)
from understudy.fitting.missing import without_missing
from understudy.fitting.moments import is_linear, sample_exactly
from understudy.fitting.noisy_counts import (
    counted_density,
    counted_inputs,
    edges_of,
    known_information,
    refuse_own_parameters,
    spread_over_files,
    starts,
)
from understudy.fitting.noisy_moments import drawn_given_noisy, refuse_small_cells
from understudy.fitting.nuts import Chains, sample
from understudy.fitting.overlap import refuse_overlap
from understudy.fitting.posterior import Posterior, parameters_at
from understudy.fitting.progress import fit_progress
from understudy.fitting.public_guess import guessed_survey
from understudy.mechanisms.contract import Clips, Matrix, NoisyDraws, Terms, Vector
from understudy.mechanisms.outputs.outcome_draws import Generated, OutcomeOutput
from understudy.models.contract import Arrays, GibbsModel, OutcomeModel, SummedModel
from understudy.models.density import Density, density_of
from understudy.models.gaussian import GaussianModel
from understudy.models.generation import random_key
from understudy.models.survey_normal import SurveyNormal
from understudy.survey.survey import Survey
from understudy.tables.units import held_limit, unit_codes, unit_of, values_within_limit

__public__ = ("ModelFitter",)

FEW = 10  # draws per coordinate below which their covariance is not trusted
PROBES = 8  # parameter values at which an impossible record must be impossible
PUBLIC = 18  # the seed of rehearsals: what they settle depends on nothing that is secret
SOON = 2  # times the asked length, after which chains of a rehearsal must agree


@dataclass(frozen=True, eq=False)
class ModelFitter:
    """Made by `fitter_for`; `missing` marks records whose sensitive value is a placeholder."""

    model: OutcomeModel
    survey: Survey
    arrays: Arrays = field(repr=False)
    missing: NDArray[np.bool_] = field(repr=False)
    settings: Settings
    seed: Seed | Chance = field(repr=False)
    conditions: tuple[str, ...] = ()
    show_progress: bool | None = None
    coding: Survey | None = None  # what decides the encoding, if not the survey itself
    regrouped: NDArray[np.int32] | None = field(default=None, repr=False)  # units, if not its own
    guess: ModelFitter | None = field(default=None, repr=False)  # that of a file which is like it

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", chance_of(self.seed))
        for column, target in zip(self.model.sensitive, self.model.targets, strict=False):
            values = self.arrays[target][~self.missing]
            if len(values) == 0:
                raise Refused(
                    f"No record has a value of `{column}`; there is nothing to learn from."
                )
            if (values == values[0]).all():
                raise Refused(f"`{column}` is constant; there is nothing to synthesize.")

    @property
    def n(self) -> int:
        return len(self.missing)

    @property
    def unit(self) -> str:
        unit = unit_of(self.survey)
        return RECORD if unit is None else unit.column

    @cached_property
    def units(self) -> NDArray[np.int32] | None:
        """The number of each record's unit; None where each is its own."""
        return unit_codes(self.survey) if self.regrouped is None else self.regrouped

    @property
    def weighs_proposals(self) -> bool:
        return isinstance(self.model, GaussianModel)

    @property
    def tolerant(self) -> bool:
        return self.settings.tolerant

    @cached_property
    def density(self) -> Density:
        return density_of(self.model, self.arrays)

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """False where the value is missing, or the density is infinite whatever theta is."""
        points = np.random.default_rng(2).uniform(-2.0, 2.0, (PROBES, self.density.dimension))
        finite = np.zeros(self.n, dtype=bool)
        for point in points:
            finite |= np.isfinite(self.density.evaluate_now(point, self.arrays)[1])
            if finite.all():
                break
        present = finite & ~self.missing
        if not present.any():
            raise Refused(
                "Every record has an infinite log-likelihood; check the outcome's bounds or units."
            )
        return present

    @cached_property
    def safe_arrays(self) -> Arrays:
        """Absent records carry a present one's values: weight 0 times a finite number is 0."""
        absent, stand_in = ~self.present, int(np.argmax(self.present))
        safe = dict(self.arrays)
        for name in self.model.targets:
            safe[name] = np.array(self.arrays[name])
            safe[name][absent] = self.arrays[name][stand_in]
        return safe

    def fit(self, terms: Terms, stage: str, start: Matrix | None = None) -> Posterior:
        chains = self._exact(terms, stage) or self._sampled(terms, stage, start)
        return Posterior(
            self.density,
            self.safe_arrays,
            terms,
            self.present,
            chains.positions,
            chains.diagnostics,
            self.units,
            self._records,
        )

    @cached_property
    def _records(self) -> GaussianRecords | None:
        return gaussian_records(self.density, self.safe_arrays, self.units)

    def _exact(self, terms: Terms, stage: str) -> Chains | None:
        """Draws from weighted moments where the model and the terms allow it (fitting/moments)."""
        if not is_linear(self.density, terms):
            return None
        key = self._key(stage)
        return sample_exactly(self.density, self.safe_arrays, terms.alpha, self.settings, key)

    def _sampled(self, terms: Terms, stage: str, start: Matrix | None) -> Chains:
        first = self.model.start(self.safe_arrays, terms.alpha)
        if start is None and first is not None:
            start = self._own_starts(first, terms)
        iterations = self.settings.chains * (self.settings.warmup + self.settings.per_chain)
        with fit_progress(stage, iterations, self.show_progress) as tick:
            if start is not None and has_gibbs(self.density, terms):
                problem = self.density, self.safe_arrays, terms.alpha, self.settings
                return sample_by_gibbs(*problem, self._key(stage), start, tick)
            inputs = self._inputs(terms, first, start)
            if is_clipped_gaussian(self.density, terms):
                plain = {name: value for name, value in inputs.items() if name != "scale"}
                settings, sums = self.settings, self._sums(terms)
                key, other = self._key(stage), self._key(f"{stage}, around the mode")
                chains = sample_by_independence(self.density, plain, settings, key, tick, sums)
                if settings.fast and chains is None:
                    raise Refused(
                        "The clipped posterior has a second mode, or little in common with the one "
                        "without a clip."
                    )
                around = self.density, inputs, settings, other
                chains = chains or sample_around_mode(*around, tick, sums)
                if chains is not None:
                    return chains
            return sample(self.density, inputs, self.settings, self._key(stage), start, tick)

    def _sums(self, terms: Terms) -> ContributionSums | None:
        """Sums of contributions by block; None where records must be looked at one by one."""
        records, reference = self._records, terms.reference
        if records is None or (reference is None and terms.reference_loglik.any()):
            return None
        return partial(
            records.clipped_sums, reference=reference, alpha=terms.alpha, limit=terms.limit
        )

    def _inputs(
        self, terms: Terms, first: dict[str, Any] | None, start: Matrix | None
    ) -> dict[str, Any]:
        """What the compiled program of NUTS is given."""
        centre = terms.prior_centre
        inputs = {
            "arrays": {name: jnp.asarray(array) for name, array in self.safe_arrays.items()},
            "alpha": jnp.asarray(terms.alpha, dtype=jnp.float64),
            "reference_loglik": jnp.asarray(terms.reference_loglik, dtype=jnp.float64),
            "limit": jnp.asarray(terms.limit, dtype=jnp.float64),
            "prior_centre": jnp.zeros(self.density.dimension)
            if centre is None
            else jnp.asarray(centre),
            "prior_scale": jnp.asarray(terms.prior_scale, dtype=jnp.float64),
        }
        if self.units is not None:
            inputs["units"] = jnp.asarray(self.units)
        if isinstance(self.model, SummedModel) and isinf(terms.limit):
            moments = self.model.moments(self.safe_arrays, terms.alpha)
            inputs["moments"] = {name: jnp.asarray(value) for name, value in moments.items()}
        if first is not None:
            scale = self.model.start_scale(first, self.safe_arrays, terms.alpha)
            inputs["scale"] = jnp.asarray(self.density.free_scale(scale))
        elif isinstance(self.model, GaussianModel):
            inputs["scale"] = jnp.asarray(_factor(start, self.density.dimension))
        return inputs

    def _own_starts(self, first: dict[str, Any], terms: Terms) -> Matrix:
        """A point for each chain, found apart: chains that start together agree too easily."""
        others = [
            self.model.start(self.safe_arrays, terms.alpha, chain) or first
            for chain in range(1, self.settings.chains)
        ]
        points = [
            self.density.unconstrain_now(parameters, self.safe_arrays)
            for parameters in (first, *others)
        ]
        return np.stack([np.asarray(point) for point in points])

    def record_loglik(self, position: Vector) -> Vector:
        return np.asarray(self.density.evaluate_now(jnp.asarray(position), self.safe_arrays)[1])

    def bounds_over(self, positions: Matrix) -> Vector:
        if positions.shape[1] != self.density.dimension:
            raise Refused(
                "The weight function belongs to another model: its number of parameters differs."
            )
        ones, zeros = np.ones(self.n), np.zeros(self.n)
        if self._records is not None:
            ends = self._records.lowest_and_highest(positions)
            bounds = bounds_of_ends(ends, ones, zeros, inf, len(positions))
        else:
            density, arrays = self.density.in_parts(self.safe_arrays, self.units)
            bounds = record_bounds(
                density.record_loglik, positions, arrays, ones, zeros,
                units=self.units, present=self.present, in_parts=True,
            )  # fmt: skip
        return np.where(self.present, bounds.loglik, np.inf)

    def on(self, survey: Any, purpose: str) -> ModelFitter:
        """The same model on another survey, coded like this one; never on this one itself."""
        if not isinstance(survey, Survey):
            raise Refused(f"{purpose.capitalize()} must come from a Survey with the same columns.")
        if survey not in self._others:
            self._others[survey] = self._made_on(survey, purpose)
        return self._others[survey]

    def rehearsing(self, fast: bool) -> ModelFitter:
        """The same with chains that must agree soon, by random numbers that everyone knows;
        `fast`: by weighed proposals or not at all."""
        settings = replace(self.settings, most_thinning=SOON, fast=fast)
        return replace(self, settings=settings, seed=PUBLIC, show_progress=False)

    def resampled(self, n: int, number: int) -> ModelFitter:
        """The same model on n of these records, drawn with replacement, units whole."""
        rng = np.random.default_rng([PUBLIC, number])
        if self.units is None:
            rows, units = rng.integers(0, self.n, n), None
        else:
            rows, units = whole_units(self.units, n, rng)
        arrays = {
            name: array[rows] if array.shape[:1] == (self.n,) else array
            for name, array in self.arrays.items()
        }
        return replace(self, arrays=arrays, missing=self.missing[rows], regrouped=units)

    def on_guess(self, number: int) -> ModelFitter:
        """The same model on records that the codebook's guess suggests: 0 as it stands, the others
        as far from it as truth may be. The declared grid stands for confidential given columns."""
        return replace(self._guessed(number), guess=self._guess) if number else self._guess

    @cached_property
    def _guess(self) -> ModelFitter:
        return self.guess or self._guessed(0)

    def _guessed(self, number: int) -> ModelFitter:
        if self.model.plain is not self.model:
            raise Refused(
                "A public guess does not know how common the special values of "
                f"`{self.model.sensitive[0]}` are; give a past file as the reference."
            )
        public, rng = self.coding or self.survey, np.random.default_rng([PUBLIC, number])
        survey = guessed_survey(public, self.model, self.survey, rng, apart=number > 0)
        arrays = self.model.prepare(survey, like=public)
        missing = np.zeros(survey.n, dtype=bool)
        return replace(self, survey=survey, arrays=arrays, missing=missing, regrouped=self.units)

    @cached_property
    def _others(self) -> dict[Survey, ModelFitter]:
        return {}

    def _made_on(self, survey: Survey, purpose: str) -> ModelFitter:
        try:
            complete, _ = without_missing(survey, self.model.sensitive)
            arrays = self.model.prepare(complete, like=self.coding or self.survey)
        except Refused as error:
            raise Refused(f"The survey for {purpose} does not fit this one: {error}") from None
        units = None  # its own
        if self.units is not None and complete.codebook.unit_column is None:
            units = made_up_units(self.units, complete.n)
        missing = np.zeros(complete.n, dtype=bool)
        other = replace(self, survey=complete, arrays=arrays, missing=missing, regrouped=units)
        self.refuse_source(other.sensitive_values, purpose)
        return other

    @property
    def sensitive_values(self) -> Matrix:
        """The sensitive values of the records that have them, (records, columns): numbers as the
        file has them, since a model's coordinates may depend on the whole file (weights' on n)."""
        names = list(self.model.sensitive)
        frame = self.survey.frame(names)
        if all(frame[name].dtype.is_numeric() for name in names):
            return frame.cast(pl.Float64).to_numpy()[~self.missing]
        columns = [
            self.arrays[name].reshape(self.n, -1).astype(np.float64) for name in self.model.targets
        ]
        return np.concatenate(columns, axis=1)[~self.missing]

    def refuse_source(self, values: Matrix, purpose: str) -> None:
        """Refused where these values, from which something is taken, are this database's own."""
        refuse_overlap(self.sensitive_values, values, purpose)

    def check_histogram(self, alone: bool = False) -> None:
        """Refused where there is no one bounded variable, no limit of a unit's records, or, for the
        first of two stages, where it is not alone."""
        if alone and set(self.arrays) != set(self.model.targets):
            raise Refused(
                "`reference='two-stage'` is for a model of one bounded variable without "
                "predictors; give a historical survey as the reference."
            )
        self.model.bounded_target(self.survey.codebook)
        unit = unit_of(self.survey)
        _ = None if unit is None else unit.limit

    def histogram(self, epsilon: float, bins: Bins) -> HistogramDraw:
        """A private histogram of the one bounded variable; a missing value is in no bin."""
        name, bounds = self.model.bounded_target(self.survey.codebook)
        count = bin_count(bins, self.n)  # by the public number of records
        values = self.arrays[name][~self.missing]
        unit = unit_of(self.survey)
        if unit is None or self.units is None:
            return perturbed_histogram(values, bounds, count, epsilon)
        values = values_within_limit(self.units[~self.missing], values, unit.limit)
        return perturbed_histogram(values, bounds, count, epsilon, unit.limit)

    def on_histogram(self, epsilon: float, bins: Bins) -> ModelFitter:
        """The same model on values drawn from a private histogram: the first of two stages."""
        name, _ = self.model.bounded_target(self.survey.codebook)
        rng = chance_of(self.seed).generator("histogram")
        values = self.histogram(epsilon, bins).sample(self.n, rng)
        return replace(self, arrays={name: values}, missing=np.zeros(self.n, dtype=bool))

    @property
    def has_moments(self) -> bool:
        return isinstance(self.model, SurveyNormal)

    def cell_sums_within(self, clip: Clips | None) -> ExactCellSums:
        """Sums of clipped values in public cells, for noise; refused where a bound is not
        declared."""
        model = self.model
        assert isinstance(model, SurveyNormal)  # settled by the caller
        self._check_sums()
        X, Y = (np.asarray(part) for part in model.gaussian_data(self.arrays))
        cell = self.arrays["cell"]
        first = np.unique(cell, return_index=True)[1]
        refuse_small_cells(self.n, len(first))
        low, high = model.clipped_range(clip, self.survey)
        centre, half = (low + high) / 2, (high - low) / 2
        return cell_sums((Y - centre) / half, cell, X[first], centre, half, held_limit(self.survey))

    def binned_values(self, bins: int | Literal["auto"], epsilon: float) -> BinnedValues:
        """Counts of the one bounded variable in public bins and cells."""
        if self.model.plain is not self.model or isinstance(self.model, GibbsModel):
            raise Refused(
                "NoisyMoments is for FBS, FBP and other models of one outcome, without special "
                "values of it, and not for mixtures; take Censored or ReferenceCensored."
            )
        name = self.model.targets[0]
        self._check_sums()
        public = [
            np.asarray(array, dtype=np.float64).reshape(self.n, -1)
            for other, array in self.arrays.items()
            if other != name and array.shape[:1] == (self.n,)
        ]
        predictors = np.concatenate([np.zeros((self.n, 1)), *public], axis=1)
        _, rows, cell = np.unique(predictors, axis=0, return_index=True, return_inverse=True)
        cell = cell.reshape(-1)
        refuse_small_cells(self.n, len(rows))
        refuse_own_parameters(self.density, self.arrays, rows)
        per_unit = held_limit(self.survey)
        number = bin_number(self.n / len(rows), epsilon, per_unit) if bins == "auto" else bins
        edges, ends = edges_of(self.density, self.arrays, self.survey.codebook, number)
        counts = counted(self.arrays[name], cell, len(rows), edges)
        sizes = np.bincount(cell, minlength=len(rows))
        return BinnedValues(counts, sizes, edges, rows, self.density.whole, per_unit, ends)

    def _check_sums(self) -> None:
        if self.missing.any():
            raise Refused(
                "NoisyMoments needs a value of every record; drop those without one "
                "(missing = 'drop'), or fill them in."
            )

    def given_noisy(
        self, seen: ExactCellSums | BinnedValues, noisy: NoisyCellSums | NoisyBins, datasets: int
    ) -> NoisyDraws:
        """Draws given noisy sums (fitting/noisy_moments, noisy_counts): nothing else of the
        records."""
        key = self._key("given noisy sums")
        if isinstance(seen, BinnedValues) and isinstance(noisy, NoisyBins):
            return self._given_counts(seen, noisy, datasets, key)
        assert isinstance(seen, ExactCellSums)
        assert isinstance(noisy, NoisyCellSums)
        problem = self.density, self.safe_arrays
        return drawn_given_noisy(*problem, seen, noisy, datasets, self.settings, key)

    def _given_counts(
        self, seen: BinnedValues, noisy: NoisyBins, datasets: int, key: Array
    ) -> NoisyDraws:
        density, arrays = counted_density(self.model, self.arrays, seen, noisy)
        start = starts(density, arrays, noisy, self.settings.chains, PUBLIC)
        iterations = self.settings.chains * (self.settings.warmup + self.settings.per_chain)
        with fit_progress("given noisy sums", iterations, self.show_progress) as tick:
            inputs = counted_inputs(density, arrays)
            chains = sample(density, inputs, self.settings, key, start, tick)
        draws = chains.positions.reshape(-1, density.dimension)
        known = known_information(density, draws.mean(axis=0), arrays)
        positions = spread_over_files(draws, known, datasets)
        parameters = parameters_at(density, positions, arrays)
        return NoisyDraws(parameters, not chains.diagnostics.failures)

    def generated(self, output: OutcomeOutput) -> list[Generated]:
        """The sensitive arrays of each data set that is made of an output."""
        chance, codebook = chance_of(self.seed), self.survey.codebook
        return [
            output.arrays(number, self.model, self.safe_arrays, codebook, chance)
            for number in range(len(output.draws()))
        ]

    def _key(self, stage: str) -> Array:
        return random_key(self.seed, stage)


def whole_units(
    units: NDArray[np.int32], n: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """n rows of units that are drawn with replacement, and the number of each row's unit; the last
    unit may lack some of its rows."""
    order = np.argsort(units, kind="stable")
    sizes = np.bincount(units)
    first = np.cumsum(sizes) - sizes
    drawn = rng.integers(0, len(sizes), n)
    drawn = drawn[: int(np.searchsorted(np.cumsum(sizes[drawn]), n)) + 1]
    rows = np.concatenate([order[first[unit] : first[unit] + sizes[unit]] for unit in drawn])
    return rows[:n], np.repeat(np.arange(len(drawn), dtype=np.int32), sizes[drawn])[:n]


def made_up_units(units: NDArray[np.int32], n: int) -> NDArray[np.int32]:
    """Units for n records of which nobody knows which belong together: of the sizes that these
    units have, each of records at random."""
    rng = np.random.default_rng(PUBLIC)
    sizes = rng.choice(np.bincount(units), n)
    return rng.permutation(np.repeat(np.arange(n, dtype=np.int32), sizes)[:n])


def _factor(draws: Matrix | None, d: int) -> Matrix:
    """The Cholesky factor of the draws' covariance matrix; the identity where they are few."""
    if draws is None or len(draws) < FEW * d:
        return np.eye(d)
    return np.asarray(np.linalg.cholesky(np.cov(draws.T)))
