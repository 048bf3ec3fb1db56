"""What is asked, in columns: an equation, what its plain columns are, and the domain.

The same question is put to the synthetic files, whose columns come into memory, and to the
confidential file, whose columns stay expressions in its engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.survey.survey import Survey
from understudy.tables.design_records import DesignRecords
from understudy.tables.influence.equation import Equation, FileColumns, Floats, ReleasedEquation

ColumnsOf = Callable[[ir.Table], Mapping[str, Any]]
InsideOf = Callable[[ir.Table], Any]


def everyone(table: ir.Table) -> Any:  # noqa: ARG001
    """The domain of all records."""
    return ibis.literal(True)


@dataclass(frozen=True)
class InfluenceQuestion:
    """An equation over columns of a table, for the records inside of a domain."""

    equation: Equation
    columns: ColumnsOf
    inside: InsideOf = everyone
    names: tuple[str, ...] = ("",)  # of the numbers that the equation estimates
    cell: tuple[Any, ...] = ()  # the levels of a table's cell

    def expressions(self, released: ReleasedEquation, table: ir.Table, weight: Any) -> list[Any]:
        """Each record's influences, as expressions over its table."""
        columns = {name: value.cast("float64") for name, value in self.columns(table).items()}
        return self.equation.influences(released, columns, weight, self.inside(table))


@dataclass(frozen=True, eq=False)
class SyntheticFile:
    """A synthetic file with its design; `unit` names the column whose records stand together.

    Where the file does not have it, units of 1 to `records` records are made up, as many of each
    size, of records that have nothing to do with each other.
    """

    survey: Survey
    unit: str | None = None
    records: int = 1
    _read: dict[InfluenceQuestion, FileColumns] = field(default_factory=dict, repr=False)

    @cached_property
    def weight(self) -> Floats:
        """Of estimates."""
        return self._numbers(self.survey.design.weight)

    @cached_property
    def drawn_weight(self) -> Floats:
        """Of influences: where weights were smoothed, the drawn ones beside them have the tails
        that confidential weights have."""
        design = self.survey.design
        return self._numbers(design.variance_weight or design.weight)

    def _numbers(self, name: str | None) -> Floats:
        if name is None:
            return np.ones(self.survey.n)
        return self.survey.frame([name])[name].cast(pl.Float64).to_numpy()

    @cached_property
    def unit_number(self) -> NDArray[np.int64]:
        """The unit of each record, from 0; in the order of the records where each has its own."""
        every = np.arange(len(self.weight))
        if self.unit is None or self.unit not in self.survey.columns:
            return every if self.records == 1 else made_up_units(len(every), self.records)
        ids = self.survey.frame([self.unit])[self.unit]
        number = (ids.rank("dense").cast(pl.Int64) - 1).to_numpy()
        return every if number.max() + 1 == len(every) else number

    @property
    def units(self) -> int:
        return int(self.unit_number.max()) + 1

    def columns(self, question: InfluenceQuestion) -> FileColumns:
        if question not in self._read:
            self.read([question])
        return self._read[question]

    def read(self, questions: Sequence[InfluenceQuestion]) -> None:
        """The columns of several questions in one query, which are kept."""
        if not questions:
            return
        table = self.survey.table
        made: dict[str, Any] = {}
        for k, question in enumerate(questions):
            numbers = question.columns(table).items()
            made |= {f"{k} {name}": value.cast("float64") for name, value in numbers}
            made[f"{k}"] = question.inside(table)
        frame = table.select(**made).to_polars()
        for k, question in enumerate(questions):
            start = f"{k} "
            arrays = {
                name.removeprefix(start): frame[name].fill_null(np.nan).to_numpy()
                for name in made
                if name.startswith(start)
            }
            self._read[question] = FileColumns(arrays, self.weight, frame[f"{k}"].to_numpy())

    def by_unit(self, influences: Floats) -> Floats:
        """(records, k) influences summed within units."""
        if self.units == len(influences):
            return influences
        totals = np.zeros((self.units, influences.shape[1]))
        np.add.at(totals, self.unit_number, influences)
        return totals

    def by_record(self, influences: Floats) -> Floats:
        """(units, k) influences shared out evenly among the records of each unit."""
        records = np.bincount(self.unit_number)
        return np.asarray((influences / records[:, None])[self.unit_number])

    def covariance(self, influences: Floats) -> Floats:
        """The design-based covariance of the sums of (records, k) influences."""
        return self._design.covariance(influences)

    @cached_property
    def df(self) -> float:
        """The design's degrees of freedom."""
        return self._design.df

    @cached_property
    def _design(self) -> DesignRecords:
        return DesignRecords(self.survey)


def made_up_units(count: int, most: int) -> NDArray[np.int64]:
    """A unit for each of `count` records: sizes 1, 2, ..., `most`, and again. Published records lie
    in the order of their values, so those of a unit are taken far apart (steps of the golden ratio,
    which fill the file evenly)."""
    order = np.argsort(np.arange(count) * (np.sqrt(5) - 1) / 2 % 1.0, kind="stable")
    number = np.empty(count, dtype=np.int64)
    number[order] = np.repeat(np.arange(count), np.arange(count) % most + 1)[:count]
    return number


def released_at(
    question: InfluenceQuestion, files: Sequence[SyntheticFile]
) -> tuple[ReleasedEquation, list[FileColumns]]:
    """The equation at the released estimate, or a refusal where the files have none."""
    columns = [file.columns(question) for file in files]
    if any(file.used().empty for file in columns) and not question.equation.everyone:
        raise Refused("A synthetic file has no record in this domain; ask about a larger one.")
    released = question.equation.released(columns)
    if not (np.all(np.isfinite(released.estimates)) and np.all(np.isfinite(released.bread))):
        raise Refused("This does not exist in the synthetic files; ask about another domain.")
    return released, columns


def has_estimate(question: InfluenceQuestion, files: Sequence[SyntheticFile]) -> bool:
    """Whether every file has an estimate, at which the equation can be evaluated."""
    try:
        released_at(question, files)
    except Refused:
        return False
    return True


def influence_estimate(
    question: InfluenceQuestion, file: SyntheticFile
) -> tuple[float, float, float]:
    """The estimate of one file, its design-based variance and its degrees of freedom."""
    released, (columns,) = released_at(question, [file])
    parts = question.equation.influences(released, columns.columns, file.weight, columns.inside)
    variance = file.covariance(np.column_stack(parts))
    return float(released.estimates[0]), float(variance[0, 0]), file.df
