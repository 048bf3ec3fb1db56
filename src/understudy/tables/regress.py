"""Regression coefficients with design-based standard errors (R survey's svyglm).

The coefficients solve sum w x (y - mu) = 0. Their variance is A^-1 V(sum z) A^-1 with
z = w x (y - mu) and A = X' W mu' X with mu' = 1 (gaussian), mu(1 - mu) (binomial, logit) or mu
(poisson, log): Taylor by strata and PSU, or the spread of the refitted replicates. Probit,
multinomial and ordered logit are in likelihoods.py. A text outcome of two levels counts its second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from understudy.errors import Refused, UnknownName
from understudy.survey.formula import formula_columns
from understudy.survey.survey import Survey
from understudy.tables.combine import RULES
from understudy.tables.combine import combine as combine_estimates
from understudy.tables.design_records import DesignRecords
from understudy.tables.domain import as_condition
from understudy.tables.likelihoods import LIKELIHOODS
from understudy.tables.noise_sets import check_conditions, stands_for, within_sets
from understudy.tables.replicates import replicate_covariance, replicate_degrees
from understudy.tables.variance_factor import variance_factor

__public__ = ("regress",)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Family = Literal["gaussian", "binomial", "poisson"]
FAMILIES: tuple[Family, ...] = get_args(Family)
AnyFamily = Literal["gaussian", "binomial", "poisson", "probit", "multinomial", "ordered"]
ANY_FAMILY: tuple[AnyFamily, ...] = get_args(AnyFamily)
MOST_LEVELS = 30  # of an outcome


@dataclass(frozen=True)
class RegressionFit:
    """Coefficients, their covariance, and residual degrees of freedom."""

    names: tuple[str, ...]
    coefficients: Floats  # (p,)
    covariance: Floats  # (p, p)
    df: float


def regress(
    survey: Survey | Sequence[Survey],
    formula: str,
    family: AnyFamily = "gaussian",
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
    if family not in ANY_FAMILY:
        raise UnknownName("family", family, ANY_FAMILY)
    if isinstance(survey, Survey):
        if combine not in (None, "none"):
            raise Refused("`combine` is for a list of surveys; this is one survey.")
        fit = fit_survey(survey, formula, family, where)
        variance = np.diag(fit.covariance)
        return _frame(fit.names, fit.coefficients, variance, np.full(len(variance), fit.df), level)
    if combine is None:
        combine = getattr(survey, "kind", None)  # an opened release knows its rule
    check_conditions(list(survey), ())
    fits = [fit_survey(dataset, formula, family, where) for dataset in survey]
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


def fit_survey(survey: Survey, formula: str, family: AnyFamily, where: Any = None) -> RegressionFit:
    """The regression of one survey."""
    design = survey.design
    names = _variables(formula, survey.columns)
    table = survey.table
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
    model = _model(survey, formula, family, records)
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
    if design.variance_weight is not None:
        covariance = fit_survey(survey.for_variances(), formula, family, where).covariance
    else:
        covariance = covariance * variance_factor(
            survey.declared, design, names, where, counts=False
        )
    share = stands_for(survey)  # a further file has the sampling error of the sample
    return RegressionFit(model.names, beta, covariance / share, df * share + 1 - model.predictors)


@dataclass(frozen=True)
class _Model:
    """What is fitted: coefficients under a weight, and each record's share in their error."""

    names: tuple[str, ...]
    predictors: int  # columns of the design matrix, the intercept among them
    solve: Callable[[Floats, Floats | None], Floats]
    influence: Callable[[Floats, Floats], Floats]


def _model(survey: Survey, formula: str, family: AnyFamily, records: pl.DataFrame) -> _Model:
    outcome = formula.partition("~")[0].strip().strip("`")
    listed = outcome in records.columns and not records[outcome].dtype.is_numeric()
    levels: Sequence[Any] = ()
    if family in ("multinomial", "ordered") or (listed and family in ("binomial", "probit")):
        y, levels = _coded(survey, outcome, family, records)
        formula = "~" + formula.partition("~")[2]
        X, terms = _design_matrix(formula, records)
    else:
        y, X, terms = _matrices(formula, records)
    if family in ("binomial", "probit") and (y.min() < 0 or y.max() > 1):
        raise Refused(f'The outcome of family="{family}" must be 0 or 1; recode it.')
    if family == "poisson" and y.min() < 0:
        raise Refused('The outcome of family="poisson" must be a count, 0 or more; recode it.')
    if np.linalg.matrix_rank(X) < X.shape[1]:
        raise Refused("The predictors are collinear; leave one of them out of the formula.")
    if family not in LIKELIHOODS:
        simple: Family = family  # type: ignore[assignment]
        return _Model(
            terms,
            X.shape[1],
            lambda w, start: solve(y, X, w, simple, start),
            lambda w, beta: _influence(y, X, w, beta, simple),
        )
    kind, columns = LIKELIHOODS[family], X.shape[1]
    if not kind.intercept and "Intercept" in terms:
        keep = [k for k, term in enumerate(terms) if term != "Intercept"]
        X, terms = X[:, keep], tuple(terms[k] for k in keep)
    if family == "probit" and np.any((y != 0) & (y != 1)):
        raise Refused('The outcome of family="probit" must be 0 or 1; recode it.')
    likelihood = kind(y.astype(np.int64), X, max(len(levels), 2))

    def influence(w: Floats, beta: Floats) -> Floats:
        bread = likelihood.information(beta, w)
        return np.asarray(np.linalg.solve(bread, (likelihood.scores(beta) * w[:, None]).T).T)

    names = kind.names(terms, [str(level) for level in levels])
    return _Model(names, columns, likelihood.solve, influence)


def _coded(
    survey: Survey, outcome: str, family: str, records: pl.DataFrame
) -> tuple[Floats, list[Any]]:
    """The number of each record's level, and the levels that occur, in their order."""
    if outcome not in records.columns:
        raise Refused(f'The outcome of family="{family}" must be a column; compute it first.')
    values = records[outcome]
    book = survey.declared
    declared = book[outcome].levels if outcome in book else None
    present = values.unique().to_list()
    if declared is None and family == "ordered" and values.dtype == pl.String:
        raise Refused(
            f"The order of `{outcome}` is not known; list its levels in the codebook, from the "
            "lowest to the highest."
        )
    order = sorted(present) if declared is None else [v for v in declared if v in present]
    most = 2 if family in ("binomial", "probit") else MOST_LEVELS
    if not 2 <= len(order) <= most:
        raise Refused(
            f'The outcome of family="{family}" has 2{"" if most == 2 else f" to {most}"} levels, '
            f"and `{outcome}` has {len(order)} here."
        )
    number = {level: k for k, level in enumerate(order)}
    return np.array([number[value] for value in values], dtype=np.float64), order


def solve(y: Floats, X: Floats, w: Floats, family: Family, start: Floats | None = None) -> Floats:
    """Weighted least squares, or Newton's method for the weighted likelihood."""
    if family == "gaussian":
        root = np.sqrt(w)[:, None]
        return np.asarray(np.linalg.lstsq(X * root, y * root[:, 0], rcond=None)[0])
    w = w / w.mean()
    beta = _start(y, X, w, family) if start is None else start.copy()
    for _ in range(60):
        mu, slope = mean_and_slope(X @ beta, family)
        hessian = (X * (w * slope)[:, None]).T @ X
        step = np.linalg.lstsq(hessian, X.T @ (w * (y - mu)), rcond=None)[0]
        beta = beta + step * min(1.0, 5.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-10 * (1 + np.abs(beta).max()):
            return np.asarray(beta)
    kind = "logistic" if family == "binomial" else "Poisson"
    raise Refused(
        f"The {kind} regression does not converge (a predictor separates the outcome); "
        "leave that predictor out or merge its levels."
    )


def mean_and_slope(linear: Floats, family: Family) -> tuple[Floats, Floats]:
    """mu and its derivative at a linear predictor, with the canonical link."""
    if family == "gaussian":
        return linear, np.ones_like(linear)
    if family == "binomial":
        mu = special.expit(linear)
        return mu, mu * (1 - mu)
    mu = np.exp(np.clip(linear, -700.0, 700.0))
    return mu, mu


def _start(y: Floats, X: Floats, w: Floats, family: Family) -> Floats:
    """Newton's method overshoots for counts: there it starts from a regression of log(y + 1/2)."""
    if family == "poisson":
        return solve(np.log(y + 0.5), X, w, "gaussian")
    return np.zeros(X.shape[1])


def _influence(y: Floats, X: Floats, w: Floats, beta: Floats, family: Family) -> Floats:
    """Rows A^-1 x w (y - mu): each record's share in the coefficients' error."""
    mu, slope = mean_and_slope(X @ beta, family)
    bread = (X * (w * slope)[:, None]).T @ X
    return np.asarray(np.linalg.solve(bread, (X * (w * (y - mu))[:, None]).T).T)


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
    except (FormulaicError, ValueError, TypeError, KeyError) as error:
        first = str(error).splitlines()[0] if str(error) else "it is not understood"
        raise Refused(f"The formula `{formula}` cannot be used: {first}") from None
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
    half = special.stdtrit(degrees, 0.5 + level / 2) * se
    t = value / se
    p = 2 * special.stdtr(degrees, -np.abs(t))
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
