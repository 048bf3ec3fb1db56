"""The design matrix of a formula over public columns (formulaic).

Categories are the codebook's levels, so that the columns of X do not depend on which levels
happen to occur, and a reference survey is coded like the confidential one. Numeric columns are
standardised by the mean and standard deviation of the public column in the survey that decides
the coding; they are public, like the column itself. Splines are formulaic's, with knots that the
formula declares: `bs(age, knots=[30, 50], lower_bound=16, upper_bound=90)`, or a natural one as
`cr(age, knots=[30, 50], constraints="center")`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from formulaic import Formula
from formulaic.errors import DataMismatchWarning, FormulaicError
from formulaic.transforms import TRANSFORMS
from numpy.typing import NDArray

from understudy.errors import Refused, UnknownName
from understudy.survey.codebook import Value
from understudy.survey.formula import formula_columns
from understudy.survey.predictor_cells import PredictorCells
from understudy.survey.survey import Survey

Matrix = NDArray[np.float64]
FROM_ALL_RECORDS = (
    "A term of `{predictors}` is computed from all records (a spline, `scale`, `poly`), which stay "
    "where they are; write classes or powers of the column instead."
)
ADDS_UP = 1e-9  # the columns of a spline that is not centred add up to 1 but for rounding


def design_matrix(
    survey: Survey, predictors: str, sensitive: Sequence[str], like: Survey | None = None
) -> Matrix:
    """X, shape (records, columns), the intercept first; coded and scaled as in `like`, which may
    be the cells of a survey that stays where it is."""
    like = like or survey
    formula, names = _formula(predictors)
    for name in names:
        if name not in survey.columns:
            raise UnknownName("predictor column", name, survey.columns)
        if name in sensitive or _declared_sensitive(like, name):
            raise Refused(
                f"The predictor `{name}` is sensitive; predictors must be public columns."
            )
    own = _frame(like, names, like)
    frame = own if survey is like else _frame(survey, names, like)
    try:
        with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
            warnings.simplefilter("error", DataMismatchWarning)
            coded = formula.get_model_matrix(own)
            matrix = coded.model_spec.get_model_matrix(frame)
    except DataMismatchWarning:
        raise Refused(
            f"The formula `{predictors}` meets levels that the confidential survey does not have; "
            "both surveys need the same levels."
        ) from None
    except (FormulaicError, ValueError, TypeError) as error:
        raise Refused(f"The formula `{predictors}` cannot be evaluated: {error}.") from None
    columns = list(coded.columns)
    if columns[0] != "Intercept":
        raise Refused("The predictors need an intercept; leave out `0 +` or `- 1`.")
    base = np.asarray(coded, dtype=np.float64)
    if not len(base):
        raise Refused("No record has a value of every predictor; leave out those that are missing.")
    finite = np.atleast_1d(np.isfinite(base).all(axis=0))
    infinite = [c for c, known in zip(columns, finite, strict=True) if not known]
    if infinite:
        raise Refused(
            f"The predictor `{infinite[0]}` is not finite for some records, as the logarithm of 0 "
            "is not; shift the column by a public constant first, or leave these records out."
        )
    counts = like.counts if isinstance(like, PredictorCells) else None
    if counts is not None and coded.model_spec.transform_state:
        raise Refused(FROM_ALL_RECORDS.format(predictors=predictors))
    centre, spread = _standard(base, counts)
    constant = [c for c, s in zip(columns[1:], spread[1:], strict=True) if s == 0]
    constant += [str(term) for term, places in coded.model_spec.term_indices.items() if not places]
    constant += [name for name in names if _is_one_level(own[name])]
    if constant:
        raise Refused(f"The predictor `{constant[0]}` is constant; leave it out of the formula.")
    for term, places in coded.model_spec.term_indices.items():
        if len(places) > 1 and np.ptp(base[:, places].sum(axis=1)) < ADDS_UP:
            centred = f'{str(term).removesuffix(")")}, constraints="center")'
            raise Refused(f"The columns of `{term}` add up to the intercept; write `{centred}`.")
    return np.asarray((np.asarray(matrix, dtype=np.float64) - centre) / spread)


def looks_at_all_records(predictors: str) -> bool:
    """Whether a term is computed from all records: a spline, `scale`, `poly`."""
    formula, _ = _formula(predictors)
    parts = [factor.expr for term in formula for factor in term.factors]
    called = {name for part in parts for name in re.findall(r"(\w+)\s*\(", part)}
    return any(
        name == "lag" or getattr(TRANSFORMS.get(name), "__is_stateful_transform__", False)
        for name in called - {"Q"}  # which quotes a name
    )


def _is_one_level(values: pd.Series[Any]) -> bool:
    return isinstance(values.dtype, pd.CategoricalDtype) and values.nunique() == 1


def _standard(matrix: Matrix, counts: NDArray[np.int64] | None) -> tuple[Matrix, Matrix]:
    """Centre and spread of each column, each row as often as it counts; 0 and 1 for the intercept
    and for 0/1 columns."""
    binary = np.isin(matrix, (0.0, 1.0)).all(axis=0)
    mean = np.average(matrix, axis=0, weights=counts)
    spread = np.sqrt(np.average(np.square(matrix - mean), axis=0, weights=counts))
    return np.where(binary, 0.0, mean), np.where(binary, 1.0, spread)


def _formula(predictors: str) -> tuple[Any, list[str]]:
    if not isinstance(predictors, str) or not predictors.strip() or "~" in predictors:
        raise Refused(
            '`predictors` must be the right-hand side of a formula, such as "gender + age".'
        )
    try:
        formula = Formula(predictors)
    except (FormulaicError, ValueError) as error:
        raise Refused(f"`{predictors}` is not a formula: {error}.") from None
    return formula, formula_columns(predictors)


def _frame(survey: Survey, names: list[str], like: Survey) -> pd.DataFrame:
    if not names:  # an intercept alone
        return pd.DataFrame(index=range(survey.n))
    frame = survey.frame(names)
    columns: dict[str, Any] = {}
    for name in names:
        values = frame[name]
        if values.null_count() or (values.dtype.is_float() and values.is_nan().any()):
            raise Refused(
                f"The predictor `{name}` has missing values; impute it or drop those records first."
            )
        levels = _levels(like, name, values)
        if levels is None:
            columns[name] = values.cast(pl.Float64).to_numpy()
            continue
        coded = pd.Categorical(values.to_list(), categories=list(levels))
        if (coded.codes < 0).any():
            raise Refused(
                f"The predictor `{name}` has levels that the confidential survey does not have; "
                "both surveys need the same levels."
            )
        columns[name] = coded
    return pd.DataFrame(columns)


def _levels(like: Survey, name: str, values: pl.Series) -> list[Value] | None:
    """The categories of a predictor, or None for a number."""
    column = like.codebook.columns.get(name)
    declared = column is not None and column.type == "categorical" and column.declared("type")
    if values.dtype.is_numeric() and not declared:
        return None  # write C(name) in the formula for codes that are not declared
    if column is not None and column.levels:
        return list(column.levels)
    return list(like.frame([name])[name].drop_nulls().unique().sort().to_list())


def _declared_sensitive(survey: Survey, name: str) -> bool:
    column = survey.codebook.columns.get(name)
    return column is not None and column.role == "sensitive" and column.declared("role")


def whitening(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lower triangular L with X'X/n = L'L, so that X beta = (X L^-1)(L beta)."""
    moments = X.T @ X / len(X)
    if np.linalg.matrix_rank(moments) < len(moments):
        raise Refused(
            "The predictors are collinear (one column follows from others); leave one out."
        )
    # Cholesky of the reversed matrix, reversed: the factor on the right is lower triangular
    return np.ascontiguousarray(np.linalg.cholesky(moments[::-1, ::-1])[::-1, ::-1].T)
