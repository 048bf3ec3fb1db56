"""Audit of counts where a claim is for a household: Modips, Marginals, histograms, Laplace tables.

A household of four is planted, all of whose records say the same; the codebook says that three
count. It is there or not (`add-remove`), or all of it says something else (`replace`). Files go
through the mechanisms' own counting and scaling up to the noise, which is OpenDP's. A mutant that
counts all four, or adds the noise of one record, must be caught.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import polars as pl

from understudy.audit.attack import ALPHA, AuditRelation, Losses, MechanismAttack, Simulation
from understudy.audit.counts import DELTA
from understudy.audit.epsilon_bound import shown_loss
from understudy.dp.histogram import SENSITIVITY, histogram_counts, histogram_edges
from understudy.dp.noise import Counts, exact_scale, integer_laplace
from understudy.mechanisms.laplace_table import GRID, on_grid, table_values
from understudy.mechanisms.marginals import Marginals, marginal_counts
from understudy.mechanisms.modips import Modips
from understudy.mechanisms.row_counts import RowCounts
from understudy.models.multinomial import Multinomial
from understudy.survey.codebook import Codebook, Column
from understudy.survey.design import Design
from understudy.survey.survey import Survey
from understudy.tables.units import Unit, unit_codes, unit_of, values_within_limit

MEMBERS, LIMIT = 4, 3  # of the planted household; as many of a household count
MANY = 20  # other households of one person for each cell
BOUNDS, WEIGHTS = (0.0, 10.0), (1.0, 3.0)
ERRORS = ("limit-missing", "noise-for-one")


@dataclass(frozen=True)
class _Counted:
    """What a mechanism adds noise to, and the sensitivity that scales it."""

    counts: Counts
    sensitivity: int


class HouseholdAttack(MechanismAttack, abstract=True):
    trials = 200_000
    leaks = False

    @abstractmethod
    def counted(self, file: Survey, relation: Any, epsilon: float, mutant: str | None) -> _Counted:
        """What noise is added to, by the mechanism's own code."""

    def files(self, relation: AuditRelation) -> list[Survey]:
        return neighbouring_files(relation)

    def losses(self, simulation: Simulation) -> Losses:
        relation, epsilon, mutant = simulation.relation, simulation.epsilon, simulation.mutant
        counted = [self.counted(file, relation, epsilon, mutant) for file in self.files(relation)]
        return Losses(epsilon, *_loss(counted, epsilon, simulation.trials))


class ModipsUnitsAttack(HouseholdAttack):
    name = "modips-public-units"
    relations = ("add-remove", "replace")
    mutants: ClassVar[tuple[str, ...]] = ERRORS

    def counted(self, file: Survey, relation: Any, epsilon: float, mutant: str | None) -> _Counted:
        mechanism = Modips(epsilon, "public", relation)
        counts, per_unit = _row_counts(file, mutant)
        return _Counted(mechanism.cells(counts).counts, mechanism.sensitivity * per_unit)


class ThresholdUnitsAttack(ModipsUnitsAttack):
    """Among others the threshold is far below; a household alone in its cell is hidden by it."""

    name = "modips-threshold-units"
    relations = ("add-remove", "replace")
    mutants = (*ERRORS, "threshold-for-one")

    def losses(self, simulation: Simulation) -> Losses:
        claimed, shown, exact = super().losses(simulation)
        seen, hidden = _alone(simulation)
        return Losses(claimed, max(shown, seen), max(exact, hidden))


class MarginalsUnitsAttack(HouseholdAttack):
    name = "marginals-units"
    relations = ("add-remove", "replace")
    mutants = ERRORS

    def counted(self, file: Survey, relation: Any, epsilon: float, mutant: str | None) -> _Counted:
        mechanism = Marginals(epsilon, order=1, relation=relation)
        counts, per_unit = _row_counts(file, mutant)
        columns = mechanism.columns(1)
        tables = marginal_counts(mechanism.cells(counts), columns)
        return _Counted(np.concatenate(tables), mechanism.sensitivity(len(columns), 1, per_unit))


class HistogramUnitsAttack(HouseholdAttack):
    name = "histogram-units"
    relations = ("replace",)  # the number of records is public
    mutants = ERRORS

    def counted(self, file: Survey, relation: Any, epsilon: float, mutant: str | None) -> _Counted:  # noqa: ARG002
        codes, values = unit_codes(file), file.frame(["y"])["y"].to_numpy()
        assert codes is not None
        limit = MEMBERS if mutant == "limit-missing" else LIMIT
        edges = histogram_edges(BOUNDS, 5, file.n)
        counts = histogram_counts(values_within_limit(codes, values, limit), edges)
        return _Counted(counts, SENSITIVITY * (1 if mutant == "noise-for-one" else LIMIT))


class LaplaceUnitsAttack(HouseholdAttack):
    """The weighted count of one cell, on the grid on which its noise is drawn."""

    name = "laplace-table-units"
    relations = ("replace",)  # the number of records is public
    mutants = ("noise-for-one",)  # all records of a household are in the table

    def files(self, relation: AuditRelation) -> list[Survey]:
        return neighbouring_files(relation, weighed=True)

    def counted(self, file: Survey, relation: Any, epsilon: float, mutant: str | None) -> _Counted:  # noqa: ARG002
        (values,) = table_values(file, "count", "declared")
        cell = (file.frame(["g"])["g"] == "b").to_numpy().astype(np.int64)
        ones = np.ones(file.n)
        sensitivity = values.sensitivity(ones, cell, 2)
        if mutant == "noise-for-one":
            sensitivity /= values.per_unit
        steps, whole = on_grid(values.estimate(values.w, cell, 2), sensitivity)
        assert whole in (GRID, GRID + 1)
        return _Counted(steps, whole)


def neighbouring_files(relation: AuditRelation, weighed: bool = False) -> list[Survey]:
    """A file with the planted household, and its neighbour. `weighed`: the household has other
    weights in the same cell, because cells of a Laplace table are public."""
    rows = [(f"{g}{k}", g, v, 2.0) for g, v in (("a", 1.0), ("b", 9.0)) for k in range(MANY)]
    here = [("planted", "a", 1.0, WEIGHTS[0])] * MEMBERS
    there = [("planted", "a" if weighed else "b", 9.0, WEIGHTS[1])] * MEMBERS
    if weighed:  # a table holds no more of a household than the codebook says
        here, there = here[:LIMIT], there[:LIMIT]
    other = there if relation == "replace" else []
    return [_survey([*rows, *here]), _survey([*rows, *other])]


def _survey(rows: list[tuple[str, str, float, float]]) -> Survey:
    columns = {
        "home": Column("home", "unit", "text"),
        "g": Column("g", "sensitive", "categorical", levels=("a", "b", "c")),
        "y": Column("y", "sensitive", "continuous", bounds=BOUNDS),
        "w": Column("w", "weight", "continuous", bounds=WEIGHTS),
    }
    frame = pl.DataFrame(rows, schema=["home", "g", "y", "w"], orient="row")
    codebook = Codebook(columns, records_per_unit=LIMIT)
    return Survey(frame, Design(weight="w"), codebook)


def _row_counts(file: Survey, mutant: str | None) -> tuple[RowCounts, int]:
    """The counts of rows, and the records of a household that the noise is scaled for."""
    unit = unit_of(file)
    counted = Unit("home", MEMBERS) if mutant == "limit-missing" else unit
    counts = RowCounts(Multinomial(["g"]), file, 1, unit=counted)
    return counts, 1 if mutant == "noise-for-one" else LIMIT


def _loss(counted: list[_Counted], epsilon: float, trials: int) -> tuple[float, float]:
    """What simulations show, and the largest loss by the noise's own law."""
    first, second = (each.counts for each in counted)
    differing = np.flatnonzero(first != second)
    sensitivity = counted[0].sensitivity
    base = np.tile(first[differing], trials)
    noise = integer_laplace(base, sensitivity, epsilon) - base  # one draw serves both files
    low, high = (pick(first, second)[differing] for pick in (np.minimum, np.maximum))
    sign = np.where(first > second, 1, -1)[differing]
    symbols = []
    for counts in (first, second):
        noisy = (np.tile(counts[differing], trials) + noise).reshape(trials, -1)
        # beyond both counts the ratio is constant; every cell there speaks for one of the files
        votes = sign * ((noisy >= high).astype(np.int64) - (noisy <= low))
        symbols.append(votes.sum(axis=1) + differing.size)
    shown = shown_loss(symbols[0], symbols[1], 2 * differing.size + 1, ALPHA / 2)
    return shown, int(np.abs(first - second).sum()) / exact_scale(sensitivity, epsilon)


def _alone(simulation: Simulation) -> tuple[float, float]:
    """The household alone in its cell, which the other file does not have: it may be seen with
    chance delta. `threshold-for-one` is a threshold for one record."""
    epsilon, trials, mutant = simulation.epsilon, simulation.trials, simulation.mutant
    mechanism = Modips(epsilon, "threshold", cast(Any, simulation.relation), DELTA)
    per_unit = 1 if mutant in ("noise-for-one", "threshold-for-one") else LIMIT
    counted = MEMBERS if mutant == "limit-missing" else LIMIT
    noise_for = 1 if mutant == "noise-for-one" else LIMIT
    tiled = np.full(trials, counted)
    noisy = integer_laplace(tiled, mechanism.sensitivity * noise_for, epsilon)
    seen = (noisy >= mechanism.threshold(1, per_unit)).astype(np.int64)
    shown = shown_loss(seen, np.zeros(trials, dtype=np.int64), 2, ALPHA / 2, DELTA)
    scale = exact_scale(mechanism.sensitivity * noise_for, epsilon)
    steps = mechanism.threshold(1, per_unit) - counted
    chance = math.exp(-max(steps, 0) / scale) / (1 + math.exp(-1 / scale))
    return shown, math.inf if chance > DELTA * (1 + 1e-9) else 0.0
