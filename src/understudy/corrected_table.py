"""Tables of a release, corrected by influence: part of the epsilon goes into the published numbers.

    synthetic files -> every cell's estimate c and its influences        (public)
    confidential file -> sums of clipped influences, one pass; OpenDP's noise -> differences D
    differences, synthetic files -> corrected cells and margins          (tables/corrected.py)

A record is in one cell, so the cells of a table share one price; all numbers of a unit are clipped
together. The plan and the table are made from public things alone, by whoever has the noisy sums:
in a release by the process that never had the confidential file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import polars as pl

from understudy.claim import RECORD, Claim, Relation
from understudy.dp.account import PayingAccount, charged, said_of_account
from understudy.dp.accounting import Cost
from understudy.dp.additive import AdditiveNoise, noise_for
from understudy.errors import Refused
from understudy.influence import (
    CONDITIONS,
    InfluencePlan,
    UnitRelation,
    influence_pass,
    measured_for,
    settled,
)
from understudy.survey.survey import Survey
from understudy.tables.combine import RULES
from understudy.tables.corrected import ReleasedTable, public_sizes
from understudy.tables.influence.arithmetic import unit_weight
from understudy.tables.influence.ask import questions_of
from understudy.tables.influence.question import InfluenceQuestion, SyntheticFile, has_estimate
from understudy.tables.influence.unit_sums import Steps, steps_of
from understudy.tables.statistic import Statistic, parse_statistics
from understudy.tables.tabulate import ALL
from understudy.tables.units import unit_of

__public__ = ("CorrectedTable", "corrected_table")

CellKey = tuple[tuple[str, ...], str]  # the levels of a cell, and a statistic


@dataclass(frozen=True, eq=False)
class CorrectedTable:
    """The table and its claim, which is about the corrections alone.

    Columns: those of `tabulate` with corrected estimates and errors, `released` (the estimate of
    the synthetic files), `noise_se`, and `share`, how much of the difference was applied.
    """

    table: pl.DataFrame
    claim: Claim


@dataclass(frozen=True)
class Corrections:
    """What corrections cost, and whom they protect: known before any file is made."""

    epsilon: float
    delta: float = 0.0
    relation: Relation = "replace"  # of the claim; noise for `replace` is enough for `blank`
    unit: str = RECORD
    records: int = 1  # the most that a unit has: the clip is planned for 1 to so many

    @property
    def noise(self) -> AdditiveNoise:
        return noise_for(self.epsilon, self.delta)

    @property
    def neighbours(self) -> UnitRelation:
        return "add-remove" if self.relation == "add-remove" else "replace"

    @property
    def cost(self) -> Cost:
        epsilon, delta = Fraction(repr(float(self.epsilon))), Fraction(repr(float(self.delta)))
        return Cost((self.neighbours,), epsilon, delta)

    def claim(self, conditions: tuple[str, ...]) -> Claim:
        stated = "replace" if self.relation == "blank" and self.delta else self.relation
        return Claim(
            "formal",
            self.epsilon,
            delta=self.delta,
            relation=stated,
            conditions=conditions,
            mechanism=f"tables corrected by clipped influences, {self.noise.word}",
            epsilon_replace=self.epsilon if stated == "blank" else None,
            unit=self.unit,
        )


@dataclass(frozen=True, eq=False)
class CorrectionPlan:
    """What will be asked of the confidential records, and what becomes of the noisy answer: settled
    from synthetic files alone."""

    corrections: Corrections
    surveys: tuple[Survey, ...] = field(repr=False)
    statistics: tuple[Statistic, ...]  # of the table
    by: tuple[str, ...]
    keys: tuple[CellKey, ...]  # what is corrected
    influence: InfluencePlan | None  # None where no cell can be

    @property
    def steps(self) -> Sequence[float]:
        """The grid of the sums: how many steps a unit of each estimate is."""
        return () if self.influence is None else tuple(map(float, self.influence.prepared.steps))

    def noisy_sums(self, confidential: Survey) -> Steps:
        """The sums of clipped influences with noise from OpenDP: all that the records say."""
        if self.influence is None:
            return np.zeros(0, dtype=np.int64)
        plan, table, weight = self.influence, confidential.table, confidential.design.weight
        unit = None if self.corrections.unit == RECORD else self.corrections.unit
        weights = unit_weight() if weight is None else table[weight].cast("float64")
        row = influence_pass(plan.prepared, table, weights, unit).to_pyarrow().to_pylist()[0]
        return plan.noise.add(steps_of(row, len(self.keys)), plan.unit_moves)

    def table(self, noisy: Steps, margins: bool, combine: str) -> pl.DataFrame:
        """The corrected table."""
        released = ReleasedTable.of(self.surveys, self.statistics, self.by, combine)
        known = released.exact_sizes() | public_sizes(self.surveys[0], self.by)
        made = released.corrected(self._cells(noisy), self.statistics, known)
        if margins:
            return made
        return made.filter(pl.all_horizontal(pl.col(name) != ALL for name in self.by))

    def _cells(self, noisy: Steps) -> pl.DataFrame:
        difference = noise = noise_se = np.zeros(0)
        if self.influence is not None:
            plan, prepared = self.influence, self.influence.prepared
            difference = noisy * plan.step + prepared.loss - prepared.constant
            noise, noise_se = plan.error**2, plan.noise_se
        numbers = {"difference": difference, "noise": noise, "noise_se": noise_se}
        columns = {name: [cell[k] for cell, _ in self.keys] for k, name in enumerate(self.by)}
        texts = {**columns, "statistic": [text for _, text in self.keys]}
        return pl.DataFrame(
            [pl.Series(name, values, pl.String) for name, values in texts.items()]
            + [pl.Series(name, values, pl.Float64) for name, values in numbers.items()]
        )


def plan_corrections(
    synthetic: Sequence[Survey],
    statistics: Sequence[Statistic],
    corrected: Sequence[Statistic],
    by: Sequence[str],
    corrections: Corrections,
) -> CorrectionPlan:
    """The plan for `corrected`, those of the table's statistics that are asked about. A cell that a
    synthetic file lacks, or in which nothing varies, stays as it is."""
    unit = None if corrections.unit == RECORD else corrections.unit
    files = [SyntheticFile(survey, unit, corrections.records) for survey in synthetic]
    # sums without a number per unit: a record then counts in its own cell alone
    neighbours = corrections.neighbours
    asked = [
        (question, statistic)
        for statistic in corrected
        for question in questions_of(statistic, synthetic, by, any_file=True)
    ]
    for file in files:
        file.read([question for question, _ in asked])
    questions = [(q, statistic) for q, statistic in asked if has_estimate(q, files)]
    plan, keys = None, []
    if questions:
        measured = measured_for([question for question, _ in questions], files, neighbours)
        kept = np.flatnonzero(measured.varies)  # one record says nothing about its cell's errors
        keys = [_key(*questions[k]) for k in kept]
        if len(kept):
            plan = settled(measured.only(kept), corrections.noise, neighbours)
    return CorrectionPlan(
        corrections, tuple(synthetic), tuple(statistics), tuple(by), tuple(keys), plan
    )


def _key(question: InfluenceQuestion, statistic: Statistic) -> CellKey:
    return tuple(map(str, question.cell)), statistic.text


def corrected_table(
    confidential: Survey,
    synthetic: Sequence[Survey],
    statistics: str | Statistic | Sequence[str | Statistic],
    by: str | Sequence[str],
    epsilon: float,
    *,
    delta: float = 0.0,
    margins: bool = True,
    combine: str = "partial",
    relation: Relation = "replace",
    account: PayingAccount | None = None,
) -> CorrectedTable:
    """Counts, totals and means by cells, corrected towards the confidential ones at a price.

    `relation` is that of the claim; noise for `replace` is enough for `blank` too. `combine` is the
    rule of the synthetic files. The price is charged to `account` (`LedgerAccount`) before the
    records are looked at; without one the claim says that it was not charged to any ledger.
    """
    names = [by] if isinstance(by, str) else list(by)
    if combine not in RULES:
        raise Refused(f"The combining rule of a corrected table is one of {', '.join(RULES)}.")
    parsed = parse_statistics(statistics, synthetic[0].columns)
    check_corrected(parsed, names)
    declared = unit_of(confidential)
    corrections = Corrections(epsilon, delta, relation)
    if declared is not None:
        # without their ids the files do not say which records go together, but how many can
        ids = all(declared.column in survey.columns for survey in synthetic)
        records = 1 if ids else declared.limit
        corrections = replace(corrections, unit=declared.column, records=records)
    plan = plan_corrections(synthetic, parsed, parsed, names, corrections)
    if plan.influence is None:
        raise Refused(
            "The synthetic files share no cell of this table that has a sampling error; use fewer "
            "columns."
        )
    whom = corrections.unit
    paid = charged(account, confidential, [corrections.cost], whom, "a corrected table")
    table = plan.table(plan.noisy_sums(confidential), margins, combine)
    return CorrectedTable(table, said_of_account(corrections.claim(CONDITIONS), paid))


def check_corrected(statistics: Sequence[Statistic], by: Sequence[str]) -> None:
    """Refuse, before anything is spent, what has no corrected table."""
    if not by:
        raise Refused("A corrected table has at least one classifying column; name it in `by`.")
    for statistic in statistics:
        follows = statistic.adds_up or statistic.averages
        if not follows or statistic.influence_question() is None:
            raise Refused(
                f"`{statistic.text}` cannot be corrected with margins that add up; ask for counts, "
                "totals and means."
            )
