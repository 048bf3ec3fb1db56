"""One model of whole rows on one database, ready to be counted: what mechanisms on counts ask for.

survey -> cross_tabulate -> noise of the mechanism -> an output, of which records are made
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from understudy.chance import Chance, Seed, chance_of
from understudy.claim import Claim
from understudy.errors import Refused
from understudy.mechanisms.side_by_side import side_by_side
from understudy.survey.published_type import types_not_declared
from understudy.survey.survey import Survey
from understudy.tables.cross_table import (
    Categories,
    CrossTable,
    categories_of,
    cross_tabulate,
    full_domain,
    possible_cells,
    without_impossible,
)
from understudy.tables.units import Unit

if TYPE_CHECKING:
    from understudy.models.contract import RowsModel

Drawn = TypeVar("Drawn")


@dataclass(frozen=True, eq=False)
class RowCounts:
    """`conditions` are those of every claim about this database, `unit` what the claim is for:
    at most its limit of records is counted, and noise must be scaled by `per_unit`."""

    model: RowsModel
    survey: Survey
    seed: Seed | Chance = field(default=None, repr=False)
    conditions: tuple[str, ...] = ()
    unit: Unit | None = None

    @property
    def per_unit(self) -> int:
        """How many counts of a table one unit can change by one."""
        return 1 if self.unit is None else self.unit.limit

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", chance_of(self.seed))

    @cached_property
    def categories(self) -> Categories:
        """The levels of the model's columns."""
        return categories_of(self.survey, self.model.columns, self.model.missing)

    @cached_property
    def occupied(self) -> CrossTable:
        """The confidential counts of the cells that some record is in."""
        table = cross_tabulate(self.survey, self.categories, self.unit)
        table = without_impossible(table, self.survey)
        if table.n == 0:
            raise Refused("The survey has no records; check the file or the filter that made it.")
        return table

    @cached_property
    def all_declared(self) -> CrossTable:
        """The confidential counts of all cells that the codebook allows."""
        return full_domain(self.occupied, self.survey)

    def check_declared(self) -> None:
        """Refused where a level was only drafted from the records: a formal claim needs more."""
        drafted = self.survey.codebook.not_declared(dict.fromkeys(self.model.columns, "levels"))
        if drafted:
            raise Refused(
                f"A formal claim rests on `{drafted[0]}`, which is not declared; declare it in the "
                "codebook from what is public."
            )
        self.check_types()

    def check_types(self) -> None:
        """Refused where the type of a level would be read off the records."""
        unclear = types_not_declared(self.survey, self.model.columns)
        if unclear:
            raise Refused(
                f"A formal claim rests on `{unclear[0]}.type`, which is not declared; declare it "
                "in the codebook from what is public: its levels, or the type `text` or `integer`."
            )

    @property
    def levels_not_declared(self) -> list[str]:
        """Columns whose levels were taken from the records."""
        declared = self.survey.codebook.not_declared(dict.fromkeys(self.model.columns, "levels"))
        return [name.removesuffix(".levels") for name in declared]

    def possible(self, cells: CrossTable) -> Any:
        """Which cells the codebook's edit rules allow, (cells,)."""
        codebook = self.survey.codebook
        return possible_cells(cells.categories, cells.codes, codebook.impossible, codebook.columns)

    def claimed(self, claim: Claim) -> Claim:
        """The claim with the conditions of this database, about its unit."""
        conditions = (*claim.conditions, *self.conditions)
        if self.unit is None:
            return replace(claim, conditions=conditions)
        limited = (
            f"At most {self.unit.limit} records of each `{self.unit.column}` were counted, chosen "
            "by these records' own values"
        )
        return replace(claim, conditions=(*conditions, limited), unit=self.unit.column)

    def rng(self, dataset: int) -> np.random.Generator:
        """Each data set has its own generator, whatever the number of data sets and of cores."""
        return chance_of(self.seed).generator(f"rows {dataset}")

    def each(self, draw: Callable[[np.random.Generator], Drawn], datasets: int) -> list[Drawn]:
        """One draw for each data set, on all cores."""
        return side_by_side(draw, [self.rng(number) for number in range(datasets)])
