"""influence(): how far released estimates are from the confidential ones, and the corrected ones.

    synthetic files -> released estimate, influences, clip, expected error     (public)
    confidential file -> one sum of clipped influences, in one pass
    sum + OpenDP's noise -> difference, corrected estimate, interval

What the server does for its measure `influence` (methods §13; docs/proofs/influence.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, get_args

import ibis.expr.types as ir
import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.claim import RECORD, Claim
from understudy.dp.account import PayingAccount, charged
from understudy.dp.accounting import Cost
from understudy.dp.additive import AdditiveNoise, LaplaceNoise, noise_for
from understudy.errors import Refused, UnknownName
from understudy.survey.survey import Survey
from understudy.tables.families import LinkFamilyName
from understudy.tables.influence.arithmetic import unit_weight
from understudy.tables.influence.array_file import ArrayFile
from understudy.tables.influence.ask import questions_of
from understudy.tables.influence.prepared import (
    MeasuredInfluence,
    PreparedInfluence,
    measure_influence,
)
from understudy.tables.influence.question import InfluenceQuestion, SyntheticFile
from understudy.tables.influence.unit_sums import Steps, sensitivity, steps_of, unit_sums
from understudy.tables.units import Unit, unit_of

__public__ = (
    "InfluenceAnswer",
    "influence",
    "influence_errors",
    "plan_influence",
    "simulated_influence",
)

Floats = NDArray[np.float64]
UnitRelation = Literal["add-remove", "replace"]
RELATIONS: tuple[UnitRelation, ...] = get_args(UnitRelation)

CONDITIONS = (
    "A record's weight and other columns do not change when another unit is added, removed or "
    "changed; weights calibrated over the whole file break this.",
    "The synthetic files and the codebook are public; the claim is about what the answer adds.",
)
POINTS = 4001  # of the sampling error, where it is added to the noise
HEAVY = 0.5  # share of the variance in 1 % of the units from which the answer says so


@dataclass(frozen=True, eq=False)
class InfluencePlan:
    """What an answer will be worth, from public files alone: nothing has been spent."""

    prepared: PreparedInfluence
    noise: AdditiveNoise
    relation: UnitRelation
    unit: str = RECORD  # what the claim is for
    conditions: tuple[str, ...] = CONDITIONS

    @property
    def unit_moves(self) -> int:
        """By how many grid steps one neighbour's step moves the sums."""
        once = sensitivity(len(self.prepared.estimates))
        return once if self.relation == "add-remove" else 2 * once

    @property
    def step(self) -> Floats:
        """One grid step in units of each estimate."""
        return np.asarray(1 / self.prepared.steps)

    @property
    def grid_scale(self) -> float:
        """The scale of the noise in grid steps."""
        return self.noise.scale(self.unit_moves)

    @property
    def noise_scale(self) -> Floats:
        """The scale of the noise in units of each estimate."""
        return self.grid_scale * self.step

    @property
    def noise_se(self) -> Floats:
        """The standard deviation of the noise."""
        return np.asarray(self.noise.deviation(self.unit_moves) * self.step)

    @property
    def se(self) -> Floats:
        """The standard error of the corrected estimate: sampling, clipping and noise."""
        return np.hypot(self.prepared.held_se, self.noise_se)

    @property
    def touched(self) -> float:
        """The share of units that the clip is expected to touch."""
        return self.prepared.clip.touched

    @property
    def error(self) -> Floats:
        """The expected distance of the reported difference from the file's own: noise, and what
        clipping leaves."""
        return np.hypot(self.noise_se, self.prepared.cut_se)

    @property
    def advice(self) -> str:
        """What the analyst should know before paying; empty when nothing stands out."""
        parts = []
        error = float(np.max(self.error / self.prepared.sampling_se))
        if self.prepared.heaviest > HEAVY:
            parts.append(
                f"One per cent of the units make {100 * self.prepared.heaviest:.0f} % of the "
                "sampling variance (heavy weights or values), which makes this question hard."
            )
        if error > 1:
            parts.append(
                f"The answer is expected to be off by {error:.1f} standard errors of the "
                "estimate: spend more epsilon, or ask about a larger domain."
            )
        if self.prepared.equal_weights:
            parts.append(
                "All weights of the released files are equal: where the confidential ones are not, "
                "the clip does not fit them, and the answer can be off by far more than it says."
            )
        return " ".join(parts)

    def answer(self, noisy: Steps) -> InfluenceAnswer:
        """What noisy sums say."""
        return InfluenceAnswer(self, np.asarray(noisy, dtype=np.int64))

    def claim(self) -> Claim:
        delta = getattr(self.noise, "delta", 0.0)
        return Claim(
            "formal",
            self.noise.epsilon,
            delta=delta,
            relation=self.relation,
            conditions=self.conditions,
            mechanism=f"sum of clipped influences, {self.noise.word}",
            unit=self.unit,
        )

    @property
    def table(self) -> pl.DataFrame:
        """One row per estimate."""
        return pl.DataFrame(
            {
                "statistic": self.prepared.names,
                "released": self.prepared.estimates,
                "sampling_se": self.prepared.sampling_se,
                "noise_se": self.noise_se,
                "cut_se": self.prepared.cut_se,
                "se": self.se,
            }
        )


@dataclass(frozen=True, eq=False)
class InfluenceAnswer:
    """The difference and the corrected estimate; numbers for one question, arrays for several."""

    plan: InfluencePlan
    noisy: Steps

    @property
    def released(self) -> Any:
        return self._shape(self.plan.prepared.estimates)

    @property
    def difference(self) -> Any:
        """Confidential minus released estimate: the noisy sum, with what clipping cuts off."""
        return self._shape(self._difference)

    @property
    def corrected(self) -> Any:
        """The number to publish: released estimate plus difference."""
        return self._shape(self.plan.prepared.estimates + self._difference)

    @property
    def se(self) -> Any:
        """Of the corrected estimate: sampling, clipping and noise."""
        return self._shape(self.plan.se)

    @property
    def noise_scale(self) -> Any:
        return self._shape(self.plan.noise_scale)

    @property
    def touched(self) -> float:
        return self.plan.touched

    @property
    def note(self) -> str:
        return "; ".join(self.plan.prepared.notes)

    @property
    def claim(self) -> Claim:
        return self.plan.claim()

    def interval(self, probability: float = 0.95) -> Any:
        """(low, high) around the corrected estimate, for the population: the quantiles of the
        sampling and clipping errors (a t distribution) and the noise together."""
        half = self._half(probability)
        centre = self.plan.prepared.estimates + self._difference
        if len(centre) == 1:
            return float(centre[0] - half[0]), float(centre[0] + half[0])
        return np.column_stack([centre - half, centre + half])

    def difference_interval(self, probability: float = 0.95) -> Any:
        """The posterior interval of the difference in this file, under a flat prior: the noise,
        and what clipping leaves."""
        plan, inside = self.plan, _checked(probability)
        half = np.array(
            [
                plan.noise.blurred_quantile(0.5 + inside / 2, scale, cut)
                for scale, cut in zip(plan.noise_scale, plan.prepared.cut_se, strict=True)
            ]
        )
        if len(half) == 1:
            return float(self._difference[0] - half[0]), float(self._difference[0] + half[0])
        return np.column_stack([self._difference - half, self._difference + half])

    @property
    def table(self) -> pl.DataFrame:
        """One row per estimate, with a 95 % interval."""
        limits = np.reshape(self.interval(0.95), (-1, 2))
        return self.plan.table.select("statistic", "released").with_columns(
            pl.Series("difference", self._difference),
            pl.Series("corrected", self.plan.prepared.estimates + self._difference),
            pl.Series("se", self.plan.se),
            pl.Series("lower", limits[:, 0]),
            pl.Series("upper", limits[:, 1]),
        )

    @property
    def _difference(self) -> Floats:
        prepared = self.plan.prepared
        apart = prepared.constant if not prepared.per_unit.any() else 0.0
        return np.asarray(self.noisy * self.plan.step + prepared.loss - apart)

    def _half(self, probability: float) -> Floats:
        plan, inside = self.plan, _checked(probability)
        return np.array(
            [
                half_width(inside, held, plan.prepared.df, plan.noise, noise)
                for held, noise in zip(plan.prepared.held_se, plan.noise_scale, strict=True)
            ]
        )

    def _shape(self, values: Floats) -> Any:
        return float(values[0]) if len(values) == 1 else values.copy()


def _checked(probability: float) -> float:
    if not 0 < probability < 1:
        raise Refused("The probability of an interval must lie between 0 and 1.")
    return probability


def half_width(
    probability: float, error: float, df: float, noise: AdditiveNoise, scale: float
) -> float:
    """h with P(|T + E| <= h) = probability, T a t variable times `error`, E the noise."""
    from scipy import optimize, stats  # slow to load, and a server starts without

    reach = float(stats.t.isf(1e-7, df))
    t = np.linspace(-reach, reach, POINTS)
    weights = stats.t.pdf(t, df)
    weights /= weights.sum()

    def lacking(h: float) -> float:
        upper, lower = (noise.blurred_cdf(side - t * error, scale) for side in (h, -h))
        return float(weights @ (upper - lower)) - probability

    high = error * reach + scale * 50
    return float(optimize.brentq(lacking, 0.0, high, xtol=1e-9 * high))


def plan_influence(
    synthetic: Survey | Sequence[Survey],
    statistics: str | Sequence[str],
    epsilon: float,
    relation: UnitRelation = "replace",
    *,
    delta: float = 0.0,
    by: str | Sequence[str] = (),
    where: Any = None,
    family: LinkFamilyName = "gaussian",
    unit: str | None = None,
    units: int | None = None,
    records: int = 1,
) -> InfluencePlan:
    """What `influence` would be worth, in closed form and without a confidential record.

    `unit` is the column whose records stand together, `units` the number of confidential units
    where it is public (as under `replace`); without it that of the synthetic files is taken. Where
    the files lack that column, `records` is the most records of a unit.
    """
    measured = _measured(synthetic, statistics, relation, by, where, family, unit, units, records)
    return settled(measured, noise_for(epsilon, delta), relation)


def influence_errors(
    synthetic: Survey | Sequence[Survey],
    statistics: str | Sequence[str],
    epsilons: Sequence[float],
    relation: UnitRelation = "replace",
    *,
    delta: float = 0.0,
    by: str | Sequence[str] = (),
    where: Any = None,
    family: LinkFamilyName = "gaussian",
    unit: str | None = None,
    units: int | None = None,
    records: int = 1,
) -> pl.DataFrame:
    """Error against epsilon for every estimate, before anything is spent: `error` is that of the
    difference (noise, and what clipping leaves), `se` that of the corrected estimate."""
    if not epsilons:
        raise Refused("Name at least one epsilon, such as [0.5, 1, 2].")
    measured = _measured(synthetic, statistics, relation, by, where, family, unit, units, records)
    return error_curve(measured, [noise_for(epsilon, delta) for epsilon in epsilons], relation)


def _measured(
    synthetic: Survey | Sequence[Survey],
    statistics: str | Sequence[str],
    relation: UnitRelation,
    by: str | Sequence[str],
    where: Any,
    family: LinkFamilyName,
    unit: str | None,
    units: int | None,
    records: int,
) -> MeasuredInfluence:
    surveys = [synthetic] if isinstance(synthetic, Survey) else list(synthetic)
    if not surveys:
        raise Refused("Give one synthetic Survey, or a list with at least one.")
    files = [SyntheticFile(survey, unit, records) for survey in surveys]
    questions = questions_of(statistics, surveys, by, where, family)
    for file in files:
        file.read(questions)
    # units that are made up are not as many as the true ones
    known = units or files[0].units if records == 1 else None
    return measured_for(questions, files, relation, known)


def plan_questions(
    questions: Sequence[InfluenceQuestion],
    files: Sequence[SyntheticFile],
    noise: AdditiveNoise,
    relation: UnitRelation,
    units: int | None = None,
) -> InfluencePlan:
    """The same for questions that have been put together."""
    return settled(measured_for(questions, files, relation, units), noise, relation)


def measured_for(
    questions: Sequence[InfluenceQuestion],
    files: Sequence[SyntheticFile],
    relation: UnitRelation,
    units: int | None = None,
) -> MeasuredInfluence:
    """The number of units is used under `replace` only, where it is public."""
    if relation not in RELATIONS:
        raise UnknownName("relation", str(relation), RELATIONS)
    return measure_influence(questions, files, units if relation == "replace" else None)


def settled(
    measured: MeasuredInfluence, noise: AdditiveNoise, relation: UnitRelation
) -> InfluencePlan:
    """The plan at one price."""
    once = 1 if relation == "add-remove" else 2
    prepared = measured.prepared(noise.deviation(once) ** 2, noise.norm)
    return InfluencePlan(prepared, noise, relation)


def error_curve(
    measured: MeasuredInfluence, noises: Sequence[AdditiveNoise], relation: UnitRelation
) -> pl.DataFrame:
    """Error against epsilon: one row per price and estimate, in closed form."""
    plans = [settled(measured, noise, relation) for noise in noises]
    return pl.concat(
        plan.table.with_columns(
            pl.Series("error", plan.error), pl.lit(plan.noise.epsilon).alias("epsilon")
        )
        for plan in plans
    ).select("epsilon", "statistic", "released", "sampling_se", "noise_se", "cut_se", "error", "se")


def influence(
    confidential: Survey,
    synthetic: Survey | Sequence[Survey],
    statistics: str | Sequence[str],
    epsilon: float,
    relation: UnitRelation = "replace",
    *,
    delta: float = 0.0,
    by: str | Sequence[str] = (),
    where: Any = None,
    family: LinkFamilyName = "gaussian",
    account: PayingAccount | None = None,
) -> InfluenceAnswer:
    """The difference between confidential and released estimates, and the corrected estimates.

    `statistics` is one of `tabulate`'s ("mean(x)"), a regression on plain columns
    ("income ~ age + region", with `family`), or a list; `by` asks for every cell of a table.
    Several numbers share one price: Laplace noise for pure epsilon, Gaussian noise (zCDP) where a
    `delta` is given. Where the codebook names a unit, all its records count as one. The price is
    charged to `account` (`LedgerAccount`) before the records are looked at; without one the claim
    says that it was not charged to any ledger.
    """
    declared = unit_of(confidential)
    unit = None if declared is None else declared.column
    units = _units(confidential, unit) if relation == "replace" else None
    records = _most_records(declared, synthetic, relation)
    plan = plan_influence(
        synthetic, statistics, epsilon, relation,
        delta=delta, by=by, where=where, family=family, unit=unit, units=units, records=records,
    )  # fmt: skip
    whom = unit or RECORD
    cost = Cost((relation,), Fraction(repr(float(epsilon))), Fraction(repr(float(delta))))
    sentence = charged(account, confidential, [cost], whom, "an answer by influence")
    plan = replace(plan, unit=whom, conditions=(*plan.conditions, sentence))
    weight = confidential.design.weight
    table = confidential.table
    weights = unit_weight() if weight is None else table[weight].cast("float64")
    row = influence_pass(plan.prepared, table, weights, unit).to_pyarrow().to_pylist()[0]
    sums = steps_of(row, len(plan.prepared.estimates))
    return plan.answer(plan.noise.add(sums, plan.unit_moves))


def simulated_influence(
    question: InfluenceQuestion,
    confidential: ArrayFile,
    synthetic: Sequence[ArrayFile],
    epsilon: float,
) -> InfluenceAnswer:
    """What `influence` would answer under `replace`, on plain arrays: for simulations.

    No claim is made and nothing is charged.
    """
    files: Any = synthetic  # ArrayFile does what is asked of a SyntheticFile here
    plan = plan_questions([question], files, LaplaceNoise(epsilon), "replace", confidential.units)
    return plan.answer(plan.noise.add(confidential.sums(plan.prepared), plan.unit_moves))


def influence_pass(
    prepared: PreparedInfluence, table: ir.Table, weight: Any, unit: str | None
) -> ir.Table:
    """The one pass over the confidential records, as an expression."""
    expressions = [
        expression
        for question, at in zip(prepared.questions, prepared.released, strict=True)
        for expression in question.expressions(at, table, weight)
    ]
    return unit_sums(table, expressions, prepared.steps, prepared.norm, unit, prepared.per_unit)


def _most_records(
    declared: Unit | None, synthetic: Survey | Sequence[Survey], relation: UnitRelation
) -> int:
    """Of a unit, where the synthetic files do not say which records belong together. The number of
    units, where it is public, tells how large they are on average; else the limit must be known."""
    surveys = [synthetic] if isinstance(synthetic, Survey) else synthetic
    if declared is None or all(declared.column in survey.columns for survey in surveys):
        return 1
    return declared.records or 1 if relation == "replace" else declared.limit


def _units(confidential: Survey, unit: str | None) -> int:
    """The number of units, which is public under `replace`."""
    if unit is None:
        return confidential.n
    return int(confidential.table[unit].nunique().to_pyarrow().as_py())
