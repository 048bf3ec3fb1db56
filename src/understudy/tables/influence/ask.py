"""From what a user writes to questions: statistics, tables of them, and regressions.

Levels come from the codebook or from the synthetic files, which are public; never from the
confidential file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ibis.expr.types as ir
import polars as pl

from understudy.errors import Refused, UnknownName
from understudy.survey.survey import Survey
from understudy.tables.domain import as_condition
from understudy.tables.families import LinkFamilyName
from understudy.tables.family import LinkFamily, family_named
from understudy.tables.influence.equations.regression import RegressionEquation
from understudy.tables.influence.question import ColumnsOf, InfluenceQuestion, InsideOf, everyone
from understudy.tables.numbers import as_float
from understudy.tables.statistic import Statistic, parse_statistic

__public__ = ("questions_of as influence_questions",)

PLAIN = "write plain columns, as in income ~ age + region, and make transformed columns first"


def questions_of(
    statistics: str | Statistic | Sequence[str | Statistic],
    surveys: Sequence[Survey],
    by: str | Sequence[str] = (),
    where: Any = None,
    family: LinkFamilyName = "gaussian",
    any_file: bool = False,
) -> list[InfluenceQuestion]:
    """One question per statistic and cell; the columns must be in all surveys, and the cells, but
    with `any_file` those of sums, which are 0 where a file has no record."""
    asked = [statistics] if isinstance(statistics, (str, Statistic)) else list(statistics)
    if not asked:
        raise Refused('Name at least one statistic, such as "mean(y)".')
    columns = [name for name in surveys[0].columns if all(name in s.columns for s in surveys)]
    single = [_single(statistic, surveys, columns, family) for statistic in asked]
    names = [by] if isinstance(by, str) else list(by)
    for name in names:
        if name not in columns:
            raise UnknownName("column", name, columns)
    if not names:
        return [_inside(question, _domain(where)) for question in single]
    return [
        _inside(question, _domain(where, dict(zip(names, cell, strict=True))), cell)
        for question in single
        for cell in _cells(surveys, names, where, any_file and question.equation.everyone)
    ]


def _single(
    statistic: str | Statistic,
    surveys: Sequence[Survey],
    columns: Sequence[str],
    family: LinkFamilyName,
) -> InfluenceQuestion:
    if isinstance(statistic, str) and "~" in statistic:
        return regression_question(statistic, surveys, columns, family)
    parsed = parse_statistic(statistic, columns)
    question = parsed.influence_question()
    if question is None:
        raise Refused(f"`{parsed.text}` has no estimating equation; verify another statistic.")
    return question


def regression_question(
    formula: str, surveys: Sequence[Survey], columns: Sequence[str], family: LinkFamilyName
) -> InfluenceQuestion:
    """All coefficients of a regression on plain columns; text columns by their public levels."""
    chosen = family_named(family, LinkFamily)
    left, _, right = formula.partition("~")
    outcome, *predictors = (part.strip().strip("`") for part in (left, *right.split("+")))
    for name in (outcome, *predictors):
        if name not in columns:
            if not name.isidentifier():
                raise Refused(f"`{name}` in `{formula}` is not a column; {PLAIN}.")
            raise UnknownName("column", name, columns)
    makers, names = [], ["Intercept"]
    for name in predictors:
        if not surveys[0].table[name].type().is_string():
            makers.append((name, None))
            names.append(name)
            continue
        for level in _levels(surveys, name)[1:]:
            makers.append((name, level))
            names.append(f"{name}[T.{level}]")

    def made(table: ir.Table) -> dict[str, Any]:
        every = {"y": as_float(table[outcome])}
        for number, (name, level) in enumerate(makers):
            value = table[name] if level is None else (table[name] == level).cast("float64")
            every[f"x{number}"] = as_float(value)
        return every

    equation = RegressionEquation(chosen, len(makers), tuple(range(len(names))))
    return InfluenceQuestion(equation, made, names=tuple(names))


def _levels(surveys: Sequence[Survey], name: str) -> list[Any]:
    """Declared in the codebook, or seen in the (public) synthetic files."""
    book = surveys[0].codebook
    if name in book and book[name].declared("levels"):
        return list(book[name].levels or ())
    seen = pl.concat([survey.frame([name]) for survey in surveys])[name]
    return list(seen.drop_nulls().unique().sort())


def _cells(
    surveys: Sequence[Survey], names: Sequence[str], where: Any, any_file: bool
) -> list[tuple[Any, ...]]:
    """The cells that all synthetic files have, or one of them."""
    of_files: list[set[tuple[Any, ...]]] = []
    for survey in surveys:
        table = survey.table.filter(_domain(where)(survey.table)).select(list(names)).drop_null()
        of_files.append(set(table.distinct().to_polars().rows()))
    cells = set.union(*of_files) if any_file else set.intersection(*of_files)
    return sorted(cells, key=lambda cell: tuple(map(str, cell)))


def _domain(where: Any, cell: dict[str, Any] | None = None) -> InsideOf:
    def inside(table: ir.Table) -> Any:
        condition = as_condition(where, table)
        parts = [] if condition is None else [condition]
        parts += [(table[n] == level).fill_null(False) for n, level in (cell or {}).items()]
        whole: Any = everyone(table)
        for part in parts:
            whole = whole & part
        return whole

    return inside


def _inside(
    question: InfluenceQuestion, inside: InsideOf, cell: tuple[Any, ...] = ()
) -> InfluenceQuestion:
    columns: ColumnsOf = question.columns
    label = f" [{', '.join(map(str, cell))}]" if cell else ""
    names = tuple(f"{name}{label}" for name in question.names)
    return InfluenceQuestion(question.equation, columns, inside, names, cell)
