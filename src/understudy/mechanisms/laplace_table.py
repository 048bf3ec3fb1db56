"""Laplace tables (T §2.4): noise on counts and means of a weighted survey, and on their replicates.

Every number of the table gets Laplace noise; standard errors come from R half-sample replicates
(Preston 2009) that get noise too. With G tables of margins (all subsets of the by-variables) and
T statistics, T §2.4 spends epsilon/(2 G T) on each point estimate and epsilon/(2 G T R) on each
replicate: epsilon/16 and epsilon/160 for counts and means by two variables with R = 10. A record
lies in one cell of each table, so that cells share a budget. The number of records of each cell
is public; the records' weights and outcomes are not. With strategy="least squares" the tables get
the shares of the estimates' epsilon that leave the least noise after least squares
(table_strategy.py), and `estimates` is their part of the whole, T's half by default.

Sensitivities: "observed" are T eq. 8 and 9, the largest over the cells of a table. They were
read off this database: kind `local`, not a guarantee. "declared" come from the codebook's bounds
[a, b] of the weight and [c, d] of the outcome, to which values are clipped: b - a for a count,
b (d - c)/((n - 1) a + b) for a mean of n records (below). Kind `formal`, relation `replace`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations
from math import ceil, inf, nextafter
from typing import Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.claim import RECORD, Claim, ClaimKind, checked_epsilon
from understudy.dp.account import PayingAccount, charged, said_of_account
from understudy.dp.accounting import Cost
from understudy.dp.noise import integer_laplace
from understudy.errors import Refused, UnknownName
from understudy.internal_mark import marked
from understudy.mechanisms.table_strategy import best_shares
from understudy.survey.replicate_weights import first_stage, half_sample_factors
from understudy.survey.survey import Survey
from understudy.tables.consistency import consistent_counts, consistent_means, membership
from understudy.tables.statistic import Statistic, parse_statistics
from understudy.tables.statistics.count import Count
from understudy.tables.statistics.mean import Mean
from understudy.tables.units import held_limit, unit_of

__public__ = ("laplace_table",)

Sensitivity = Literal["observed", "declared"]
Strategy = Literal["alike", "least squares"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
CellLevels = tuple[str, ...]

ALL = "All"
ON_SPARK = (
    "A Laplace table needs every record in memory, for its half-samples, and these are on Spark; "
    "noisy counts run there under Marginals and Modips (Multinomial, WholeFile), corrected tables "
    "as `corrected_table`, or take the columns from there first: Survey(survey.frame([...]), "
    "design, codebook)."
)
GRID = 2**16  # steps of the grid that noise is added on, per unit of sensitivity


@dataclass(frozen=True, eq=False)
class LaplaceTable:
    """The noisy table and what it promises.

    Columns: the by-columns ("All" on margins), statistic, estimate, se, noise_sd (of the noise in
    the estimate) and replicate_se. `se` holds sampling and noise: the spread of the replicates
    without the noise that only the replicates have. `replicate_se` is the whole spread, T's
    standard error.
    """

    table: pl.DataFrame
    claim: Claim


@dataclass(frozen=True)
class _Values:
    """One statistic on arrays; `y` is None for a count."""

    text: str
    w: Floats = field(repr=False)
    y: Floats | None = field(repr=False)
    w_bounds: tuple[float, float] | None
    y_bounds: tuple[float, float] | None
    per_unit: int = 1  # records that one unit may have

    def estimate(self, weight: Floats, cell: Ints, cells: int) -> Floats:
        count = np.asarray(np.bincount(cell, weight, cells), dtype=np.float64)
        if self.y is None:
            return count
        with np.errstate(invalid="ignore"):
            return np.asarray(np.bincount(cell, weight * self.y, cells) / count)

    def sensitivity(self, factor: Floats, cell: Ints, cells: int) -> float:
        """The largest over the cells; `factor` multiplies the weights (1, or a replicate's).

        A unit's records are replaced one after the other: k of them move the table's numbers by at
        most k times as much, whether they lie in one cell or in several.
        """
        by_cell = [self._of_cell(factor[cell == c], cell == c) for c in range(cells)]
        return self.per_unit * max(by_cell)

    def _of_cell(self, factor: Floats, inside: NDArray[np.bool_]) -> float:
        if self.w_bounds is not None:
            return self._declared(factor)
        w = self.w[inside]
        width = float(w.max() - w.min())
        if self.y is None:
            return width  # T eq. 8
        product = w * self.y[inside]
        left = float(w.sum() - width)
        return float(product.max() - product.min()) / left if left > 0 else 0.0  # T eq. 9

    def _declared(self, factor: Floats) -> float:
        """Replacing one record (w, y) of a cell, the others W = sum of their weights, mean M:
        mu - M = w (y - M)/(W + w), so mu moves by at most b (d - c)/(W + b), W >= a (n - 1)."""
        low, high = self.w_bounds or (0.0, 0.0)
        largest = float(factor.max())
        if self.y is None or self.y_bounds is None:
            return largest * (high - low)
        others = low * (float(factor.sum()) - largest)
        width = self.y_bounds[1] - self.y_bounds[0]
        return largest * high * width / (others + largest * high) if largest > 0 else 0.0


def laplace_table(
    survey: Survey,
    statistics: str | Sequence[str],
    by: str | Sequence[str],
    epsilon: float,
    sensitivity: Sensitivity = "observed",
    consistent: bool = False,
    replicates: int = 10,
    seed: int = 0,
    account: PayingAccount | None = None,
    strategy: Strategy = "alike",
    estimates: float = 0.5,
) -> LaplaceTable:
    """Counts and means by cells and all margins, with Laplace noise (T §2.4).

    `strategy="least squares"` divides the estimates' epsilon over the tables so that the least
    noise is left when all are made to add up; its tables are consistent. `estimates` is the part of
    epsilon for the estimates, the rest is for their standard errors.
    `seed` draws the half-samples, which are public; the noise is OpenDP's and has no seed. A formal
    table is charged to `account` (`LedgerAccount`) before any noise is drawn; without one its claim
    says that it was not charged to any ledger.
    """
    if survey.on_cluster:
        raise Refused(ON_SPARK)
    epsilon = checked_epsilon(epsilon)
    if sensitivity not in get_args(Sensitivity):
        raise UnknownName("kind of sensitivity", str(sensitivity), get_args(Sensitivity))
    if isinstance(replicates, bool) or not isinstance(replicates, int) or replicates < 2:
        raise Refused("`replicates` must be a whole number of at least 2.")
    if strategy not in get_args(Strategy):
        raise UnknownName("strategy of a Laplace table", str(strategy), get_args(Strategy))
    if not (isinstance(estimates, float) and 0 < estimates < 1):
        raise Refused("`estimates`, the estimates' part of epsilon, must lie between 0 and 1.")
    names = _by_names(survey, by)
    if sensitivity == "declared":
        _refuse_sensitive(survey, names)
    values = table_values(survey, statistics, sensitivity)
    with marked():
        stage = first_stage(survey.frame(), survey.design)
    rng = np.random.default_rng(seed)
    drawn = half_sample_factors(stage.stratum, stage.fraction, replicates, rng)
    factors = drawn[stage.psu]  # (n, R)
    tables = _tables(survey, names)
    parts = len(tables) * len(values)
    of_estimates = Fraction(repr(estimates))
    of_replicate = _share(epsilon, (1 - of_estimates) / (parts * replicates))
    claim = _claim(epsilon, sensitivity, survey, replicates, estimates)
    formal = claim.kind == "formal"
    cost = Cost((claim.relation,), Fraction(repr(epsilon))) if formal else None
    what = "a Laplace table" if formal else "a table with observed sensitivities"
    claim = said_of_account(claim, charged(account, survey, [cost], claim.unit, what))
    rows = []
    for statistic in values:
        shares = _shares(statistic, tables, strategy)
        for (entries, cell), share in zip(tables, shares, strict=True):
            own = _share(epsilon, of_estimates * share / len(values))
            noisy = _noisy_cells(statistic, cell, len(entries), factors, own, of_replicate)
            rows += [
                (e, statistic.text, *numbers) for e, numbers in zip(entries, noisy, strict=True)
            ]
    if consistent or strategy == "least squares":
        rows = _made_consistent(rows, [statistic.text for statistic in values])
    return LaplaceTable(_frame(rows, names), claim)


def _noisy_cells(
    values: _Values, cell: Ints, cells: int, factors: Floats, epsilon: float, of_replicate: float
) -> list[tuple[float, float, float, float]]:
    """(estimate, sampling variance, noise sd, replicate se) of each cell of one table.

    A table without a share of epsilon has no estimate: its noise is infinite, and its replicates
    are compared with their own mean.
    """
    width = values.sensitivity(np.ones(len(cell)), cell, cells)
    measured = epsilon > 0
    estimate, noise_sd = np.zeros(cells), inf
    if measured:
        estimate, noise_sd = _noisy(values.estimate(values.w, cell, cells), width, epsilon)
    noisy, used, excess = np.zeros((factors.shape[1], cells)), np.zeros(cells), np.zeros(cells)
    present = np.zeros((factors.shape[1], cells), dtype=bool)
    for r in range(factors.shape[1]):
        factor = factors[:, r]
        there = np.bincount(cell, factor, cells) > 0  # public: it depends on the half-sample only
        # T uses the point estimate's sensitivity; a declared one must cover the doubled weights
        own = values.sensitivity(factor, cell, cells) if values.w_bounds is not None else width
        exact = np.where(there, values.estimate(factor * values.w, cell, cells), 0.0)
        noisy[r], sd = _noisy(exact, own, of_replicate)
        present[r] = there
        excess += np.where(there, sd**2, 0.0)
        used += there
    used = np.maximum(used, 1.0)
    centre, free = estimate, used
    if not measured:
        centre, free = (noisy * present).sum(axis=0) / used, np.maximum(used - 1.0, 1.0)
    spread = (present * (noisy - centre) ** 2).sum(axis=0) / free
    sampling = np.maximum(spread - excess / used - (noise_sd**2 if measured else 0.0), 0.0)
    return list(
        zip(
            estimate.tolist(),
            sampling.tolist(),
            [noise_sd] * cells,
            np.sqrt(spread).tolist(),
            strict=True,
        )
    )


def _shares(
    values: _Values, tables: list[tuple[list[CellLevels], Ints]], strategy: Strategy
) -> list[Fraction]:
    """The part of a statistic's epsilon for each table; together 1, in exact arithmetic."""
    if strategy == "alike":
        return [Fraction(1, len(tables))] * len(tables)
    ones = np.ones(len(values.w))
    sensitivity = [values.sensitivity(ones, cell, len(entries)) for entries, cell in tables]
    number = np.repeat(np.arange(len(tables)), [len(entries) for entries, _ in tables])
    entries = [entry for own, _ in tables for entry in own]
    design = membership(entries, ALL)
    if values.y is not None:  # a margin's mean, by the public numbers of records
        sizes = np.bincount(
            tables[0][1], minlength=design.shape[1]
        )  # the first table has the cells
        design = design * sizes
        design /= design.sum(axis=1, keepdims=True)
    _, *margins = best_shares(np.array(sensitivity), number, design)
    steps = [int(share * GRID) for share in margins]
    return [Fraction(step, GRID) for step in (GRID - sum(steps), *steps)]


def _share(epsilon: float, part: Fraction) -> float:
    """The largest double that is at most this part of epsilon, in exact arithmetic."""
    share = nextafter(nextafter(epsilon * float(part), inf), inf) if part else 0.0  # rounded twice
    while Fraction(share) > Fraction(epsilon) * part:
        share = nextafter(share, 0.0)
    return share


def _noisy(values: Floats, sensitivity: float, epsilon: float) -> tuple[Floats, float]:
    """Values on a grid of sensitivity/2^16 with integer Laplace noise, and the noise's sd.

    Rounding to the grid moves a difference by at most one step, which the integer sensitivity
    holds. A table whose cells have one record each has sensitivity 0 under T eq. 8: no noise.
    """
    if sensitivity <= 0:
        return values, 0.0
    step = sensitivity / GRID
    steps, whole = on_grid(values, sensitivity)
    noisy = integer_laplace(steps, whole, epsilon)
    return np.asarray(noisy * step, dtype=np.float64), float(np.sqrt(2.0) * whole * step / epsilon)


def on_grid(values: Floats, sensitivity: float) -> tuple[Ints, int]:
    """Values in steps of the grid, and the sensitivity in steps."""
    step = sensitivity / GRID
    return np.rint(values / step).astype(np.int64), ceil(sensitivity / step) + 1


def _by_names(survey: Survey, by: str | Sequence[str]) -> list[str]:
    names = [by] if isinstance(by, str) else list(by)
    if len(set(names)) < len(names) or not names:
        raise Refused("Name at least one by-variable, and each once.")
    for name in names:
        if name not in survey.columns:
            raise UnknownName("by-variable", name, survey.columns)
    _refuse_blanks(survey, names)
    return names


@marked()
def _refuse_blanks(survey: Survey, names: list[str]) -> None:
    if survey.frame(names).null_count().sum_horizontal().item():
        raise Refused(
            "A by-variable has missing values; give these records a level of their own first."
        )


def _refuse_sensitive(survey: Survey, names: list[str]) -> None:
    """The rows and the noise of a formal table take its cells as public."""
    for name in names:
        if name in survey.codebook and survey.codebook[name].role == "sensitive":
            raise Refused(
                f"The by-variable `{name}` is sensitive in the codebook, and the cells of a "
                "Laplace table are public; classify by public columns, or release a table of "
                "counts by Marginals."
            )


def _tables(survey: Survey, names: list[str]) -> list[tuple[list[CellLevels], Ints]]:
    """For each subset of the by-variables: its entries, and the entry's number of each record."""
    frame = survey.frame(names).select(pl.all().cast(pl.String))
    tables = []
    for size in range(len(names), -1, -1):
        for kept in combinations(names, size):
            full = frame.select(
                pl.col(name) if name in kept else pl.lit(ALL).alias(name) for name in names
            )
            if full.height != frame.height:
                full = pl.concat([full] * frame.height)
            entries = full.unique().sort(names)
            number = entries.with_row_index("number").cast({"number": pl.Int64})
            cell = full.join(number, on=names, how="left", maintain_order="left")["number"]
            tables.append(([tuple(row) for row in entries.iter_rows()], cell.to_numpy()))
    return tables


def table_values(
    survey: Survey, statistics: str | Sequence[str], sensitivity: Sensitivity
) -> list[_Values]:
    weight = survey.design.weight
    if weight is None:
        raise Refused("A Laplace table needs the design weight; name it in the Design.")
    parsed = parse_statistics(statistics, survey.columns)
    declared, per_unit = sensitivity == "declared", held_limit(survey)
    values = [_value(survey, weight, statistic, declared) for statistic in parsed]
    return [replace(value, per_unit=per_unit) for value in values]


def _value(survey: Survey, weight: str, statistic: Statistic, declared: bool) -> _Values:
    if not isinstance(statistic, (Count, Mean)):
        raise Refused(
            f"Laplace tables hold counts and means; `{statistic.text}` is neither (T §2.4)."
        )
    w, w_bounds = _column(survey, weight, declared)
    if isinstance(statistic, Count):
        return _Values(statistic.text, w, None, w_bounds, None)
    if statistic.x.computed:
        raise Refused(
            f"Laplace tables hold means of columns with declared bounds; compute `{statistic.text}`"
            " as a column first."
        )
    y, y_bounds = _column(survey, statistic.x.text, declared)
    return _Values(statistic.text, w, y, w_bounds, y_bounds)


def _column(survey: Survey, name: str, declared: bool) -> tuple[Floats, tuple[float, float] | None]:
    numbers = _numbers(survey, name)
    if not declared:
        return numbers, None
    column = survey.codebook.columns.get(name)
    if column is None or column.bounds is None or not column.declared("bounds"):
        raise Refused(
            f"A formal Laplace table needs declared bounds of `{name}`; give them in the codebook, "
            "or use sensitivity='observed', which is not a guarantee."
        )
    return np.clip(numbers, *column.bounds), column.bounds


@marked()
def _numbers(survey: Survey, name: str) -> Floats:
    series = survey.frame([name])[name]
    if not series.dtype.is_numeric() or series.null_count():
        raise Refused(f"`{name}` must be numeric and without missing values in a Laplace table.")
    return series.cast(pl.Float64).to_numpy()


# entry, statistic, estimate, sampling variance, noise sd, replicate se
NoisyRow = tuple[CellLevels, str, float, float, float, float]


def _made_consistent(rows: list[NoisyRow], texts: list[str]) -> list[NoisyRow]:
    """Margins add up and counts are not negative; the noise becomes what is left of it."""
    counts = [row for row in rows if row[1] == "count"]
    if not counts or any(row[4] == 0 for row in rows):
        raise Refused(
            "A consistent table needs `count` among its statistics, and noise on every number."
        )
    inside = membership([row[0] for row in counts], ALL)
    innermost = np.array([ALL not in row[0] for row in counts])
    values, variances = _columns(counts)
    agreed = consistent_counts(values, variances, inside)
    made = _updated(counts, agreed.value, agreed.noise_variance)
    for text in texts:
        if text == "count":
            continue
        means = [row for row in rows if row[1] == text]
        values, variances = _columns(means)
        fitted = consistent_means(values, variances, inside, agreed.value[innermost])
        made += _updated(means, fitted.value, fitted.noise_variance)
    return made


def _columns(rows: list[NoisyRow]) -> tuple[Floats, Floats]:
    return np.array([row[2] for row in rows]), np.array([row[4] for row in rows]) ** 2


def _updated(rows: list[NoisyRow], values: Floats, noise: Floats) -> list[NoisyRow]:
    new = []
    for (entry, text, _, sampling, _, spread), value, left in zip(rows, values, noise, strict=True):
        new.append((entry, text, float(value), sampling, float(np.sqrt(left)), spread))
    return new


def _frame(rows: list[NoisyRow], names: list[str]) -> pl.DataFrame:
    keys = {name: [row[0][k] for row in rows] for k, name in enumerate(names)}
    numbers = ("estimate", "sampling", "noise_sd", "replicate_se")
    columns = {name: [row[2 + k] for row in rows] for k, name in enumerate(numbers)}
    frame = pl.DataFrame({**keys, "statistic": [row[1] for row in rows], **columns})
    se = (pl.col("sampling") + pl.col("noise_sd") ** 2).sqrt().alias("se")
    return frame.select(*keys, "statistic", "estimate", se, "noise_sd", "replicate_se")


def _claim(
    epsilon: float, sensitivity: Sensitivity, survey: Survey, replicates: int, estimates: float
) -> Claim:
    public = "The number of records in each cell and the by-variables are public"
    halves = (
        f"{'Half' if estimates == 0.5 else f'{estimates:.0%}'} of epsilon is for the estimates and "
        f"{'half' if estimates == 0.5 else 'the rest'} for {replicates} half-sample replicates"
    )
    kind: ClaimKind = "formal" if sensitivity == "declared" else "local"
    scaled = (
        f"Values were clipped to the declared bounds of the codebook; the noise covers any "
        f"`{survey.design.weight}` and outcome within them"
        if sensitivity == "declared"
        else "Sensitivities are those of the observed values (T eq. 8 and 9): they are comparable, "
        "and no guarantee for another database"
    )
    conditions = [public, scaled, halves]
    unit = unit_of(survey)
    if unit is not None:
        conditions.append(unit.held)
    return Claim(
        kind, epsilon, 0.0, "replace", tuple(conditions), "Laplace table",
        unit=RECORD if unit is None else unit.column,
    )  # fmt: skip
