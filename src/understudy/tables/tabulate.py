"""Tables with design-based standard errors: `tabulate(survey, ["count", "mean(y)"], by=["a"])`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from understudy.errors import Refused, UnknownName
from understudy.survey.survey import Survey
from understudy.tables.collect import collect, replicate_degrees
from understudy.tables.combine import RULES
from understudy.tables.combine import combine as combine_estimates
from understudy.tables.domain import as_condition
from understudy.tables.linear import domain_estimates, linear_form
from understudy.tables.quantile import QuantileEstimates, quantile_estimates
from understudy.tables.statistics import Statistic, parse_statistic
from understudy.tables.taylor import DomainEstimates

__public__ = ("tabulate",)

Floats = NDArray[np.float64]
ALL, MISSING = "All", "Missing"
CELL = "__cell"  # the place of a row's cell, while a table is put together
OWN = ("statistic", "estimate", "se", "df", "lower", "upper", "cv", "note", "variance", "dataset")


def tabulate(
    survey: Survey | Sequence[Survey],
    statistics: str | Sequence[str],
    by: str | Sequence[str] = (),
    margins: bool = False,
    where: Any = None,
    combine: str | None = None,
    level: float = 0.95,
) -> pl.DataFrame:
    """Estimates with standard errors, degrees of freedom and confidence limits.

    One row per cell and statistic: the by-columns, statistic, estimate, se, df, lower, upper,
    cv. With `margins` all margins of the by-variables are added; the by-columns are then texts
    with "All" on margins and "Missing" for records without a level. `where` is a domain: the
    design stays whole. A list of surveys needs `combine`: "partial" or "full" for synthetic
    ones, "imputed" for implicates of one survey, or "none" (the tables one under the other, with
    their number).

    >>> import polars as pl, understudy as us
    >>> frame = pl.DataFrame({"w": [2.0, 2.0, 3.0, 3.0], "y": [1.0, 3.0, 2.0, 4.0]})
    >>> us.tabulate(us.Survey(frame, us.Design(weight="w")), "mean(y)")["estimate"].to_list()
    [2.6]
    """
    if not 0 < level < 1:
        raise Refused("The confidence `level` lies between 0 and 1.")
    if isinstance(survey, Survey):
        if combine not in (None, "none"):
            raise Refused("`combine` is for a list of surveys; this is one survey.")
        return _with_limits(_estimates(survey, statistics, by, margins, where, level), level)
    if combine is None:
        combine = getattr(survey, "kind", None)  # an opened release knows its rule
    surveys = list(survey)
    _check_list(surveys, combine)
    tables = [_estimates(one, statistics, by, margins, where, level) for one in surveys]
    if combine == "none":
        numbered = [
            _with_limits(t, level).insert_column(0, pl.lit(i, pl.Int64).alias("dataset"))
            for i, t in enumerate(tables, start=1)
        ]
        return pl.concat(numbered)
    return _with_limits(_combined(tables, str(combine)), level)


def _check_list(surveys: list[Survey], combine: str | None) -> None:
    if not surveys or not all(isinstance(one, Survey) for one in surveys):
        raise Refused("Give one Survey, or a list with at least one Survey.")
    if combine is None:
        raise Refused(
            "Several data sets need a combining rule: combine='partial' where some columns or "
            "records are real, 'full' where all are synthetic, 'imputed' for implicates of one "
            "survey, 'none' for one table each."
        )
    if combine not in (*RULES, "none"):
        raise UnknownName("combining rule", combine, (*RULES, "none"))
    for one in surveys[1:]:
        differing = set(one.columns) ^ set(surveys[0].columns)
        if differing:
            raise Refused(
                f"The data sets have different columns (`{sorted(differing)[0]}` is not in all of "
                "them); give data sets of one synthesis."
            )


def _estimates(
    survey: Survey,
    statistics: str | Sequence[str],
    by: str | Sequence[str],
    margins: bool,
    where: Any,
    level: float,
) -> pl.DataFrame:
    """The table of one survey: by-columns, statistic, estimate, variance, df (and limits)."""
    texts = [statistics] if isinstance(statistics, str) else list(statistics)
    names = [by] if isinstance(by, str) else list(by)
    if not texts:
        raise Refused('Name at least one statistic, such as "count" or "mean(y)".')
    for name in names:
        if name not in survey.columns:
            raise UnknownName("by-variable", name, survey.columns)
        if name in OWN:
            raise Refused(f"The table has a column `{name}` of its own; rename the by-variable.")
    if len(set(names)) < len(names) or len(set(texts)) < len(texts):
        raise Refused("A by-variable or statistic is named twice; name each once.")
    parsed = [parse_statistic(text, survey.columns) for text in texts]
    inside = as_condition(where, survey.table)
    linear = [s for s in parsed if s.kind != "quantile"]
    sets = _grouping_sets(len(names), margins)
    sums = collect(
        survey,
        [linear_form(s, survey.table) for s in linear],
        [survey.table[name] for name in names],
        inside,
    )
    df = sums.strata.df if not sums.replicates else replicate_degrees(survey, sums.replicates)
    tables = []
    for kept in sets:
        domain, levels = sums.cells(kept)
        key = _key_columns(levels, kept, names, margins)
        quantiles: dict[Statistic, QuantileEstimates] = {}
        for variable in dict.fromkeys(s.x for s in parsed if s.kind == "quantile"):
            of_variable = [s for s in parsed if s.kind == "quantile" and s.x == variable]
            estimates = quantile_estimates(
                survey, of_variable, names, kept, levels, inside, df, level
            )
            quantiles |= zip(of_variable, estimates, strict=True)
        pieces = []
        for statistic in parsed:
            found: DomainEstimates | QuantileEstimates
            if statistic in quantiles:
                found = quantiles[statistic]
            else:
                found = domain_estimates(sums, linear.index(statistic), domain, max(key.height, 1))
            pieces.append(_piece(key, statistic.text, found, df))
        tables.append(pl.concat(pieces).sort(CELL, maintain_order=True))
    return pl.concat(tables).drop(CELL)


def _grouping_sets(count: int, margins: bool) -> list[tuple[int, ...]]:
    full = tuple(range(count))
    if not margins:
        return [full]
    return [kept for size in range(count, -1, -1) for kept in combinations(full, size)]


def _key_columns(
    levels: pl.DataFrame, kept: Sequence[int], names: list[str], margins: bool
) -> pl.DataFrame:
    height = levels.height if kept else 1
    columns = [pl.Series(CELL, range(height), dtype=pl.Int64)]
    for k, name in enumerate(names):
        if k in kept:
            column = levels[f"by{k}"].alias(name)
            if margins:
                column = column.cast(pl.String).fill_null(MISSING)
        else:
            column = pl.Series(name, [ALL] * height, dtype=pl.String)
        columns.append(column)
    return pl.DataFrame(columns)


def _piece(
    key: pl.DataFrame, text: str, found: DomainEstimates | QuantileEstimates, df: float
) -> pl.DataFrame:
    height = key.height
    nothing = np.full(height, np.nan)
    lower, upper = found.limits if isinstance(found, QuantileEstimates) else (nothing, nothing)
    return key.with_columns(
        pl.lit(text).alias("statistic"),
        pl.Series("estimate", found.value[:height]),
        pl.Series("variance", found.variance[:height]),
        pl.lit(df).alias("df"),
        pl.Series("lower", lower[:height]),
        pl.Series("upper", upper[:height]),
    )


def _combined(tables: list[pl.DataFrame], kind: str) -> pl.DataFrame:
    """Cells matched over the data sets; a cell without records counts 0 there."""
    keys = [
        c for c in tables[0].columns if c not in ("estimate", "variance", "df", "lower", "upper")
    ]
    every = pl.concat([t.select(keys) for t in tables]).unique(maintain_order=True)
    aligned = [every.join(t, on=keys, how="left", nulls_equal=True) for t in tables]
    is_sum = every["statistic"].str.contains(r"^(count$|total\b)").to_numpy()
    fill = np.where(is_sum, 0.0, np.nan)

    def column(name: str) -> Floats:
        rows = [t[name].fill_null(np.nan).to_numpy() for t in aligned]
        absent = np.array([t["df"].is_null().to_numpy() for t in aligned])
        return np.where(absent, fill, np.array(rows))

    df = np.array([t["df"].to_numpy() for t in aligned], dtype=np.float64)
    result = combine_estimates(column("estimate"), column("variance"), np.nanmin(df, axis=0), kind)
    return every.with_columns(
        pl.Series("estimate", result.value),
        pl.Series("variance", result.variance),
        pl.Series("df", result.df),
        pl.lit(None, pl.Float64).alias("lower"),
        pl.lit(None, pl.Float64).alias("upper"),
        pl.Series("note", result.note),
    )


def _with_limits(table: pl.DataFrame, level: float) -> pl.DataFrame:
    """se, limits and cv from variances; Woodruff limits of quantiles are kept."""
    number = pl.Float64
    se = np.sqrt(table["variance"].to_numpy())
    value, df = table["estimate"].to_numpy(), table["df"].to_numpy()
    half = stats.t.ppf(0.5 + level / 2, np.where(df > 0, df, np.nan)) * se
    given = ~np.isnan(table["lower"].cast(number).fill_null(np.nan).to_numpy())
    given |= ~np.isnan(table["upper"].cast(number).fill_null(np.nan).to_numpy())
    lower = np.where(given, table["lower"].cast(number).fill_null(np.nan).to_numpy(), value - half)
    upper = np.where(given, table["upper"].cast(number).fill_null(np.nan).to_numpy(), value + half)
    with np.errstate(divide="ignore", invalid="ignore"):
        cv = np.where(value != 0, se / np.abs(value), np.nan)
    numbers = {"estimate": value, "se": se, "df": df, "lower": lower, "upper": upper, "cv": cv}
    out = table.drop("variance", "estimate", "df", "lower", "upper").with_columns(
        *(pl.Series(name, array).fill_nan(None) for name, array in numbers.items())
    )
    if "note" in out.columns:
        out = out.select(pl.exclude("note"), "note")
    return out
