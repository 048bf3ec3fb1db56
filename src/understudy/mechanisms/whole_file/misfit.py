"""How far the fit of a whole file is from its records, measured at a small price.

The spread between the m files shows their noise. It does not show what the fit adds: tables that
were not measured, smoothing, negative counts that became none, cells that were merged. For each
kind of table (survey/misfit.py) the distance between the records and the fit is measured, added up
over the tables of the kind:

    sum over tables and groups   |sum over the group's records of z - n E z|

Groups are the cells of a table. z is what a record adds to the error of an estimate, over its root
mean square in the group: 1 for a count, y - mean for a mean, w and w (y - mean) where the file has
weights; it is cut at 2, or 3 with weights. z and n E z come from the noisy tables alone, so that a
record moves a table's part by at most the cut (docs/proofs/whole-file.md). A deviation is taken as
the sum of a double exponential one with variance t e, e the expected records of a group, and of
normal noise with variance b, that of the average over the files, which their spread shows; its
expected size has a closed form (`expected_size`). A group with the share p of the records has 1 - p
of its e: what is missing in one is too much in others (of two groups, the same number of records).
In means by a measured table it is what the fit made of noise, and as many records in each group
(`evenly`). Where the mean of all records is off, too, with a misfit t_0, a group has p t_0 e of it
besides. t is the one that gives the distance, with half a standard deviation of its noise on top. A
sampling variance is e in the same unit, so that t is the misfit per unit of it.

Means of one number may be much further off than those of another, and some tables than others: the
distance of each table is measured by itself. A number's tables together are drawn to what all
numbers suggest, and a table to what its number's suggest, as far as noise is large beside the
differences (`drawn_to`).

In tables that were not measured, a part g of t is the sample's own fluctuation, which the fit does
not follow: g = prod(1 - 1/k) over columns of k cells, as interactions have degrees of freedom, over
the 1 - 1/K that all K groups have beside their sum. The fit's estimate lacks that part of the
sampling variance too, so that t - 2g is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

from understudy.dp.choice import UNITS
from understudy.mechanisms.whole_file.budget import TableBudget
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
CAUTION = 0.5  # standard deviations of its noise that are added to a distance
PARTS = {"counts": 1, "means": 2}  # of the share: means of few groups need less noise
WIDEST = 1e6  # misfit, where the distance is beyond all measure


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
    figures: dict[tuple[str, str], float] = {}
    of_numbers: dict[str, dict[tuple[str, str], float]] = {}
    own: list[OwnFigure] = []
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
        key, probes = kind.key, kind.probes
        free = [0.0 if key[1] == "measured" else view.free(probe) for probe in probes]
        even = key == ("means", "measured")
        groups = [
            look.groups(of_all.get(-1 if probe.y is None else probe.y, 0.0), part, even)
            for probe, look, part in zip(probes, kind.looks, free, strict=True)
        ]
        numbers = [-1 if probe.y is None else probe.y for probe in probes]
        of_kind = _figures(kind.distances, kind.noise, groups, numbers)
        figures[key] = of_kind.together
        for y, t in of_kind.of_numbers.items():
            if y >= 0:
                of_numbers.setdefault(noisy.columns[y], {})[key] = t
        own += [
            (key[0], tuple(noisy.columns[j] for j in probe.columns), t)
            for probe, t in zip(probes, of_kind.of_tables, strict=True)
        ]
    return Misfit(
        tuple(tuple(noisy.columns[j] for j in columns) for columns in noisy.measured),
        _all_kinds("counts", figures),
        _all_kinds("means", figures),
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


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of some tables: what each has of a misfit, in records, the variance of the average
    over the sets, the part of the sampling variance that the fit does not follow, and the variance
    of what all groups have in common."""

    expected: Vector
    spread: Vector
    free: float
    shared: Vector | None = None

    @staticmethod
    def of(parts: Sequence[Groups]) -> Groups:
        sizes = [part.expected.size for part in parts]
        return Groups(
            np.concatenate([part.expected for part in parts]),
            np.concatenate([part.spread for part in parts]),
            float(np.average([part.free for part in parts], weights=sizes)),
            np.concatenate([part.in_common for part in parts]),
        )

    @property
    def in_common(self) -> Vector:
        return np.zeros_like(self.expected) if self.shared is None else self.shared

    def distance(self, t: float) -> float:
        """What a misfit of t lets expect."""
        heavy = t * self.expected + self.in_common
        return max(float(expected_size(heavy, self.spread).sum()), 1e-9)

    def plain(self, distance: float) -> float:
        return misfit_of(distance, self.expected, self.spread, self.in_common)

    def misfit(self, distance: float, error: float) -> float:
        """The figure that is published: with caution, and without what sampling explains."""
        return max(self.plain(distance + CAUTION * error) - 2 * self.free, 0.0)


@dataclass(frozen=True)
class _Figures:
    together: float
    of_numbers: dict[int, float]
    of_tables: list[float]


def _figures(
    distances: Vector, noise: float, tables: Sequence[Groups], numbers: Sequence[int]
) -> _Figures:
    """The misfit of all tables together, of each number's and of each one."""
    every, total = Groups.of(tables), float(distances.sum())
    t, error = every.plain(total), noise * len(tables) ** 0.5
    names = sorted(set(numbers))
    inside = [[k for k, y in enumerate(numbers) if y == name] for name in names]
    groups = [Groups.of([tables[k] for k in places]) for places in inside]
    sums = np.array([distances[places].sum() for places in inside])
    errors = noise * np.sqrt([len(places) for places in inside])
    bases = [(t, error / every.distance(t))] * len(names)
    of_numbers = drawn_to(bases, sums, errors, groups)
    of_number = {
        name: (mine.plain(distance), wrong / mine.distance(mine.plain(distance)))
        for name, mine, (distance, wrong) in zip(names, groups, of_numbers, strict=True)
    }
    bases = [of_number[y] for y in numbers]
    of_tables = drawn_to(bases, distances, np.full(len(tables), noise), tables)
    return _Figures(
        every.misfit(total, error),
        {y: mine.misfit(*own) for y, mine, own in zip(names, groups, of_numbers, strict=True)},
        [mine.misfit(*own) for mine, own in zip(tables, of_tables, strict=True)],
    )


def common_and_own(
    distances: Vector, noise: float, tables: Sequence[Groups]
) -> tuple[float, float, list[float]]:
    """The misfit of all tables together with the error that noise gives it, and of each."""
    figures = _figures(distances, noise, tables, [0] * len(tables))
    every, error = Groups.of(tables), noise * len(tables) ** 0.5
    least = max(float(distances.sum()), every.distance(0.0))
    return figures.together, every.plain(least + error) - every.plain(least), figures.of_tables


def drawn_to(
    bases: Sequence[tuple[float, float]],
    distances: Vector,
    errors: Vector,
    groups: Sequence[Groups],
) -> list[tuple[float, float]]:
    """Distances with their errors, drawn to what `bases` let expect: a misfit for each, and the
    relative error of that expectation.

    Over the expectation, distances vary around 1 with variance v, found by moments beyond their
    noise s, sum (d - 1)^2 / s^2 = sum (1 + v / s^2); a share v / (v + s^2) of a deviation is kept
    (empirical Bayes). Noise differs much: that of small groups must not stand for differences.
    """
    expected = np.array([mine.distance(t) for mine, (t, _) in zip(groups, bases, strict=True)])
    ratio, s = distances / expected, errors / expected
    kept = np.ones_like(s)
    if errors.any():
        precision = 1 / np.maximum(s, 1e-9) ** 2
        v = max(float(np.sum(precision * (ratio - 1) ** 2 - 1) / np.sum(precision)), 0.0)
        kept = v / (v + s**2)
    drawn = expected * (1 + kept * (ratio - 1))
    of_base = np.array([error for _, error in bases])
    wrong = expected * np.sqrt(kept * s**2 + ((1 - kept) * of_base) ** 2)
    return [(float(d), float(e)) for d, e in zip(drawn, wrong, strict=True)]


def misfit_of(
    distance: float, expected: Vector, spread: Vector, shared: Vector | float = 0.0
) -> float:
    """t whose expected distance this is; 0 where the spread, and what groups share, explain it."""
    from scipy.optimize import brentq  # which takes a tenth of the time of a release's imports

    def missing(t: float) -> float:
        return float(expected_size(t * expected + shared, spread).sum()) - distance

    if missing(0.0) >= 0:
        return 0.0
    return WIDEST if missing(WIDEST) <= 0 else float(brentq(missing, 0.0, WIDEST, rtol=1e-6))


def expected_size(heavy: Vector, normal: Vector) -> Vector:
    """E|L + N| of a double exponential L and a normal N with these variances, elementwise.

    E|L + x| = |x| + l exp(-|x|/l) for L of scale l; E exp(-a|N|) = exp(a^2 s^2/2) erfc(a s/2^.5).
    """
    scale, s = np.sqrt(heavy / 2), np.sqrt(normal)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        part = scale * erfcx(s / (np.sqrt(2) * scale))
    return np.asarray(s * np.sqrt(2 / np.pi) + np.where(scale > 0, part, 0.0), dtype=np.float64)


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
    most = 3 if weight is None else 2  # columns of a count beside the weight
    probes = [Probe(by, None, weight) for k in range(1, most + 1) for by in combinations(others, k)]
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
        shared = of_all * share * self.expected
        part = evenly(share, records) if even else 1 - share
        return Groups(self.expected * part, self.spread, free, shared)

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

    def free(self, probe: Probe) -> float:
        """The part of a table's fluctuation that its smaller tables do not show."""
        sizes = [len(_cells_in(self.noisy, self.cells[j], j, probe)[0]) for j in probe.names]
        groups = prod(sizes)
        return prod(1 - 1 / size for size in sizes) * groups / max(groups - 1, 1)

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
