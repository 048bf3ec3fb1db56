"""The synthetic estimate and its standard error, from the released files (V §3).

Several implicates are combined by the rules of methods §2. Everything here is public: it
runs before anything is spent. Totals follow the definition that the partitions use,
N sum(wx)/sum(w) where the population size N is public.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, Protocol

import ibis.expr.types as ir
import numpy as np
import polars as pl

from understudy.errors import Refused
from understudy.influence import (
    InfluencePlan,
    UnitRelation,
    error_curve,
    measured_for,
    settled,
)
from understudy.ledger.epsilon import show_epsilon
from understudy.survey.codebook import Codebook
from understudy.survey.survey import Survey
from understudy.tables.combine import combine as combine_estimates
from understudy.tables.influence.prepared import MeasuredInfluence
from understudy.tables.influence.question import (
    InfluenceQuestion,
    SyntheticFile,
    influence_estimate,
)
from understudy.tables.regress import regress
from understudy.tables.tabulate import tabulate
from understudy.tables.units import Unit
from understudy.verify.influence_figures import InfluenceFigures, figures_of
from understudy.verify.mistakes import InvalidQuery, say
from understudy.verify.partition_pass import inside_domain
from understudy.verify.query import DOMAIN, Query
from understudy.verify.question_fields import Condition, Level, question_fields

Combine = Literal["partial", "full"]
MOST_CELLS = 400  # of a table that one question asks for
Row = dict[str, Any]  # with `estimate` and `se`
DomainColumns = Callable[[ir.Table, Any], Mapping[str, Any]]  # of a file's table and its domain


@dataclass(frozen=True)
class Synthetic:
    """The estimate from the released files; `se` may be missing where no step needs it.

    Where a question asks for several numbers, this is the first and `others` are the rest.
    """

    estimate: float
    se: float | None = None
    influence: InfluenceFigures | None = None  # where the measure is one sum by influence
    name: str = ""  # of the number, where there are several
    others: tuple[Synthetic, ...] = ()

    @property
    def every(self) -> tuple[Synthetic, ...]:
        return (self, *self.others)


class ReleasedEstimates(Protocol):
    """What a question is checked against: the released files, or what is remembered of them."""

    def __call__(self, query: Query) -> Synthetic: ...

    def influence_plan(
        self, query: Query, relation: UnitRelation, unit: Unit | None, units: int | None
    ) -> InfluencePlan: ...

    def influence_errors(
        self, query: Query, relation: UnitRelation, unit: Unit | None, units: int | None
    ) -> pl.DataFrame: ...


@dataclass(frozen=True)
class ReleasedPass:
    """The released files, and what an estimator may compute from them.

    Files get plain columns (y, z, x...) and `inside` first, so that no name of a question
    reaches a statistic or a formula.
    """

    surveys: tuple[Survey, ...]
    domain: tuple[Condition, ...]
    codebook: Codebook
    combine: Combine

    def statistic(self, statistic: str, columns: DomainColumns) -> Row:
        """A statistic of `tabulate` over y and z."""
        table = tabulate(self._derived(columns), statistic, where=_where, combine=self.combine)
        return table.row(0, named=True)

    def regression(self, term: str, columns: DomainColumns, family: str = "gaussian") -> Row:
        """One coefficient of `regress`, of y on all columns that begin with x."""
        derived = self._derived(columns)
        names = [name for name in derived[0].columns if name.startswith("x")]
        formula = f"y ~ {' + '.join(names)}"
        kind: Any = family
        table = regress(derived, formula, family=kind, combine=self.combine, where=_where)
        return table.filter(pl.col("term") == term).row(0, named=True)

    def by_influence(self, question: InfluenceQuestion) -> Row:
        """An estimate without a statistic of `tabulate`: its variance is its influences'."""
        each = [influence_estimate(question, SyntheticFile(survey)) for survey in self.surveys]
        values, variances, degrees = (np.array(part) for part in zip(*each, strict=True))
        combined = combine_estimates(
            values[:, None], variances[:, None], min(degrees), self.combine
        )
        return {"estimate": float(combined.value[0]), "se": float(combined.variance[0]) ** 0.5}

    def inside(self, table: ir.Table, domain: tuple[Condition, ...]) -> Any:
        return inside_domain(table, domain, self.codebook)

    def _derived(self, columns: DomainColumns) -> list[Survey]:
        derived = []
        for survey in self.surveys:
            table = survey.table
            inside = self.inside(table, self.domain)
            made = {"inside": inside, **columns(table, inside)}
            numbers = {n: v if n == "inside" else v.cast("float64") for n, v in made.items()}
            design = [table[name] for name in survey.design.columns(survey.columns)]
            derived.append(Survey(table.select(*design, **numbers), survey.design))
        return derived


class ReleasedFiles:
    """Call it with a query: it is the `released` of `check_question`."""

    def __init__(self, surveys: Sequence[Survey], codebook: Codebook, combine: Combine) -> None:
        if not surveys:
            raise Refused("A release has at least one file.")
        self._surveys = tuple(surveys)
        self._codebook = codebook
        self._combine = combine

    def __call__(self, query: Query) -> Synthetic:
        lacking = self._lacking(columns_of(query))
        if lacking:
            raise _cannot(f"The released files have no column `{lacking[0]}`.")
        release = ReleasedPass(self._surveys, query.domain, self._codebook, self._combine)
        try:
            row = query.estimand.released_estimate(release)
        except Refused as refusal:
            raise _cannot(str(refusal)) from None
        estimate, se = row["estimate"], row["se"]
        if estimate is None or se is None or not (math.isfinite(estimate) and math.isfinite(se)):
            raise _cannot("It does not exist in the released files.")
        if se <= 1e-12 * abs(estimate):
            raise _cannot("Its standard error is zero in the released files.")
        return Synthetic(estimate, se)

    def influence_plan(
        self, query: Query, relation: UnitRelation, unit: Unit | None, units: int | None
    ) -> InfluencePlan:
        """What an answer by influence is worth, and how its sum is taken: all of it public."""
        with _said():
            measured = self._measured(query, relation, unit, units)
            return settled(measured, query.price_noise(), relation)

    def influence_errors(
        self, query: Query, relation: UnitRelation, unit: Unit | None, units: int | None
    ) -> pl.DataFrame:
        """Error against epsilon, from a quarter of the price to four times it."""
        with _said():
            measured = self._measured(query, relation, unit, units)
            prices = [max(query.micro * k // 4, 1) for k in (1, 2, 4, 8, 16)]
            noises = [at_price(query, micro).price_noise() for micro in prices]
            return error_curve(measured, noises, relation)

    def _measured(
        self, query: Query, relation: UnitRelation, unit: Unit | None, units: int | None
    ) -> MeasuredInfluence:
        column, records = (None, 1) if unit is None else (unit.column, unit.records or 1)
        files = [SyntheticFile(survey, column, records) for survey in self._surveys]
        questions = self._questions(query)
        for file in files:
            file.read(questions)
        return measured_for(questions, files, relation, units)

    def _questions(self, query: Query) -> list[InfluenceQuestion]:
        """One for every estimate, or for every cell of the table that all released files have."""
        if query.also:
            every = [(part, made) for part in query.parts for made in self._questions(part)]
            return [replace(made, names=_named(part, made.names)) for part, made in every]
        lacking = self._lacking([*columns_of(query), *(query.by or ())])
        if lacking:
            raise Refused(f"the released files have no column `{lacking[0]}`.")
        made = []
        for cell in self._cells(query):
            domain = (*query.domain, *(Condition(column=n, levels=(v,)) for n, v in cell))
            question = query.estimand.influence_question(self._codebook, domain)
            if question is None:
                raise Refused(f"the estimator `{query.estimator}` has no estimating equation.")
            label = ", ".join(f"{name} = {level}" for name, level in cell)
            names = tuple(", ".join(filter(None, (name, label))) for name in question.names)
            made.append(replace(question, names=names))
        return made

    def _lacking(self, names: Sequence[str]) -> list[str]:
        """The columns that some released file does not have."""
        return [n for n in names if any(n not in s.table.columns for s in self._surveys)]

    def _cells(self, query: Query) -> list[tuple[tuple[str, Level], ...]]:
        by = query.by or ()
        if not by:
            return [()]
        inside = [inside_domain(s.table, query.domain, self._codebook) for s in self._surveys]
        held = [
            set(survey.table.filter(part).select(*by).distinct().to_polars().rows())
            for survey, part in zip(self._surveys, inside, strict=True)
        ]
        shared = set.intersection(*held)
        levels = [self._codebook[name].levels or () for name in by]
        cells = [cell for cell in product(*levels) if cell in shared]
        if not 1 <= len(cells) <= MOST_CELLS:
            raise Refused(
                f"the released files have {len(cells)} cells of this table; ask for 1 to "
                f"{MOST_CELLS}."
            )
        return [tuple(zip(by, cell, strict=True)) for cell in cells]


def _named(part: Query, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(": ".join(filter(None, (part.in_words(), name))) for name in names)


def several_of(plan: InfluencePlan) -> Synthetic:
    """The numbers of a plan, with the sampling error of each."""
    prepared = plan.prepared
    every = [
        Synthetic(float(estimate), float(se), figures_of(plan, number), name)
        for number, (estimate, se, name) in enumerate(
            zip(prepared.estimates, prepared.sampling_se, prepared.names, strict=True)
        )
    ]
    return replace(every[0], others=tuple(every[1:]))


def at_price(query: Query, micro: int) -> Query:
    return query.model_copy(update={"epsilon": show_epsilon(micro)})


@contextmanager
def _said() -> Iterator[None]:
    """A refusal of the measure, with the way out."""
    try:
        yield
    except Refused as refusal:
        message = f"The measure `influence` cannot be used: {refusal} Ask by `discrepancy`."
        raise InvalidQuery([say("measure", message)]) from None


def columns_of(query: Query) -> list[str]:
    """The columns that a question is about."""
    parts = {**question_fields(type(query.estimand)), "domain": DOMAIN}
    return [name for field, part in parts.items() for name in part.columns(getattr(query, field))]


def _where(table: ir.Table) -> Any:
    return table["inside"]


def _cannot(reason: str) -> InvalidQuery:
    message = (
        f"The server cannot compute the synthetic estimate: {reason} Give `estimate` and `se`."
    )
    return InvalidQuery([say("estimate", message)])
