"""The units that claims are for: which records belong together, and how many of them count.

A unit (a household, a person with several visits) is all records with one value in the codebook's
unit column. A table of counts takes at most `records_per_unit` of a unit's records, so that a unit
changes at most that many counts by one. Which ones are left out depends on the unit's own records
alone: they stand in the order of a hash of their values, and the first ones stay. The hash is that
of the value, however its column is stored: one record with a decimal, or without an answer, makes
decimals of a whole column of whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.internal_mark import marked
from understudy.survey.survey import Survey

__public__ = ("unit_codes",)


@dataclass(frozen=True)
class Unit:
    """What a claim protects as a whole: a column, and the most records of a unit that count."""

    column: str
    records: int | None

    @property
    def limit(self) -> int:
        """The declared limit; refused where a table would rest on one that is not."""
        if self.records is None:
            raise Refused(
                f"Tables with a claim for each `{self.column}` need the most records that one may "
                "have; declare `records_per_unit` in the codebook."
            )
        return self.records

    @property
    def held(self) -> str:
        """What a claim says where every record of a unit is there (`held_limit`)."""
        return (
            f"No `{self.column}` has more than {self.limit} records; which records belong to one "
            "is public"
        )


def unit_of(survey: Survey) -> Unit | None:
    """The survey's declared unit; None where each record is one."""
    column = survey.codebook.unit_column
    if column is None:
        return None
    if column not in survey.columns:
        raise Refused(
            f"Claims are for each `{column}`, and these records do not have that column; keep it, "
            "or take `unit` out of the codebook."
        )
    refuse_missing_ids(survey, column)
    return Unit(column, survey.codebook.records_per_unit)


@marked()
def refuse_missing_ids(survey: Survey, column: str) -> None:
    """Records without an id would stand as one unit: a household among them that goes would let
    others in, and move more counts than its own."""
    missing = survey.table.aggregate(any=survey.table[column].isnull().any()).to_pyarrow()
    if missing.column("any")[0].as_py():
        raise Refused(
            f"The unit column `{column}` is missing for some records; give every record an id."
        )


def records_per_unit(survey: Survey) -> int:
    """How many counts of a table one unit can change by one; 1 where each record is a unit."""
    unit = unit_of(survey)
    return 1 if unit is None else unit.limit


def unit_codes(survey: Survey) -> NDArray[np.int32] | None:
    """The number of each record's unit, from 0 on, (n,); None where each record is a unit."""
    unit = unit_of(survey)
    if unit is None:
        return None
    values = pl.Series(survey.raw.select(unit.column).to_polars()[unit.column])
    return (values.rank("dense").to_numpy() - 1).astype(np.int32)


@marked()
def held_limit(survey: Survey) -> int:
    """The declared limit, where all of a unit's records count; refused where a unit has more."""
    unit, codes = unit_of(survey), unit_codes(survey)
    if unit is None or codes is None:
        return 1
    if int(np.bincount(codes).max()) > unit.limit:
        raise Refused(
            f"Some `{unit.column}` has more than {unit.limit} records; raise `records_per_unit` in "
            "the codebook."
        )
    return unit.limit


def limited(table: ir.Table, unit: Unit | None, columns: Sequence[str]) -> ir.Table:
    """The columns of a table of records, at most the limit of each unit.

    Records that are equal in these columns count alike, so it does not matter which of them stay.
    """
    if unit is None:
        return table.select(list(columns))
    hashes = (_hash_of(table[name]) for name in dict.fromkeys([unit.column, *columns]))
    # hashed once more: the order of values xor a constant is not a random one
    order_by = [reduce(xor, hashes).hash(), *columns]
    number = ibis.row_number().over(group_by=table[unit.column], order_by=order_by)
    numbered = table.mutate(__number=number)
    return numbered.filter(numbered["__number"] < unit.limit).select(list(columns))


def _hash_of(values: Any) -> Any:
    """A hash of each value, the same in a column of whole numbers, decimals or texts."""
    kind = values.type()
    if kind.is_numeric() or kind.is_boolean():
        return values.cast("float64").hash()
    if kind.is_date() or kind.is_timestamp():
        return values.cast("timestamp").epoch_seconds().cast("float64").hash()
    if not kind.is_string():
        return values.hash()
    number = values.try_cast("float64")
    return ibis.ifelse(number.isnull(), values.hash(), number.hash())


def values_within_limit(
    units: NDArray[np.int32], values: NDArray[np.float64], limit: int
) -> NDArray[np.float64]:
    """The values of one variable, at most `limit` of each unit, in no particular order."""
    table = ibis.memtable(pl.DataFrame({"unit": units, "value": values}))
    left = limited(table, Unit("unit", limit), ["value"]).to_polars()
    return np.sort(left["value"].to_numpy())
