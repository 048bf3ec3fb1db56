"""All that touches the records of a whole file: counts with noise, and private choices.

Proof: docs/proofs/whole-file.md. In this order, each stage at its share of the budget, and each a
function of the records and of what the earlier stages gave:

1. one-way tables over the fine cells, m sets;
2. batches of picks among the candidate tables, by their distance from the fit so far, once;
3. after each batch its tables over coarse cells, m sets;
4. how far the fit to all of them is from the records, once (misfit.py), and, where the steward
   gives a share to it, on average over all tables, for readers (quality.py), and how much clusters
   add to variances (design_effect.py).

Tables over public columns alone cost nothing and have no noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from understudy.dp.choice import table_score
from understudy.dp.coarsening import coarse_cells
from understudy.mechanisms.whole_file.budget import TableBudget
from understudy.mechanisms.whole_file.design_effect import Clustered, measured_clusters
from understudy.mechanisms.whole_file.fit import Fit, Kept, allowed_by, fitted
from understudy.mechanisms.whole_file.misfit import measured_misfit
from understudy.mechanisms.whole_file.noisy_file import NoisyFile, NoisySet
from understudy.mechanisms.whole_file.plan import (
    CHOICE,
    LARGEST_TABLE,
    MISFIT,
    ONE_WAY,
    Order,
    TablePlan,
    plan_of,
)
from understudy.mechanisms.whole_file.quality import measured_quality
from understudy.one_blas_thread import one_blas_thread
from understudy.survey.cells import ColumnCells
from understudy.tables.coded_records import AnyCoded
from understudy.tables.rule_cells import RuledOut

Counts = NDArray[np.int64]
Codes = NDArray[np.int32]
ColumnNumbers = tuple[int, ...]

SMALL_POOL = 60_000  # cells of the fit that is compared with the records; a third for choices
MOST_TRIPLES = 2_000  # candidates


@dataclass(frozen=True, eq=False)
class FileQuestion:
    """What is asked of the records: their cells, the columns that are public and kept, the order
    of the tables, the number of sets, and what may be spent (None: no noise, kind `risk`)."""

    cells: tuple[ColumnCells, ...]
    kept: ColumnNumbers
    order: Order
    datasets: int
    budget: TableBudget | None
    records: int | None = None  # of each synthetic file; None: the noisy number
    rules: tuple[RuledOut, ...] = ()  # combinations of cells that the codebook leaves no record
    quality: Fraction = Fraction(0)  # share of the budget for a statement about the whole
    clusters: Fraction = Fraction(0)  # share of the budget for the design effect
    clustered: Clustered = field(default_factory=Clustered)

    @property
    def sensitive(self) -> ColumnNumbers:
        return tuple(j for j in range(len(self.cells)) if j not in self.kept)


@one_blas_thread()
def measured(records: AnyCoded, asked: FileQuestion, rng: np.random.Generator) -> NoisyFile:
    """The noisy tables of a file; `rng` is for the fits between choices, which see no record."""
    whole = asked.budget
    if whole is not None:
        asked = replace(asked, budget=whole.without(asked.quality + asked.clusters))
    noisy = _one_way(records, asked)
    counted = _total(noisy, asked)
    noisy = replace(noisy, records=asked.records or max(1, round(counted)))
    plan = _plan(asked, counted)
    noisy = replace(noisy, coarse=_coarse(noisy, asked, plan))
    coarse = records.coarse(noisy.coarse)
    kept, possible = _kept(coarse, asked), allowed_by(asked.rules, noisy)
    grids = [column.grid_size for column in asked.cells]
    if plan.tables and not plan.batches:
        names = _all_tables(asked, noisy, int(plan.order))
        noisy = _with_tables(noisy, coarse, names, asked, plan)
    for number, picks in enumerate(plan.batches):
        last = number == len(plan.batches) - 1
        names = _candidates(asked, noisy, plan, triples=last and number > 0)
        fit = fitted(noisy.averaged, rng, SMALL_POOL // 3, kept, possible, grids)
        chosen = _chosen(coarse, names, fit, asked, plan, min(picks, len(names)))
        noisy = _with_tables(noisy, coarse, chosen, asked, plan)
    fit = fitted(noisy, rng, SMALL_POOL, kept, possible, grids)
    misfit = measured_misfit(
        records, noisy, fit, asked.cells, asked.kept, asked.budget, MISFIT, rng
    )
    noisy = replace(noisy, misfit=misfit)
    if whole is not None and records.clusters is not None:
        effects = measured_clusters(
            coarse, records.clusters, noisy, fit, asked.cells, asked.sensitive, asked.clustered,
            whole, asked.clusters,
        )  # fmt: skip
        noisy = replace(noisy, clusters=effects)
    if whole is None or not asked.quality:
        return noisy
    fit = fitted(noisy, rng, None, kept, possible, grids)  # as large as that of the files
    measured = measured_quality(coarse, fit, asked.sensitive, whole, asked.quality)
    return replace(noisy, quality=measured)


def _one_way(records: AnyCoded, asked: FileQuestion) -> NoisyFile:
    """Stage 1: the tables of sensitive columns with noise, those of kept columns as they are."""
    tables = records.count([(j,) for j in range(len(asked.cells))])
    sets = []
    for _ in range(asked.datasets):
        mine = [table.astype(np.float64) for table in tables]
        hidden = [tables[j] for j in asked.sensitive]
        for j, table in zip(asked.sensitive, _noisy(hidden, ONE_WAY, asked), strict=True):
            mine[j] = table
        sets.append(NoisySet(mine, []))
    variance = 0.0
    if asked.budget is not None:
        share = ONE_WAY / asked.datasets
        variance = asked.budget.noise(len(asked.sensitive), share).variance
    return NoisyFile(
        tuple(column.name for column in asked.cells),
        tuple(np.arange(column.size, dtype=np.int32) for column in asked.cells),
        (),
        tuple(0.0 if j in asked.kept else variance for j in range(len(asked.cells))),
        (),
        tuple(sets),
        0,
    )


def _noisy(
    tables: Sequence[NDArray[np.int64 | np.float64]], share: Fraction, asked: FileQuestion
) -> list[NDArray[np.float64]]:
    """One set's tables: noise that costs an m-th of the share, or none where nothing is claimed."""
    if asked.budget is None:
        return [np.asarray(table, dtype=np.float64) for table in tables]
    exact = [np.asarray(table, dtype=np.int64) for table in tables]
    noisy = asked.budget.noisy(exact, share / asked.datasets)
    return [np.asarray(table, dtype=np.float64) for table in noisy]


def _total(noisy: NoisyFile, asked: FileQuestion) -> float:
    """The number of records, from the noisy one-way tables: each sum by its inverse variance. With
    kept columns it is public."""
    if asked.kept:
        return float(noisy.sets[0].one_way[asked.kept[0]].sum())
    sums = np.mean([[table.sum() for table in single.one_way] for single in noisy.sets], axis=0)
    return float(np.average(sums, weights=[1 / table.size for table in noisy.sets[0].one_way]))


def _plan(asked: FileQuestion, counted: float) -> TablePlan:
    # without noise the plan is that of a large budget
    budget = asked.budget or TableBudget(Fraction(1000), "rho")
    datasets = asked.datasets if asked.budget is not None else 1
    return plan_of(asked.order, counted, len(asked.cells), len(asked.kept), budget, datasets)


def _coarse(noisy: NoisyFile, asked: FileQuestion, plan: TablePlan) -> tuple[Codes, ...]:
    """Coarse cells of every column, from the average of its noisy tables; the codebook's rules do
    not change within one, if it holds enough records."""
    maps = []
    for j, column in enumerate(asked.cells):
        average = np.mean([single.one_way[j] for single in noisy.sets], axis=0)
        levels = len(column.levels) if not column.grid_size else 0
        grid = column.grid_size
        cuts = [cell for rule in asked.rules for cell in rule.limits(column.name, grid)]
        least, most = plan.least_records, plan.most_cells
        deviation = math.sqrt(noisy.one_way_variances[j] / len(noisy.sets))
        maps.append(coarse_cells(average, grid, levels, least, most, cuts, deviation))
    return tuple(maps)


def _kept(coarse: AnyCoded, asked: FileQuestion) -> Kept | None:
    if not asked.kept:
        return None
    return Kept(asked.kept, coarse.rows(asked.kept))


def _all_tables(asked: FileQuestion, noisy: NoisyFile, order: int) -> list[ColumnNumbers]:
    size = min(order, len(asked.cells))
    tables = combinations(range(len(asked.cells)), size)
    hidden = set(asked.sensitive)
    return [names for names in tables if hidden & set(names) and _cells(noisy, names) > 0]


def _candidates(
    asked: FileQuestion, noisy: NoisyFile, plan: TablePlan, triples: bool
) -> list[ColumnNumbers]:
    """Tables that may be picked: pairs, and where two measured pairs share a column, triples."""
    taken = set(noisy.measured)
    pairs = [
        names
        for names in _all_tables(asked, noisy, 2)
        if names not in taken and _cells(noisy, names) <= LARGEST_TABLE
    ]
    if not triples:
        return pairs
    joined = {
        tuple(sorted({*a, *b}))
        for a, b in combinations(noisy.measured, 2)
        if len(a) == len(b) == 2 and len({*a, *b}) == 3
    }
    small = [names for names in sorted(joined) if _cells(noisy, names) <= plan.most_triple]
    small.sort(key=lambda names: _cells(noisy, names))
    return [*pairs, *small[:MOST_TRIPLES]]


def _cells(noisy: NoisyFile, names: ColumnNumbers) -> int:
    return int(np.prod([noisy.sizes[name] for name in names]))


def _chosen(
    coarse: AnyCoded,
    names: list[ColumnNumbers],
    fit: Fit,
    asked: FileQuestion,
    plan: TablePlan,
    picks: int,
) -> list[ColumnNumbers]:
    """Stage 2: picks by the exponential mechanism, at the batch's part of the choice's share."""
    noise = plan.noise.size if asked.budget is not None else 0.0
    exact = coarse.count(names)
    scores = np.array(
        [
            table_score(np.rint(table).astype(np.int64), fit.expected(columns), noise)
            for columns, table in zip(names, exact, strict=True)
        ],
        dtype=np.int64,
    )
    if asked.budget is None:
        places = [int(position) for position in np.argsort(-scores, kind="stable")[:picks]]
    else:
        share = CHOICE * Fraction(picks, sum(plan.batches))
        places = asked.budget.picks(scores, picks, share)
    return [names[position] for position in places]


def _with_tables(
    noisy: NoisyFile,
    coarse: AnyCoded,
    names: list[ColumnNumbers],
    asked: FileQuestion,
    plan: TablePlan,
) -> NoisyFile:
    """Stage 3: these tables in every set, at their part of the measurement's share."""
    exact = coarse.count(names)
    share = plan.share * Fraction(len(names), plan.tables)
    sets = tuple(
        NoisySet(single.one_way, [*single.tables, *_noisy(exact, share, asked)])
        for single in noisy.sets
    )
    variance = 0.0
    if asked.budget is not None:
        variance = asked.budget.noise(len(names), share / asked.datasets).variance
    return replace(
        noisy,
        measured=(*noisy.measured, *names),
        table_variances=(*noisy.table_variances, *[variance] * len(names)),
        sets=sets,
    )
