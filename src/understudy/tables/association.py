"""Rao and Scott's test of association in a two-way table (R survey's svychisq).

Pearson's X^2 of the estimated proportions p, taken as n records, is compared with what the design
makes of it: with C the contrasts of the interaction, D = diag(p) and V the covariance of p,

    Delta = (C' D^-1 C / n)^-1 (C' D^-1 V D^-1 C)

has the generalised design effects as eigenvalues. F = X^2 / tr(Delta) with d = tr(Delta)^2 /
tr(Delta^2) and d nu degrees of freedom (second order); X^2 / mean(diag(Delta)) as chi-square with
(r - 1)(c - 1) is the first order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special

from understudy.errors import Refused, UnknownName
from understudy.survey.survey import Survey
from understudy.tables.collect import collect
from understudy.tables.computation import computation
from understudy.tables.domain import as_condition
from understudy.tables.first_look import Linear
from understudy.tables.linear import joint_estimates, replicated_values
from understudy.tables.noise_sets import stands_for
from understudy.tables.numbers import ONE
from understudy.tables.replicates import replicate_covariance

__public__ = ("association",)

Floats = NDArray[np.float64]
MOST = 200  # cells


@computation()
def association(survey: Survey, rows: str, columns: str, where: Any = None) -> pl.DataFrame:
    """Whether two columns are associated: chi_square, F, df, df_error, p, p_first_order, n.

    `chi_square` is Pearson's for the estimated proportions and the number of records. Records
    without one of the two values are left out; the design stays whole.
    """
    if not isinstance(survey, Survey):
        raise Refused("A test of association is for one survey.")
    for name in (rows, columns):
        if name not in survey.columns:
            raise UnknownName("column", name, survey.columns)
    if rows == columns:
        raise Refused("An association is between two columns; name two.")
    table = survey.table
    inside = as_condition(where, table)
    known = table[rows].notnull() & table[columns].notnull()
    sums = collect(
        survey,
        [Linear(ONE)],
        [table[rows], table[columns]],
        known if inside is None else known & inside,
        by_records=survey.design.replicates is None,
    )
    domain, levels = sums.cells((0, 1))
    first, second = (levels[name].unique().sort() for name in ("by0", "by1"))
    shape = (len(first), len(second))
    if min(shape) < 2:
        raise Refused("Each of the two columns needs two levels with records in the domain.")
    if np.prod(shape) > MOST:
        raise Refused(f"The table has more than {MOST} cells; merge levels.")
    cell = np.full(shape, -1)
    cell[_positions(levels["by0"], first), _positions(levels["by1"], second)] = np.arange(
        levels.height
    )
    p, covariance = _proportions(sums, domain, levels.height)
    order = cell.reshape(-1)
    empty = order < 0
    p = np.where(empty, 0.0, p[order])
    covariance = np.where(empty[:, None] | empty, 0.0, covariance[np.ix_(order, order)])
    n = float(sums.records(0, domain, levels.height).sum())
    nu = sums.degrees(survey)
    share = stands_for(survey)  # a further file has the sampling error of the sample
    return pl.DataFrame([rao_scott(p.reshape(shape), covariance / share, n, nu * share)])


def rao_scott(p: Floats, covariance: Floats, n: float, nu: float) -> dict[str, float]:
    """The test of (r, c) proportions with the covariance of their r c entries, row by row."""
    r, c = p.shape
    expected = np.outer(p.sum(axis=1), p.sum(axis=0))
    chi_square = n * float(((p - expected) ** 2 / expected).sum())
    contrasts = _interaction(r, c)
    inverse = np.divide(1.0, p, out=np.zeros_like(p), where=p > 0).reshape(-1)
    simple = contrasts.T @ (inverse[:, None] * contrasts) / n
    scaled = inverse[:, None] * contrasts
    delta = np.linalg.lstsq(simple, scaled.T @ covariance @ scaled, rcond=None)[0]
    trace = float(np.trace(delta))
    spread = float(np.trace(delta @ delta))
    if not (np.isfinite(chi_square) and trace > 0 and spread > 0):
        raise Refused(
            "Some levels have no weight, or the proportions no sampling error under this design, "
            "so there is no test; leave such levels out with `where`."
        )
    d = trace**2 / spread
    cells = (r - 1) * (c - 1)
    f = chi_square / trace
    return {
        "chi_square": chi_square,
        "F": f,
        "df": d,
        "df_error": d * nu,
        "p": float(special.fdtrc(d, d * nu, f)) if nu > 0 else float("nan"),
        "p_first_order": float(special.chdtrc(cells, chi_square / (trace / cells))),
        "n": n,
    }


def _interaction(r: int, c: int) -> Floats:
    """Columns that span what is neither of the rows nor of the columns of a table."""

    def centred(size: int) -> Floats:
        return np.asarray(np.eye(size)[:, 1:] - 1 / size)

    return np.asarray(np.kron(centred(r), centred(c)), dtype=np.float64)


def _proportions(sums: Any, domain: Any, count: int) -> tuple[Floats, Floats]:
    """The shares of the cells, and their covariance."""
    spec = sums.design.replicates
    if sums.replicates and spec is not None:
        totals = replicated_values(sums, 0, domain, count)
        shares = totals / totals.sum(axis=0)
        return shares[:, 0], replicate_covariance(shares[:, 0], shares[:, 1:], spec)
    totals, covariance = joint_estimates(sums, 0, domain, count)
    whole = totals.sum()
    p = totals / whole
    change = (np.eye(count) - p[:, None]) / whole
    return p, change @ covariance @ change.T


def _positions(values: pl.Series, levels: pl.Series) -> NDArray[np.int64]:
    number = {level: k for k, level in enumerate(levels)}
    return np.array([number[value] for value in values])
