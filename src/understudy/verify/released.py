"""The synthetic estimate and its standard error, from the released files (V §3).

Several implicates are combined by the rules of methods §2. Everything here is public: it
runs before anything is spent. Totals follow the definition that the partitions use,
N sum(wx)/sum(w) where the population size N is public.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import ibis
import ibis.expr.types as ir
import polars as pl

from understudy.errors import Refused
from understudy.survey.codebook import Codebook
from understudy.survey.survey import Survey
from understudy.tables.regress import regress
from understudy.tables.tabulate import tabulate
from understudy.verify.answer import Synthetic
from understudy.verify.estimators import inside_domain
from understudy.verify.mistakes import InvalidQuery, Mistake
from understudy.verify.query import Query

Combine = Literal["partial", "full"]


class ReleasedFiles:
    """Call it with a query: it is the `released` of `answer_query`."""

    def __init__(self, surveys: Sequence[Survey], codebook: Codebook, combine: Combine) -> None:
        if not surveys:
            raise Refused("A release has at least one file.")
        self._surveys = list(surveys)
        self._codebook = codebook
        self._combine = combine

    def __call__(self, query: Query) -> Synthetic:
        derived = [_derived(survey, query, self._codebook) for survey in self._surveys]
        try:
            row = self._estimate(derived, query)
        except Refused as refusal:
            raise _cannot(str(refusal)) from None
        estimate, se = row["estimate"], row["se"]
        if estimate is None or se is None or not (math.isfinite(estimate) and math.isfinite(se)):
            raise _cannot("It does not exist in the released files.")
        if se <= 1e-12 * abs(estimate):
            raise _cannot("Its standard error is zero in the released files.")
        scale = self._codebook.population_size if query.estimator == "total" else None
        return Synthetic(estimate * (scale or 1.0), se * (scale or 1.0))

    def _estimate(self, derived: list[Survey], query: Query) -> dict[str, Any]:
        if query.estimator in ("linear", "logistic", "difference"):
            names = [name for name in derived[0].columns if name.startswith("x_")]
            table = regress(
                derived,
                f"y ~ {' + '.join(names)}",
                family="binomial" if query.estimator == "logistic" else "gaussian",
                combine=self._combine,
                where=_where,
            )
            wanted = _wanted(query, self._codebook)
            return table.filter(pl.col("term") == wanted).row(0, named=True)
        statistic = {
            "total": "total(y)" if self._codebook.population_size is None else "mean(y)",
            "ratio": "ratio(y / z)",
            "quantile": f"quantile(y, {query.probability!r})",
        }.get(query.estimator, "mean(y)")
        table = tabulate(derived, statistic, where=_where, combine=self._combine)
        return table.row(0, named=True)


def _derived(survey: Survey, query: Query, codebook: Codebook) -> Survey:
    """The survey with plain columns y, z, x_... and `inside`: no name reaches a formula."""
    table = survey.table
    for name in _columns(query):
        if name not in table.columns:
            raise _cannot(f"The released files have no column `{name}`.")
    columns: dict[str, Any] = {}
    y: Any = table[query.variable]
    y = (y == query.level).cast("float64") if query.level is not None else y.cast("float64")
    inside: Any = inside_domain(table, query.domain, codebook)
    if query.estimator == "total" and codebook.population_size is not None:
        # The domain goes into the variable: the denominator is the whole population.
        y, inside = ibis.ifelse(inside & y.notnull(), y, 0.0), ibis.literal(True)
    if query.estimator == "difference":
        _refuse_overlap(query)
        columns["x_0"] = inside.cast("float64")
        inside = inside | inside_domain(table, query.versus, codebook)
    if query.denominator is not None:
        columns["z"] = table[query.denominator].cast("float64")
    for place, name in enumerate(query.predictors):
        levels = codebook[name].levels if codebook[name].type == "categorical" else None
        if levels is None:
            columns[f"x_{place}"] = table[name].cast("float64")
        for code, level in enumerate(levels or ()):
            if code:
                columns[f"x_{place}_{code}"] = (table[name] == level).cast("float64")
    design = [table[name] for name in survey.design.columns(survey.columns)]
    return Survey(table.select(*design, y=y, inside=inside, **columns), survey.design)


def _where(table: ir.Table) -> Any:
    return table["inside"]


def _wanted(query: Query, codebook: Codebook) -> str:
    if query.estimator == "difference":
        return "x_0"
    name = query.coefficient or ""
    place = query.predictors.index(name)
    levels = codebook[name].levels
    if query.coefficient_level is None or levels is None:
        return f"x_{place}"
    return f"x_{place}_{levels.index(query.coefficient_level)}"


def _columns(query: Query) -> list[str]:
    named = [query.variable, *query.predictors, query.denominator]
    named += [condition.column for condition in (*query.domain, *query.versus)]
    return [name for name in named if name is not None]


def _refuse_overlap(query: Query) -> None:
    """The standard error is a regression's, on which side of two disjoint domains one is."""
    others = {condition.column: set(condition.levels) for condition in query.versus}
    for condition in query.domain:
        if condition.column in others and not others[condition.column] & set(condition.levels):
            return
    raise _cannot("The two domains can overlap.")


def _cannot(reason: str) -> InvalidQuery:
    message = (
        f"The server cannot compute the synthetic estimate: {reason} Give `estimate` and `se`."
    )
    return InvalidQuery([Mistake(field="estimate", message=message)])
