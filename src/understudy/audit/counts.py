"""Audit of the mechanisms on tables of counts: MODIPS by support, and Marginals.

Neighbouring files are small surveys that go through the mechanisms' own code up to the noise; the
noise is OpenDP's, all trials in one vector. Cells with the same count on both files cancel in the
ratio and are not drawn. Two pairs each: a record among others, and a record that is alone in its
cell. The second shows that `support="observed"` leaks: on one file the cell is there, on the other
it is not, whatever epsilon is.

`add-remove` and `replace` are the relations of the claim. `blank` asks of a mechanism for `replace`
that a record leaves the table while the number of records stays: half of epsilon.
"""

from __future__ import annotations

from abc import abstractmethod

import polars as pl

from understudy.audit.attack import ALPHA, AuditRelation, Losses, MechanismAttack, Simulation
from understudy.mechanisms.modips import CountRelation
from understudy.mechanisms.row_counts import RowCounts
from understudy.models.multinomial import Multinomial
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey

FilePair = tuple[Survey, Survey]

DELTA = 1e-3  # of an audited threshold: large enough to be seen in simulations
MANY = 60  # records in a full cell: far above any threshold of the audit


class CountAttack(MechanismAttack, abstract=True):
    """The larger loss over the pairs of files."""

    relations = ("add-remove", "replace", "blank")
    leaks = False

    def pairs(self, relation: AuditRelation) -> list[FilePair]:
        return neighbours(relation)

    @abstractmethod
    def pair_losses(
        self, pair: FilePair, relation: CountRelation, simulation: Simulation, alpha: float
    ) -> tuple[float, float]:
        """What the simulation shows, at confidence limits of chance alpha, and the exact loss."""

    def losses(self, simulation: Simulation) -> Losses:
        relation, epsilon = simulation.relation, simulation.epsilon
        asked: CountRelation = "add-remove" if relation == "add-remove" else "replace"
        pairs = self.pairs(relation)
        losses = [self.pair_losses(p, asked, simulation, ALPHA / len(pairs)) for p in pairs]
        shown, exact = (max(part) for part in zip(*losses, strict=True))
        return Losses(epsilon / 2 if relation == "blank" else epsilon, shown, exact)


def neighbours(relation: AuditRelation) -> list[FilePair]:
    """Pairs of files of two columns: the record among others; the record alone in its cell."""
    full = [("a", "x")] * MANY + [("b", "y")] * MANY
    pairs = []
    # both columns change, so that every marginal table is touched twice under `replace`
    for record, instead in ((("a", "x"), ("b", "y")), (("a", "y"), ("b", "x"))):
        other = [*full, instead] if relation == "replace" else full
        pairs.append((_survey([*full, record]), _survey(other)))
    return pairs


def row_counts(file: Survey) -> RowCounts:
    return RowCounts(Multinomial(["g", "h"]), file, 1)


def _survey(rows: list[tuple[str, str]]) -> Survey:
    columns = {
        name: Column(name, role="sensitive", type="categorical", levels=levels)
        for name, levels in (("g", ("a", "b")), ("h", ("x", "y")))
    }
    return Survey(pl.DataFrame(rows, schema=["g", "h"], orient="row"), codebook=Codebook(columns))
