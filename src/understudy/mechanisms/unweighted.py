"""Unweighted: the posterior itself (methods §1), or multiple synthesis from counts (M §2.2.4).

No epsilon is claimed: how well a record is protected is measured, not bounded.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from understudy.claim import Claim, several
from understudy.mechanisms.contract import (
    Fitted,
    Fitter,
    Mechanism,
    Prepared,
    ReleasedFile,
    ReleasedRows,
    plain_terms,
)
from understudy.mechanisms.outputs.cell_draws import CellCounts, noted
from understudy.mechanisms.outputs.file_tables import FileTables
from understudy.mechanisms.row_counts import RowCounts
from understudy.mechanisms.whole_file.file_counts import FileCounts
from understudy.models.contract import Model, RowsModel
from understudy.survey.survey import Survey
from understudy.tables.cross_table import CrossTable

REAL_ROWS = "Every row is a combination of values that some confidential record has"


def real_combinations(table: CrossTable) -> str:
    """For the steward's eyes: what is drawn from exact counts, and how many records are alone."""
    alone = int((table.counts == 1).sum())
    return (
        f"Multinomial without noise draws real combinations only: each of its rows is one of the "
        f"{table.cells:,} that records have, and {alone:,} of these are of a single record. "
        "Marginals or Modips draw others too; so does WholeFile."
    )


@dataclass(frozen=True)
class Unweighted(Mechanism):
    """f_i: the posterior itself; with a Multinomial model, MS."""

    claims = "risk"
    relation = "blank"
    seeded = True
    fits = 1
    synthesizes = "outcome, rows or file"
    hands_out = "rows"
    epsilon = None
    delta = 0.0
    needs_records = False

    def prepare(self, fitter: Fitter, datasets: int) -> Prepared:  # noqa: ARG002
        return Prepared(plain_terms(fitter))

    def claim(self, prepared: Prepared, fitted: Fitted, datasets: int) -> Claim:  # noqa: ARG002
        return Claim("risk", None, mechanism=f"Unweighted, {several(datasets, 'draw')}")

    def release_file(self, counts: FileCounts, datasets: int) -> ReleasedFile:
        """The tables of a whole file as they are: every data set is made from the same."""
        claim = Claim(
            "risk", None, mechanism=f"Tables without noise, {several(datasets, 'data set')}"
        )
        tables = FileTables(counts.measured("chosen", datasets, None))
        return ReleasedFile(tables, counts.claimed(claim))

    def forecast(self, model: Model, survey: Survey, datasets: int) -> list[str]:  # noqa: ARG002
        if not isinstance(model, RowsModel):
            return []
        return [real_combinations(RowCounts(model, survey).occupied)]

    def cells(self, counts: RowCounts) -> CrossTable:
        return counts.occupied

    def release_rows(self, counts: RowCounts, datasets: int) -> ReleasedRows:
        """MS: each data set from the exact counts (M §2.2.4)."""
        table = self.cells(counts)
        warnings.warn(real_combinations(table), UserWarning, stacklevel=2)
        claim = Claim(
            "risk",
            None,
            conditions=(*counts.conditions, REAL_ROWS),
            mechanism=f"Multinomial synthesis (MS), {several(datasets, 'data set')}",
        )
        return ReleasedRows(CellCounts((noted(table),) * datasets, exact=True), claim)
