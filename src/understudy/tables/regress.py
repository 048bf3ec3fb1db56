"""Regression coefficients with design-based standard errors (R survey's svyglm).

The coefficients solve sum w x (y - mu) = 0. Their variance is A^-1 V(sum z) A^-1 with
z = w x (y - mu) and A = X' W mu' X (mu and mu' are in families/*.py): Taylor by strata and PSU, or
the spread of the refitted replicates. A text outcome of two levels counts its second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import scipy
from numpy.typing import NDArray

from understudy.errors import Refused, UnknownName
from understudy.survey.formula import formula_columns
from understudy.survey.survey import Survey, refuse_unusable
from understudy.tables.combine import RULES
from understudy.tables.combine import combine as combine_estimates
from understudy.tables.computation import computation
from understudy.tables.design_records import DesignRecords
from understudy.tables.domain import as_condition
from understudy.tables.families import FamilyName
from understudy.tables.family import Family, FamilyFit, Outcome, family_named
from understudy.tables.noise_sets import check_conditions, stands_for, within_sets
from understudy.tables.replicates import replicate_covariance, replicate_degrees
from understudy.tables.student_t import t_quantile
from understudy.tables.variance_factor import variance_factor

__public__ = ("regress",)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_LEVELS = 30  # of an outcome
TWO_LEVELS: tuple[Outcome, ...] = ("share", "binary")  # 0 and 1, or a text of two levels
LEVELS: tuple[Outcome, ...] = ("levels", "ordered")  # numbered in their order


@dataclass(frozen=True)
class RegressionFit:
    """Coefficients, their covariance, and residual degrees of freedom."""

    names: tuple[str, ...]
    coefficients: Floats  # (p,)
    covariance: Floats  # (p, p)
    df: float


@computation()
def regress(
    survey: Survey | Sequence[Survey],
    formula: str,
    family: FamilyName = "gaussian",
    combine: str | None = None,
    where: Any = None,
    level: float = 0.95,
) -> pl.DataFrame:
    """Coefficients: term, estimate, se, df, lower, upper, t, p (two-sided).

    `family` is "gaussian", "binomial" (logit), "probit", "poisson" (log), "multinomial" (logits
    against the first level) or "ordered" (cumulative logit, with thresholds `low|mid`). Levels of
    an outcome stand in the order of the codebook, numbers and texts without one in their own.
    A list of surveys needs `combine`: "partial" or "full" for synthetic ones, "imputed" for
    implicates of one survey. Records with a missing variable are left out of the fit but stay in
    the design.
    """
    chosen = family_named(family, Family)
    if isinstance(survey, Survey):
        if combine not in (None, "none"):
            raise Refused("`combine` is for a list of surveys; this is one survey.")
        fit = fit_survey(survey, formula, chosen, where)
        variance = np.diag(fit.covariance)
        return _frame(fit.names, fit.coefficients, variance, np.full(len(variance), fit.df), level)
    if combine is None:
        combine = getattr(survey, "kind", None)  # an opened release knows its rule
    check_conditions(list(survey), ())
    fits = [fit_survey(dataset, formula, chosen, where) for dataset in survey]
    if not fits:
        raise Refused("Give one Survey, or a list with at least one Survey.")
    if combine not in RULES:
        rules = ", ".join(f"combine='{rule}'" for rule in RULES)
        raise Refused(f"Several data sets need a combining rule: {rules}.")
    if any(fit.names != fits[0].names for fit in fits):
        raise Refused(
            "The data sets lead to different terms (a level is absent from one of them); "
            "merge rare levels or leave the term out."
        )
    combined = combine_estimates(
        within_sets(list(survey), np.array([fit.coefficients for fit in fits])),
        within_sets(list(survey), np.array([np.diag(fit.covariance) for fit in fits])),
        min(fit.df for fit in fits),
        combine,
    )
    table = _frame(fits[0].names, combined.value, combined.variance, combined.df, level)
    return table.with_columns(pl.Series("note", combined.note))


@computation()
def fit_survey(survey: Survey, formula: str, family: Family, where: Any = None) -> RegressionFit:
    """The regression of one survey."""
    survey.refuse_on_cluster("A regression")
    design = survey.design
    names = _variables(formula, survey.columns)
    table = survey.table
    refuse_unusable(table, names)
    inside = as_condition(where, table)
    selected = table.select(list(dict.fromkeys([*names, *design.columns(survey.columns)])))
    if inside is not None:
        selected = table.mutate(**{"__inside": inside}).select(*selected.columns, "__inside")
    frame = selected.to_polars()
    used = np.ones(frame.height, dtype=bool)
    for name in names:
        column = frame[name]
        used &= ~column.is_null().to_numpy()
        if column.dtype.is_float():
            used &= ~column.is_nan().fill_null(True).to_numpy()
    if inside is not None:
        used &= frame["__inside"].to_numpy()
    if not used.any():
        raise Refused("No record has all variables of the formula inside the domain.")
    records = frame.filter(pl.Series(used)).select(names)
    model = _fitted(survey, formula, family, records)
    weight = np.ones(frame.height) if design.weight is None else _floats(frame, design.weight)
    beta = model.solve(weight[used], None)
    if design.replicates is not None and design.weight is not None:
        columns = design.replicates.matching(survey.columns, design.weight)
        df = replicate_degrees(survey, columns)  # refuses weights that are not numbers
        replicated = np.column_stack(
            [model.solve(_floats(frame, name)[used], beta) for name in columns]
        )
        covariance = replicate_covariance(beta, replicated, design.replicates)
    else:
        sampled = DesignRecords(survey)
        influence = np.zeros((frame.height, len(beta)))
        influence[used] = model.influence(weight[used], beta)
        covariance, df = sampled.covariance(influence), sampled.df
    outcome = formula_columns(formula.partition("~")[0])
    factor = variance_factor(
        survey.declared, design, names, outcome, where, counts=False, adds_up=False
    )
    if design.variance_weight is not None:
        covariance = fit_survey(survey.for_variances(), formula, family, where).covariance
    else:
        covariance = covariance * factor.most
    share = stands_for(survey)  # a further file has the sampling error of the sample
    degrees = factor.degrees_of_most(df * share + 1 - model.predictors)
    return RegressionFit(model.names, beta, covariance / share, degrees)


def _fitted(survey: Survey, formula: str, family: Family, records: pl.DataFrame) -> FamilyFit:
    outcome = formula.partition("~")[0].strip().strip("`")
    listed = outcome in records.columns and not records[outcome].dtype.is_numeric()
    levels: Sequence[Any] = ()
    if family.outcome in LEVELS or (listed and family.outcome in TWO_LEVELS):
        y, levels = _coded(survey, outcome, family, records)
        formula = "~" + formula.partition("~")[2]
        X, terms = _design_matrix(formula, records)
    else:
        y, X, terms = _matrices(formula, records)
    if family.outcome in TWO_LEVELS and (y.min() < 0 or y.max() > 1):
        raise Refused(f'The outcome of family="{family.name}" must be 0 or 1; recode it.')
    if family.outcome == "count" and y.min() < 0:
        raise Refused(
            f'The outcome of family="{family.name}" must be a count, 0 or more; recode it.'
        )
    if np.linalg.matrix_rank(X) < X.shape[1]:
        raise Refused("The predictors are collinear; leave one of them out of the formula.")
    if family.outcome == "binary" and np.any((y != 0) & (y != 1)):
        raise Refused(f'The outcome of family="{family.name}" must be 0 or 1; recode it.')
    return family.fit(y, X, terms, [str(level) for level in levels])


def _coded(
    survey: Survey, outcome: str, family: Family, records: pl.DataFrame
) -> tuple[Floats, list[Any]]:
    """The number of each record's level, and the levels that occur, in their order."""
    if outcome not in records.columns:
        raise Refused(f'The outcome of family="{family.name}" must be a column; compute it first.')
    values = records[outcome]
    book = survey.declared
    declared = book[outcome].levels if outcome in book else None
    present = values.unique().to_list()
    if declared is None and family.outcome == "ordered" and values.dtype == pl.String:
        raise Refused(
            f"The order of `{outcome}` is not known; list its levels in the codebook, from the "
            "lowest to the highest."
        )
    order = sorted(present) if declared is None else [v for v in declared if v in present]
    most = 2 if family.outcome in TWO_LEVELS else MOST_LEVELS
    if not 2 <= len(order) <= most:
        fitting = "2" if most == 2 else f"2 to {most}"
        raise Refused(
            f'The outcome of family="{family.name}" has {fitting} levels, '
            f"and `{outcome}` has {len(order)} here."
        )
    number = {level: k for k, level in enumerate(order)}
    return np.array([number[value] for value in values], dtype=np.float64), order


def _matrices(formula: str, frame: pl.DataFrame) -> tuple[Floats, Floats, tuple[str, ...]]:
    """Outcome, design matrix and term names; categorical levels in sorted order."""
    both = _model_matrix(formula, frame)
    if not hasattr(both, "lhs") or both.lhs.shape[1] != 1:
        raise Refused(
            f"The formula `{formula}` needs one numeric outcome on the left, "
            'as in "log(income) ~ age + region".'
        )
    y = np.asarray(both.lhs, dtype=np.float64)[:, 0]
    return _finite(formula, y), *_columns(formula, both.rhs)


def _design_matrix(formula: str, frame: pl.DataFrame) -> tuple[Floats, tuple[str, ...]]:
    return _columns(formula, _model_matrix(formula, frame))


def _columns(formula: str, matrix: Any) -> tuple[Floats, tuple[str, ...]]:
    return _finite(formula, np.asarray(matrix, dtype=np.float64)), tuple(matrix.columns)


def _model_matrix(formula: str, frame: pl.DataFrame) -> Any:
    from formulaic import Formula  # with pandas: loaded where there is a formula
    from formulaic.errors import FormulaicError

    try:
        with np.errstate(all="ignore"):
            both = Formula(formula).get_model_matrix(frame.to_pandas(), na_action="ignore")
    except (FormulaicError, ValueError, TypeError, KeyError):  # the texts may quote values
        raise Refused(
            f"The formula `{formula}` cannot be used with these columns; compute with numbers, "
            "and write C(...) around a category."
        ) from None
    if "|" in formula and isinstance(getattr(both, "rhs", None), tuple):
        raise Refused(f"`|` has no meaning in `{formula}`; write `+` between two predictors.")
    return both


def _finite(formula: str, array: Floats) -> Floats:
    if not np.isfinite(array).all():
        raise Refused(
            f"A transform in `{formula}` gives values that are not finite (a log of zero?); "
            "restrict the records with `where` or change the transform."
        )
    return array


def _variables(formula: str, columns: Sequence[str]) -> list[str]:
    """Columns that the formula needs, checked before any data is read."""
    needed = formula_columns(formula)
    for name in needed:
        if name not in columns:
            raise UnknownName("column in the formula", name, columns)
    return needed


def _floats(frame: pl.DataFrame, name: str) -> Floats:
    return frame[name].cast(pl.Float64).to_numpy()


def _frame(
    names: tuple[str, ...], value: Floats, variance: Floats, df: Floats, level: float
) -> pl.DataFrame:
    se = np.sqrt(variance)
    degrees = np.where(df > 0, df, np.nan)
    half = t_quantile(degrees, 0.5 + level / 2) * se
    t = value / se
    p = 2 * scipy.special.stdtr(degrees, -np.abs(t))
    numbers = {
        "estimate": value,
        "se": se,
        "df": df,
        "lower": value - half,
        "upper": value + half,
        "t": t,
        "p": p,
    }
    columns = [pl.Series(name, array).fill_nan(None) for name, array in numbers.items()]
    return pl.DataFrame([pl.Series("term", list(names)), *columns])
