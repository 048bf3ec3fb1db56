"""One whole file, ready to be counted: what mechanisms ask for when the model is FileModel."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.chance import Chance, Seed, chance_of
from understudy.claim import RECORD, Claim
from understudy.mechanisms.whole_file.budget import TableBudget
from understudy.mechanisms.whole_file.design_effect import Clustered, expected_error
from understudy.mechanisms.whole_file.measure import FileQuestion, measured
from understudy.mechanisms.whole_file.noisy_file import NoisyFile
from understudy.mechanisms.whole_file.plan import Order
from understudy.survey.cells import ColumnCells
from understudy.survey.survey import Survey
from understudy.tables.coded_records import coded_records
from understudy.tables.rule_cells import ruled_out
from understudy.tables.rules import rules_within
from understudy.tables.units import Unit, held_limit

if TYPE_CHECKING:
    from understudy.models.contract import FileModel

DECLARED_CELLS = "The cells into which values are counted come from the codebook alone"
PUBLIC_SIZE = "The number of records in the file is public and is not covered"
PUBLIC_PSUS = "Which PSUs there are, and the stratum of each, is public and is not covered"
SHOWN_ROWS = (
    "The number of records and the columns {} are public: published as they are, row by row"
)


@dataclass(frozen=True, eq=False)
class FileCounts:
    """`model` knows its columns (`for_survey`); `conditions` are those of every claim about this
    database, `unit` what the claim is for."""

    model: FileModel
    survey: Survey
    seed: Seed | Chance = field(default=None, repr=False)
    conditions: tuple[str, ...] = ()
    unit: Unit | None = None

    @cached_property
    def cells(self) -> tuple[ColumnCells, ...]:
        return self.model.cells(self.survey)

    @property
    def clusters(self) -> tuple[str | None, str] | None:
        """The columns of the stratum and of the PSU; None where the design names no PSU."""
        design = self.survey.design
        return None if design.psu is None else (design.strata, design.psu)

    @property
    def clustered(self) -> Clustered:
        """Where stratum and weight are among the columns."""
        names, design = self.model.columns or (), self.survey.design
        return Clustered(
            *(names.index(n) if n in names else None for n in (design.strata, design.weight))
        )

    @property
    def per_unit(self) -> int:
        """How many records of one unit are counted at most."""
        return 1 if self.unit is None else self.unit.limit

    @cached_property
    def _limited_to(self) -> Unit | None:
        """With kept columns all records count: which ones there are is public. Refused where a unit
        has more of them than the noise is for."""
        if self.unit is None or not self.model.keep:
            return self.unit
        held_limit(self.survey)
        return None

    def check(self) -> None:
        """What can be refused before anything is paid."""
        _ = self.cells, self.per_unit, self._limited_to
        rules_within(self.survey.codebook, self.model.columns or ())

    def rng(self, label: str) -> np.random.Generator:
        """Chance of its own for one use; all that is drawn with it is post-processing."""
        return chance_of(self.seed).generator(f"file {label}")

    def measured(
        self,
        order: Order,
        datasets: int,
        budget: TableBudget | None,
        weights: NDArray[np.float64] | None = None,
        quality: Fraction = Fraction(0),
        clusters: Fraction = Fraction(0),
    ) -> NoisyFile:
        """The noisy tables: all that a release may show of the records. `quality` is the share of
        the budget that measures how far they end from the records, `clusters` that of the design
        effect."""
        size = self.model.size
        shown = self.survey.n if size is None else size
        asked = FileQuestion(
            self.cells,
            self.model.kept_positions(),
            order,
            datasets,
            budget,
            None if shown == "noisy" else shown,
            tuple(ruled_out(self.survey.codebook, {c.name: c for c in self.cells})),
            quality,
            clusters,
            self.clustered,
        )
        names = self.clusters if clusters else None
        records = coded_records(self.survey, self.cells, self._limited_to, weights, names)
        return measured(records, asked, self.rng("choice"))

    def clusters_error(self, budget: TableBudget, share: Fraction) -> float:
        """The error by noise to expect of the design effect of all columns."""
        kept = self.model.kept_positions()
        hidden = [j for j in range(len(self.cells)) if j not in kept]
        coded = coded_records(self.survey, self.cells[:1], None, None, self.clusters).clusters
        strata = np.zeros(1, dtype=np.int64) if coded is None else coded.stratum_of_psu
        facts = (self.cells, hidden, self.clustered, strata, self.survey.n)
        return expected_error(*facts, budget, share)

    def claimed(self, claim: Claim) -> Claim:
        """The claim with what holds for every claim about this file."""
        conditions = [*claim.conditions, *self.conditions, DECLARED_CELLS]
        if self.model.keep:
            conditions.append(SHOWN_ROWS.format(", ".join(self.model.keep)))
        elif self.model.size is None:
            conditions.append(PUBLIC_SIZE)
        unit = self.unit
        if unit is not None and self.model.keep:
            conditions.append(unit.held)
        elif unit is not None:
            records = "1 record" if unit.limit == 1 else f"{unit.limit} records"
            conditions.append(
                f"At most {records} of each `{unit.column}` counted, chosen by the values of its "
                "own records"
            )
        whom = RECORD if unit is None else unit.column
        return replace(claim, conditions=tuple(conditions), unit=whom)
