"""Differences and other contrasts between the cells of a table, with their covariance.

    contrast   sum_c k_c theta_c     variance   k' V k

V is the covariance of the cells' estimates: of their linearised values by strata and PSU, or of
the replicated estimates (R survey's svyby with covmat = TRUE, and svycontrast). Cells of one table
share PSUs, so the variance of a difference is not the sum of two variances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import scipy
from numpy.typing import NDArray

from understudy.errors import Refused, UnknownName
from understudy.survey.survey import Survey
from understudy.tables.collect import collect
from understudy.tables.combine import RULES
from understudy.tables.combine import combine as combine_estimates
from understudy.tables.computation import computation
from understudy.tables.domain import as_condition
from understudy.tables.noise_sets import check_conditions, stands_for, within_sets
from understudy.tables.statistic import Cells, LinearStatistic, Statistic, parse_statistic
from understudy.tables.student_t import t_quantile

__public__ = ("contrast", "t_test")

Floats = NDArray[np.float64]
MOST = 12  # cells whose differences are all shown


@dataclass(frozen=True)
class JointEstimates:
    """One statistic in the cells of a table."""

    keys: tuple[str, ...]  # a cell's levels, joined by " / "
    value: Floats  # (cells,)
    covariance: Floats  # (cells, cells)
    df: float


@computation()
def contrast(
    survey: Survey | Sequence[Survey],
    statistic: str | Statistic,
    by: str | Sequence[str],
    contrasts: Mapping[str, Mapping[Any, float]] | None = None,
    where: Any = None,
    combine: str | None = None,
    level: float = 0.95,
) -> pl.DataFrame:
    """Contrasts of a statistic between cells: contrast, estimate, se, df, lower, upper, t, p.

    `contrasts` names each with its coefficients by level ({"F - M": {"F": 1, "M": -1}}; levels of
    several by-columns are joined, "F / north"). Without it all differences of two cells are shown.
    A list of surveys needs `combine`, as in `tabulate`.
    """
    names = [by] if isinstance(by, str) else list(by)
    surveys, rule = _as_list(survey, combine)
    cells = [joint_estimates(each, statistic, names, where) for each in surveys]
    if any(each.keys != cells[0].keys for each in cells):
        raise Refused("A cell has no records in one of the data sets; merge rare levels.")
    wanted = contrasts or all_differences(cells[0].keys)
    k = coefficients(wanted, cells[0].keys)
    values = np.array([k @ each.value for each in cells])
    variances = np.array([np.einsum("ij,jk,ik->i", k, each.covariance, k) for each in cells])
    df = np.full(len(k), min(each.df for each in cells))
    if rule is not None:
        check_conditions(surveys, ())
        sets = within_sets(surveys, values), within_sets(surveys, variances)
        combined = combine_estimates(*sets, df, rule)
        return _frame(tuple(wanted), combined.value, combined.variance, combined.df, level)
    return _frame(tuple(wanted), values[0], variances[0], df, level)


@computation()
def t_test(
    survey: Survey, x: str, by: str | None = None, equals: float = 0.0, where: Any = None,
    level: float = 0.95,
) -> pl.DataFrame:  # fmt: skip
    """Whether two means differ, or whether one is `equals`: a row as of `contrast`.

    With `by`, a column of two levels, the mean of x at the second level minus that at the first;
    one degree of freedom is spent on the second mean (R survey's svyttest).
    """
    if not isinstance(survey, Survey):
        raise Refused("A t test is for one survey; use `contrast` with `combine` for several.")
    cells = joint_estimates(survey, f"mean({x})", [] if by is None else [by], where)
    if by is None:
        name, k, df = f"mean({x}) - {equals:g}", np.ones((1, 1)), cells.df
    elif len(cells.keys) == 2:
        name, k, df = f"{cells.keys[1]} - {cells.keys[0]}", np.array([[-1.0, 1.0]]), cells.df - 1
    else:
        raise Refused(f"A t test compares two groups, and `{by}` has {len(cells.keys)} levels.")
    value = k @ cells.value - (equals if by is None else 0.0)
    return _frame((name,), value, np.diag(k @ cells.covariance @ k.T), np.array([df]), level)


def joint_estimates(
    survey: Survey, statistic: str | Statistic, by: Sequence[str], where: Any
) -> JointEstimates:
    """One statistic in all cells, with the covariance of its estimates."""
    for name in by:
        if name not in survey.columns:
            raise UnknownName("by-variable", name, survey.columns)
    parsed = parse_statistic(statistic, survey.columns).spread_out(survey)
    if len(parsed) != 1:
        raise Refused("Contrasts are of one statistic at a time; name one level or probability.")
    check_conditions([survey], [each.text for each in parsed if each.adds_up])
    inside = as_condition(where, survey.table)
    linear = [each for each in parsed if isinstance(each, LinearStatistic)]
    sums = collect(
        survey,
        [each.linear(survey.table) for each in linear],
        [survey.table[name] for name in by],
        inside,
        by_records=survey.design.replicates is None,
    )
    df = sums.degrees(survey)
    kept = tuple(range(len(by)))
    domain, levels = sums.cells(kept)
    if by:  # records without a level belong to no cell
        known = pl.Series(levels.with_row_index("cell").drop_nulls()["cell"]).to_numpy()
        renumbered = np.full(levels.height + 1, -1)
        renumbered[known] = np.arange(len(known))
        domain, levels = renumbered[domain], levels.drop_nulls()
        if levels.is_empty():
            raise Refused("No record of the domain has a level of the by-variables.")
    cells = Cells(survey, parsed, by, kept, levels, inside, sums, linear, domain, df, 0.95)
    value, covariance = parsed[0].joint(cells)
    keys = tuple(" / ".join(str(level) for level in row) for row in levels.rows()) if by else ("",)
    share = stands_for(survey)  # a further file has the sampling error of the sample
    return JointEstimates(keys, value, covariance / share, df * share)


def all_differences(keys: Sequence[str]) -> dict[str, dict[str, float]]:
    if len(keys) < 2:
        raise Refused("A difference needs two cells; name a by-variable with two levels.")
    if len(keys) > MOST:
        raise Refused(f"There are {len(keys)} cells; name the contrasts that you want.")
    return {f"{b} - {a}": {b: 1.0, a: -1.0} for a, b in combinations(keys, 2)}


def coefficients(wanted: Mapping[str, Mapping[Any, float]], keys: Sequence[str]) -> Floats:
    """(contrasts, cells)"""
    k = np.zeros((len(wanted), len(keys)))
    for row, parts in enumerate(wanted.values()):
        for cell, factor in parts.items():
            name = " / ".join(map(str, cell)) if isinstance(cell, tuple) else str(cell)
            if name not in keys:
                raise UnknownName("cell of a contrast", name, keys)
            k[row, keys.index(name)] = factor
    return k


def _as_list(
    survey: Survey | Sequence[Survey], combine: str | None
) -> tuple[list[Survey], str | None]:
    if isinstance(survey, Survey):
        if combine is not None:
            raise Refused("`combine` is for a list of surveys; this is one survey.")
        return [survey], None
    rule = combine or getattr(survey, "kind", None)  # an opened release knows its rule
    surveys = list(survey)
    if not surveys or rule not in RULES:
        rules = ", ".join(f"combine='{each}'" for each in RULES)
        raise Refused(f"Several data sets need a combining rule: {rules}.")
    return surveys, rule


def _frame(
    names: tuple[str, ...], value: Floats, variance: Floats, df: Floats, level: float
) -> pl.DataFrame:
    if not 0 < level < 1:
        raise Refused("The confidence `level` must be between 0 and 1.")
    se, degrees = np.sqrt(np.maximum(variance, 0.0)), np.where(df > 0, df, np.nan)
    half = t_quantile(degrees, 0.5 + level / 2) * se
    with np.errstate(divide="ignore", invalid="ignore"):
        t = value / se
    numbers = {
        "estimate": value, "se": se, "df": df, "lower": value - half, "upper": value + half,
        "t": t, "p": 2 * scipy.special.stdtr(degrees, -np.abs(t)),
    }  # fmt: skip
    columns = [pl.Series(name, array).fill_nan(None) for name, array in numbers.items()]
    return pl.DataFrame([pl.Series("contrast", list(names)), *columns])
