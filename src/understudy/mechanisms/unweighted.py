"""Unweighted: the posterior itself (methods §1), or multiple synthesis from counts (M §2.2.4).

No epsilon is claimed: how well a record is protected is measured, not bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

from understudy.claim import Claim
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
from understudy.tables.cross_table import CrossTable


@dataclass(frozen=True)
class Unweighted(Mechanism):
    """f_i: the posterior itself; with a Multinomial model, MS."""

    claims = "risk"
    relation = "blank"
    seeded = True
    fits = 1
    synthesizes = "outcome, rows or file"
    epsilon = None

    def prepare(self, fitter: Fitter, datasets: int) -> Prepared:  # noqa: ARG002
        return Prepared(plain_terms(fitter))

    def claim(self, prepared: Prepared, fitted: Fitted, datasets: int) -> Claim:  # noqa: ARG002
        return Claim("risk", None, mechanism=f"Unweighted, {datasets} draws")

    def release_file(self, counts: FileCounts, datasets: int) -> ReleasedFile:
        """The tables of a whole file as they are: every data set is made from the same."""
        claim = Claim("risk", None, mechanism=f"Tables without noise, {datasets} data sets")
        tables = FileTables(counts.measured("chosen", datasets, None))
        return ReleasedFile(tables, counts.claimed(claim))

    def cells(self, counts: RowCounts) -> CrossTable:
        return counts.occupied

    def release_rows(self, counts: RowCounts, datasets: int) -> ReleasedRows:
        """MS: each data set from the exact counts (M §2.2.4)."""
        table = self.cells(counts)
        claim = Claim(
            "risk",
            None,
            conditions=counts.conditions,
            mechanism=f"Multinomial synthesis (MS), {datasets} data sets",
        )
        return ReleasedRows(CellCounts((noted(table),) * datasets, exact=True), claim)
