"""Marginals: synthetic records from noisy low-order tables, where a full cross is hopeless.

With a Multinomial model (proof: docs/proofs/marginals.md) every table of `order` columns is counted
and gets OpenDP's noise; the tables are made consistent (consistent.py), and records are fitted to
them (record_pool.py). One record is in one cell of each of T tables: the L1 sensitivity of all
counts together is T when a record is added or removed, 2T when it is replaced, and the squared L2
sensitivity too. The cells are those of the codebook's levels, all of them, so that nothing depends
on which are occupied.

With a WholeFile model (proof: docs/proofs/whole-file.md) tables are chosen, or all of an order are
measured, over coarse cells: `whole_file/measure.py`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from understudy.claim import Claim, checked_epsilon, several
from understudy.dp.accounting import checked_delta
from understudy.errors import Refused, UnknownName
from understudy.mechanisms.contract import Mechanism, ReleasedFile, ReleasedRows
from understudy.mechanisms.modips import MOST_CELLS, PUBLIC_CELLS, PUBLIC_SIZE
from understudy.mechanisms.outputs.cell_draws import MarginalTables, tables_from
from understudy.mechanisms.outputs.file_tables import FileTables
from understudy.mechanisms.row_counts import RowCounts
from understudy.mechanisms.whole_file.budget import TableBudget, budget_of
from understudy.mechanisms.whole_file.file_counts import PUBLIC_PSUS, FileCounts
from understudy.mechanisms.whole_file.forecast import file_forecast
from understudy.mechanisms.whole_file.plan import checked_order
from understudy.models.contract import FileModel, Model
from understudy.survey.survey import Survey
from understudy.tables.cross_table import CrossTable
from understudy.tables.units import records_per_unit

__public__ = ("marginal_counts", "marginal_tables")

Vector = NDArray[np.float64]
ColumnNumbers = tuple[int, ...]
MarginalRelation = Literal["add-remove", "blank", "replace"]

MOST_ASIDE = 0.5  # of the budget, for what is measured beside the tables
USELESS = 0.1  # expected total variation of the noise in a table, above which we warn


@dataclass(frozen=True)
class Marginals(Mechanism):
    """Tables of `order` columns, or chosen ones, at total `epsilon` and `delta`; each of m data
    sets has its own noise.

    `delta` 0 is pure epsilon with Laplace noise; above 0, rho is split and the noise Gaussian.
    `relation` "replace" doubles the noise's scale under Laplace, its variance under Gauss. "blank"
    is for public columns that are kept: a record's other values against none.
    """

    claims = "formal"
    seeded = False
    fits = 0
    synthesizes = "rows or file"
    hands_out = "draws"

    epsilon: Annotated[float, "Privacy budget of the whole release, over all data sets."]
    delta: Annotated[float, "0: pure epsilon, Laplace noise. Above 0: zCDP, Gaussian noise."] = 0.0
    order: Annotated[
        int | Literal["chosen"] | None,
        "Columns in each table, or chosen; WholeFile chooses by default, Multinomial has 2.",
    ] = None
    relation: Annotated[
        MarginalRelation, "add-remove or replace; blank or replace where columns are kept."
    ] = "add-remove"
    quality: Annotated[
        float,
        "Share of the budget for measuring how far a WholeFile's tables are from the confidential "
        "ones, for the public page.",
    ] = 0.0
    clusters: Annotated[
        float,
        "Share of the budget for measuring the design effects of the PSUs, which a WholeFile's "
        "variances are multiplied by.",
    ] = 0.0

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon)
        if self.delta != 0:
            checked_delta(self.delta)
        if self.relation not in get_args(MarginalRelation):
            raise UnknownName("relation", str(self.relation), get_args(MarginalRelation))
        checked_order(self.order)
        for name, share in (("quality", self.quality), ("clusters", self.clusters)):
            number = isinstance(share, (int, float)) and not isinstance(share, bool)
            if not number or not 0 <= share <= MOST_ASIDE:
                raise Refused(f"`{name}`, a share of the budget, must be between 0 and 0.5.")
        if self.quality + self.clusters > MOST_ASIDE:
            raise Refused("`quality` and `clusters` may take half of the budget together.")

    def columns(self, count: int) -> list[ColumnNumbers]:
        """The columns of each table of a Multinomial model, by their positions."""
        if self.order == "chosen":
            raise Refused(
                "Tables are chosen for a WholeFile; give `order` 1, 2 or 3 for a Multinomial model."
            )
        return list(combinations(range(count), min(self.order or 2, count)))

    def sensitivity(self, tables: int, datasets: int, per_unit: int = 1) -> int:
        """L1 sensitivity of all counts of m data sets' tables together."""
        return self.budget(per_unit).moved * tables * datasets

    def budget(self, per_unit: int = 1) -> TableBudget:
        """What may be spent over all data sets, for units of so many records."""
        return budget_of(self.epsilon, self.delta, per_unit, self.relation == "replace")

    def check_counts(self, counts: RowCounts | FileCounts) -> None:
        if isinstance(counts, RowCounts):
            for name in ("quality", "clusters"):
                if getattr(self, name):
                    raise Refused(f"`{name}` is measured for a WholeFile; leave it out.")
            table = self.cells(counts)
            _refuse_cells(table, self.columns(len(table.categories.columns)))
            return
        counts.model.check_declared(counts.survey)
        if self.clusters and counts.survey.codebook.design_effect is not None:
            raise Refused(
                "The codebook declares a design effect and `clusters` would measure it; leave out "
                "one of them."
            )
        if self.clusters and counts.clusters is None:
            raise Refused(
                "The design names no PSU that a design effect could be measured from; name it "
                "under [design], or declare `design_effect` in the codebook and leave out "
                "`clusters`."
            )
        if counts.model.keep and self.relation == "add-remove":
            raise Refused(
                "Kept columns show row by row who is in the file, so that no claim under "
                '`add-remove` holds; give the mechanism relation="blank" or "replace".'
            )

    def cells(self, counts: RowCounts) -> CrossTable:
        """The occupied cells; what is counted are tables of all declared levels."""
        counts.check_declared()
        return counts.occupied

    def release_rows(self, counts: RowCounts, datasets: int) -> ReleasedRows:
        draws = marginal_draws(self.cells(counts), self, datasets, counts.per_unit)
        claim = counts.claimed(self.promise(datasets, size_is_public=counts.model.size is None))
        return ReleasedRows(MarginalTables(tuple(draws)), claim)

    def release_file(self, counts: FileCounts, datasets: int) -> ReleasedFile:
        """The noisy tables of a whole file (docs/proofs/whole-file.md)."""
        order = checked_order(self.order) or "chosen"
        budget = self.budget(counts.per_unit)
        quality, clusters = _exact(self.quality), _exact(self.clusters)
        noisy = counts.measured(order, datasets, budget, quality=quality, clusters=clusters)
        chosen = "chosen" if order == "chosen" else f"of order {order}"
        claim = Claim(
            "formal",
            self.epsilon,
            delta=float(self.delta),
            relation=self.relation,
            conditions=(PUBLIC_PSUS,) if self.clusters else (),
            mechanism=f"Marginals of a whole file, tables {chosen}, "
            f"{several(datasets, 'data set')}",
        )
        return ReleasedFile(FileTables(noisy), counts.claimed(claim))

    def forecast(self, model: Model, survey: Survey, datasets: int) -> list[str]:
        if not isinstance(model, FileModel):
            return []
        order = checked_order(self.order) or "chosen"
        budget = self.budget(records_per_unit(survey))
        left = budget.without(_exact(self.quality) + _exact(self.clusters))
        lines = file_forecast(model, survey, order, left, datasets)
        if self.quality:
            lines.append(
                f"{self.quality:.0%} of the budget measures how far the fitted tables are from the "
                "confidential ones, for the public page."
            )
        if self.clusters:
            error = FileCounts(model, survey).clusters_error(budget, _exact(self.clusters))
            lines.append(
                f"{self.clusters:.0%} of the budget measures the design effect of "
                f"`{survey.design.psu}`; noise gives the figure of all columns together a standard "
                f"error of about {error:.2g}, and half of that is added to it."
            )
        return lines

    def promise(self, datasets: int, size_is_public: bool) -> Claim:
        """What m data sets promise; `size_is_public`: as many records as the file has."""
        return Claim(
            "formal",
            self.epsilon,
            delta=float(self.delta),
            relation=self.relation,
            conditions=(PUBLIC_CELLS, PUBLIC_SIZE) if size_is_public else (PUBLIC_CELLS,),
            mechanism=f"Marginals of order {self.order or 2}, {several(datasets, 'data set')}",
        )


def _exact(share: float) -> Fraction:
    return Fraction(repr(float(share)))


def noisy_tables(
    table: CrossTable,
    mechanism: Marginals,
    columns: Sequence[ColumnNumbers],
    datasets: int,
    per_unit: int = 1,
) -> list[Vector]:
    """One data set's tables with noise at epsilon/m: all that touches the records."""
    sizes = table.categories.sizes
    shapes = [tuple(sizes[column] for column in names) for names in columns]
    exact = marginal_counts(table, columns)
    noisy = mechanism.budget(per_unit).noisy(exact, Fraction(1, datasets))
    return [
        counts.reshape(shape).astype(np.float64)
        for counts, shape in zip(noisy, shapes, strict=True)
    ]


def marginal_counts(table: CrossTable, columns: Sequence[ColumnNumbers]) -> list[NDArray[np.int64]]:
    """The exact tables, flattened, the last column fastest."""
    sizes = table.categories.sizes
    counted = []
    for names in columns:
        shape = tuple(sizes[column] for column in names)
        cells = np.ravel_multi_index(tuple(table.codes[:, name] for name in names), shape)
        sums = np.bincount(cells, table.counts, minlength=math.prod(shape))
        counted.append(np.rint(sums).astype(np.int64))  # whole numbers below 2^53 are exact
    return counted


def marginal_draws(
    table: CrossTable, mechanism: Marginals, datasets: int, per_unit: int = 1
) -> list[dict[str, Any]]:
    """The noisy tables of each data set."""
    columns = mechanism.columns(len(table.categories.columns))
    _refuse_cells(table, columns)
    _warn_useless(table, mechanism, columns, datasets, per_unit)
    return [
        {
            "columns": columns,
            "noisy_tables": noisy_tables(table, mechanism, columns, datasets, per_unit),
        }
        for _ in range(datasets)
    ]


def marginal_tables(
    table: CrossTable,
    mechanism: Marginals,
    datasets: int,
    size: int,
    rngs: Sequence[np.random.Generator],
    possible: Callable[[CrossTable], NDArray[np.bool_]],
    per_unit: int = 1,
) -> tuple[list[CrossTable], list[dict[str, Any]]]:
    """m synthetic tables of cells, and the noisy tables that each was made from; `possible` says
    which cells the codebook's edit rules allow."""
    draws = marginal_draws(table, mechanism, datasets, per_unit)
    return tables_from(draws, table.categories, size, rngs, possible), draws


def _refuse_cells(table: CrossTable, columns: Sequence[ColumnNumbers]) -> None:
    sizes = table.categories.sizes
    cells = sum(math.prod(sizes[column] for column in names) for names in columns)
    if cells > MOST_CELLS:
        widest = int(np.argmax(sizes))
        raise Refused(
            f"The tables have {cells:,} cells together, more than {MOST_CELLS:,}; column "
            f"`{table.categories.columns[widest]}` has {sizes[widest]} levels: group its levels, "
            "model fewer columns, or lower the order."
        )


def _warn_useless(
    table: CrossTable,
    mechanism: Marginals,
    columns: Sequence[ColumnNumbers],
    datasets: int,
    per_unit: int,
) -> None:
    """Expected total variation of one noisy table: cells * scale / (2N), on average."""
    noise = mechanism.budget(per_unit).noise(len(columns), Fraction(1, datasets))
    sizes = table.categories.sizes
    cells = np.mean([math.prod(sizes[column] for column in names) for names in columns])
    error = float(cells * noise.size / (2 * table.n))
    if error > USELESS:
        warnings.warn(
            f"At epsilon {mechanism.epsilon:g} for {several(datasets, 'data set')} the noise alone "
            f"moves a table by an expected total variation of {min(error, 1):.2g}; ask for epsilon "
            f"{mechanism.epsilon * error / USELESS:.3g}, fewer columns or data sets, or a lower "
            "order.",
            UserWarning,
            stacklevel=4,
        )
