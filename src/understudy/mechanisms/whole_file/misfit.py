"""How far the fit of a whole file is from its records, measured at a small price.

The spread between the m files shows their noise. It does not show what the fit adds: tables that
were not measured, smoothing, negative counts that became none, cells that were merged. For each
kind of table (survey/misfit.py) the distance between the records and the fit is measured, added up
over the tables of the kind:

    sum over tables and groups   |sum over the group's records of z - n E z|

Groups are the cells of a table. z is what a record adds to the error of an estimate, over its root
mean square in the group: 1 for a count, y - mean for a mean, w and w (y - mean) where the file has
weights; it is cut at 2, or 3 with weights. z and n E z come from the noisy tables alone, so that a
record moves a table's part by at most the cut (docs/proofs/whole-file.md). What a deviation of
variance t e, e the expected records of a group, lets expect is that of distance_figures.py. A group
with the share p of the records has 1 - p of its e: what is missing in one is too much in others (of
two groups, the same number of records). In a measured table it is what the fit made of noise, and
as many records in each group (`evenly`). Where the mean of all records is off, too, with a misfit
t_0, a group has p t_0 e of it besides. A sampling variance is e in the same unit, so that t is the
misfit per unit of it.

Counts by one column are not measured: the fit meets the margin that the noisy tables agree on, and
how far rules keep it from that is public (`beside_margin`).

Means of one number may be much further off than those of another, and some tables than others: the
distance of each table is measured by itself.

Of the sample's own fluctuation the fit does not follow a part g, so that a deviation has g e of it
besides, and the estimate lacks as much: t - g is published. g is that of interactions, which have
prod(1 - 1/k) of the degrees of freedom (columns of k cells) over the 1 - 1/G that G groups have
beside their sum; all of it where the table was not measured, and in counts by a measured one 1 - K
of it, K what drawing the table to a smooth one keeps of a cell. (Of the sampling variance the
estimate has K^2, a deviation (1 - K)^2: its own variance less 2 g is what is left of both.) g goes
by the groups' sampling variances; where t does not, it is taken off on average over the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from understudy.dp.choice import UNITS
from understudy.mechanisms.whole_file.budget import TableBudget
from understudy.mechanisms.whole_file.distance_figures import Groups, figures_of, misfit_of
from understudy.mechanisms.whole_file.fit import Fit, fine_shares, runs_of
from understudy.mechanisms.whole_file.noisy_file import NoisyFile
from understudy.mechanisms.whole_file.within_cells import fine_codes, scores_within
from understudy.survey.cells import ColumnCells
from understudy.survey.misfit import KINDS, Misfit, OwnFigure
from understudy.tables.coded_records import AnyCoded
from understudy.tables.variance_factor import evenly

Vector = NDArray[np.float64]
Whole = NDArray[np.int64]
ColumnNumbers = tuple[int, ...]

TABLES = 30  # of a kind, at most
LARGEST = 50_000  # cells of a table that is looked at
PARTS = {"counts": 1, "means": 2}  # of the share: means of few groups need less noise


@dataclass(frozen=True)
class Probe:
    """A table whose distance is measured: groups by `names`, of the number `y`, weighted by `w`."""

    names: ColumnNumbers
    y: int | None = None
    w: int | None = None

    @property
    def columns(self) -> ColumnNumbers:
        return (*self.names, *(j for j in (self.y, self.w) if j is not None))

    @property
    def cut(self) -> int:
        """The most that one record counts."""
        if self.w is not None:
            return 3
        return 1 if self.y is None else 2


def measured_misfit(
    records: AnyCoded,
    noisy: NoisyFile,
    fit: Fit,
    cells: Sequence[ColumnCells],
    kept: ColumnNumbers,
    budget: TableBudget | None,
    share: Fraction,
    rng: np.random.Generator,
) -> Misfit:
    """The misfit of a fit, from the records at a share of the budget; `rng` sees no record."""
    view = _View(noisy, fit, cells, rng)
    kinds = {key: probes for key, probes in probes_of(noisy, cells, kept).items() if probes}
    kind_figures: dict[tuple[str, str], float] = {}
    of_numbers: dict[str, dict[tuple[str, str], float]] = {}
    own: list[OwnFigure] = [
        ("counts", (name,), view.beside_margin(j))
        for j, name in enumerate(noisy.columns)
        if j not in kept
    ]
    seen: list[_Seen] = []
    for key, probes in kinds.items():
        looks = [view.look(probe) for probe in probes]
        tables = _counted(records, noisy, cells, probes)
        apart = [look.distance(table) for look, table in zip(looks, tables, strict=True)]
        distances, noise = np.array(apart, dtype=np.int64), 0.0
        if budget is not None:
            part = Fraction(PARTS[key[0]], sum(PARTS[statistic] for statistic, _ in kinds))
            moved = [UNITS * probe.cut for probe in probes]
            distances, noise = budget.noisy_numbers(distances, moved, share * part)
        seen.append(_Seen(key, probes, looks, distances / UNITS, noise / UNITS))
    of_all = {y: t for kind in seen for y, t in kind.alone()}
    for kind in seen:
        key, probes, measured = kind.key, kind.probes, kind.key[1] == "measured"
        free = [view.free(probe, key) for probe in probes]
        groups = [
            look.groups(of_all.get(-1 if probe.y is None else probe.y, 0.0), part, measured)
            for probe, look, part in zip(probes, kind.looks, free, strict=True)
        ]
        numbers = [-1 if probe.y is None else probe.y for probe in probes]
        of_kind = figures_of(kind.distances, kind.noise, groups, numbers)
        kind_figures[key] = of_kind.together
        for y, t in of_kind.of_numbers.items():
            if y >= 0:
                of_numbers.setdefault(noisy.columns[y], {})[key] = t
        own += [
            (key[0], tuple(noisy.columns[j] for j in probe.columns), t)
            for probe, t in zip(probes, of_kind.of_tables, strict=True)
        ]
    return Misfit(
        tuple(tuple(noisy.columns[j] for j in columns) for columns in noisy.measured),
        _all_kinds("counts", kind_figures),
        _all_kinds("means", kind_figures),
        tuple(noisy.columns[j] for j in kept),
        {name: _all_kinds("means", by_kind) for name, by_kind in of_numbers.items()},
        tuple(own),
    )


@dataclass(frozen=True, eq=False)
class _Seen:
    """The tables of a kind, with their distances and the noise of these."""

    key: tuple[str, str]
    probes: list[Probe]
    looks: list[_Look]
    distances: Vector
    noise: float

    def alone(self) -> list[tuple[int, float]]:
        """The misfit of the mean of all records, of each number: as much as noise leaves of it."""
        return [
            (probe.y, misfit_of(float(distance), look.expected, look.spread + self.noise**2))
            for probe, look, distance in zip(self.probes, self.looks, self.distances, strict=True)
            if probe.y is not None and not probe.names
        ]


def _all_kinds(statistic: str, figures: dict[tuple[str, str], float]) -> tuple[float, ...]:
    """One figure for each kind; a kind without tables has the largest of the kinds before it, and
    means without numbers those of counts."""
    result: list[float] = []
    for kind in KINDS:
        before = max(result, default=0.0)
        other = figures.get(("counts", kind), before)
        result.append(figures.get((statistic, kind), max(before, other)))
    return tuple(result)


def probes_of(
    noisy: NoisyFile, cells: Sequence[ColumnCells], kept: ColumnNumbers
) -> dict[tuple[str, str], list[Probe]]:
    """The tables of each kind that are looked at: a fixed selection, whatever the records are."""
    listed: dict[tuple[str, str], list[Probe]] = {
        (statistic, kind): [] for statistic in ("counts", "means") for kind in KINDS
    }
    measured = [set(names) for names in noisy.measured]
    levels = [j for j, column in enumerate(cells) if column.levels]
    weight = next((j for j, column in enumerate(cells) if column.column.role == "weight"), None)
    others = [j for j in range(len(cells)) if j != weight]
    numbers = [j for j in others if not cells[j].levels and j not in kept]
    of_counts = (2, 3) if weight is None else (1, 2)  # columns of a count beside the weight
    probes = [Probe(by, None, weight) for k in of_counts for by in combinations(others, k)]
    probes += [
        Probe(by, y, weight) for k in range(3) for by in combinations(levels, k) for y in numbers
    ]
    for probe in probes:
        columns = set(probe.columns)
        size = prod(len(_cells_in(noisy, cells[j], j, probe)[0]) for j in probe.columns)
        if columns <= set(kept) or size > LARGEST:
            continue
        kind = "pairs" if len(columns) == 2 else "more"
        if len(columns) == 1 or any(columns <= names for names in measured):
            kind = "measured"
        listed["counts" if probe.y is None else "means", kind].append(probe)
    return {key: _some(candidates) for key, candidates in listed.items()}


def _some(probes: list[Probe]) -> list[Probe]:
    """At most so many, evenly spaced."""
    if len(probes) <= TABLES:
        return probes
    return [probes[int(k)] for k in np.linspace(0, len(probes) - 1, TABLES)]


@dataclass(frozen=True, eq=False)
class _Look:
    """What the fit expects of a probe, for each group: z of its cells and their expected sum, in
    whole units; records, and the variance of the average over the sets."""

    scores: Whole  # (groups, cells)
    target: Whole
    expected: Vector
    spread: Vector

    def groups(self, of_all: float, free: float, even: bool = False) -> Groups:
        """The groups, where the mean of all records has the misfit `of_all`; `even`: all are off by
        as many records."""
        records = float(self.expected.sum())
        share = self.expected / max(records, 1e-9)
        if share.size < 2:
            return Groups(self.expected, self.spread, free)
        sampling = self.expected * (1 - share)
        parts = self.expected * evenly(share, records) if even else sampling
        known = of_all * share * self.expected + free * sampling
        of_parts = free * float(sampling.sum()) / max(float(parts.sum()), 1e-9)
        return Groups(parts, self.spread, of_parts, known)

    def distance(self, counts: Whole) -> int:
        sums = (counts.reshape(self.scores.shape) * self.scores).sum(axis=1)
        return int(np.abs(sums - self.target).sum())


class _View:
    """The fit's tables over levels and coarse or fine cells of numbers, of each set. The pool's
    cells have fine ones as the files' records have them (within_cells.py)."""

    def __init__(
        self,
        noisy: NoisyFile,
        fit: Fit,
        cells: Sequence[ColumnCells],
        rng: np.random.Generator,
    ) -> None:
        self.noisy, self.fit, self.cells = noisy, fit, cells
        self.weights = [fit.weights_of(number) for number in range(len(noisy.sets))]
        grids = [column.grid_size for column in cells]
        self.shares = fine_shares(noisy, fit, grids)
        tables = (tuple(sorted(names)) for names in fit.tables)
        self.followed = dict(zip(tables, fit.followed, strict=True))
        runs, codes = runs_of(noisy, grids), fit.pool.codes
        numbers = [j for j, column in enumerate(cells) if not column.levels]
        maps = [noisy.coarse[j] for j in numbers]
        self.fine: list[dict[int, NDArray[np.int32]]] = []
        for weights, shares in zip(self.weights, self.shares, strict=True):
            scores = scores_within(codes, weights, noisy.measured, runs, rng)
            known = {number: scores[j] for number, j in enumerate(numbers) if j in scores}
            within = [shares[j] for j in numbers]
            fine = fine_codes(codes[:, numbers], within, maps, rng, known, weights)
            self.fine.append(dict(zip(numbers, fine, strict=True)))

    def look(self, probe: Probe) -> _Look:
        tables = [self._table(probe, number) for number in range(len(self.weights))]
        sets = np.array(tables).reshape(len(tables), prod(tables[0].shape[: len(probe.names)]), -1)
        groups = sets.mean(axis=0)
        y = np.ones(groups.shape[1]) if probe.y is None else self._values(probe, probe.y)
        w = np.ones(groups.shape[1]) if probe.w is None else self._values(probe, probe.w)
        z, answers = scores_of(groups, None if probe.y is None else y, w, probe.cut)
        target = np.rint((groups * z).sum(axis=1)).astype(np.int64)
        return _Look(z, target, answers, _between([(t * z).sum(axis=1) / UNITS for t in sets]))

    def beside_margin(self, j: int) -> float:
        """The misfit of counts by one column: of the sets' fits beside the noisy margins that they
        were made to meet, on average."""
        margin = self.fit.total * np.mean([of_set.margins[j] for of_set in self.fit.sets], axis=0)
        codes = self.fit.pool.codes[:, j]
        sums = [np.bincount(codes, weights, minlength=margin.size) for weights in self.weights]
        apart = np.abs(self.fit.total * np.mean(sums, axis=0) - margin).sum()
        parts = margin * (1 - margin / self.fit.total)
        return misfit_of(float(apart), parts, np.zeros_like(parts))

    def free(self, probe: Probe, key: tuple[str, str]) -> float:
        """The part of a table's fluctuation that its smaller tables do not show, as far as the fit
        does not follow it. What a mean by a measured table follows is not that of a cell."""
        lost = 1.0
        if key[1] == "measured":
            lost = 1 - self.followed.get(probe.names, 1.0) if key[0] == "counts" else 0.0
        sizes = [len(_cells_in(self.noisy, self.cells[j], j, probe)[0]) for j in probe.names]
        groups = prod(sizes)
        return lost * prod(1 - 1 / size for size in sizes) * groups / max(groups - 1, 1)

    def _values(self, probe: Probe, j: int) -> Vector:
        """The number that each cell of the last axes stands for, (cells,): means of coarse ones."""
        coarse, merged = _cells_in(self.noisy, self.cells[j], j, probe)
        share = np.mean([shares[j] for shares in self.shares], axis=0)
        value = self.cells[j].expected
        sums = np.bincount(merged, share * np.nan_to_num(value), minlength=len(coarse))
        size = np.bincount(merged, share, minlength=len(coarse))
        plain = np.bincount(merged, value, minlength=len(coarse)) / np.bincount(merged)
        mean = np.divide(sums, size, out=plain.copy(), where=(size > 0) & ~np.isnan(plain))
        if probe.y is None or probe.w is None:
            return mean
        other = len(_cells_in(self.noisy, self.cells[probe.w], probe.w, probe)[0])
        numbers = len(_cells_in(self.noisy, self.cells[probe.y], probe.y, probe)[0])
        return np.repeat(mean, other) if j == probe.y else np.tile(mean, numbers)

    def _table(self, probe: Probe, number: int) -> Vector:
        """n p of one set, spread from coarse cells over those of the probe."""
        columns, codes = probe.columns, self.fit.pool.codes
        shape = tuple(self.cells[j].size if j == probe.y else self.noisy.sizes[j] for j in columns)
        places = [self.fine[number][j] if j == probe.y else codes[:, j] for j in columns]
        numbers = np.ravel_multi_index(places, shape)
        sums = np.bincount(numbers, self.weights[number], minlength=prod(shape))
        table = sums.reshape(shape)
        for axis, j in enumerate(columns):
            coarse, merged = _cells_in(self.noisy, self.cells[j], j, probe)
            if j == probe.y or len(coarse) == shape[axis]:
                continue
            share = np.bincount(merged, self.shares[number][j], minlength=len(coarse))
            along = [1] * table.ndim
            along[axis] = len(coarse)
            table = np.take(table, coarse, axis=axis) * share.reshape(along)
        return np.asarray(self.fit.total * table, dtype=np.float64)


def scores_of(groups: Vector, y: Vector | None, w: Vector, cut: int) -> tuple[Whole, Vector]:
    """z of each (group, cell) in whole units, and the expected records of each group with a value:
    w, or w (y - mean), over its root mean square in the group, cut; 0 where a cell has no number.
    """
    known = ~np.isnan(w) & (True if y is None else ~np.isnan(y))
    table = groups * known
    weight = np.where(known, w, 0.0)
    z = np.broadcast_to(weight, groups.shape)
    if y is not None:
        number = np.where(known, y, 0.0)
        total = np.maximum(table @ weight, 1e-9)
        z = weight * (number - ((table @ (weight * number)) / total)[:, None])
    answers = table.sum(axis=1)
    size = np.sqrt((table * z**2).sum(axis=1) / np.maximum(answers, 1e-9))[:, None]
    z = np.divide(z, size, out=np.zeros_like(table), where=size > 1e-12)
    return np.rint(UNITS * np.clip(z, -cut, cut) * known).astype(np.int64), answers


def _between(values: Sequence[Vector]) -> Vector:
    """The variance of the average over the sets, as their spread shows it."""
    if len(values) == 1:
        return np.zeros_like(values[0])
    return np.asarray(np.var(values, axis=0, ddof=1) / len(values), dtype=np.float64)


def _cells_in(
    noisy: NoisyFile, column: ColumnCells, j: int, probe: Probe
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The cells of a column in a probe (levels and the values of y by themselves, other numbers in
    coarse cells): the coarse cell of each, and the cell of each fine one."""
    fine = np.arange(column.size, dtype=np.int32)
    if column.levels or j == probe.y:
        return noisy.coarse[j], fine
    return np.arange(noisy.sizes[j], dtype=np.int32), noisy.coarse[j]


def _counted(
    records: AnyCoded, noisy: NoisyFile, cells: Sequence[ColumnCells], probes: Sequence[Probe]
) -> list[Whole]:
    """The records' tables in the cells of the probes."""
    asked = [
        (probe.columns, [_cells_in(noisy, column, j, probe)[1] for j, column in enumerate(cells)])
        for probe in probes
    ]
    return [np.rint(table).astype(np.int64) for table in records.count_merged(asked)]
