"""Identification risk of patterns with very many records, piece by piece.

A pattern is cut into ranges of the first target, its pieces. Which points lie in a record's ball is
a question to the points near the ends of that ball: the lower ends of a piece's balls lie in one
rim, the upper ends in another, and what is between the rims is in all of its balls and needs only
be counted. So a piece has its own records, and the points in its rims (its halo); with several
targets, all points between the outer ends. The numbers are those of the whole pattern.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import ibis
import ibis.expr.types as ir
import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.risk.correspondence import sensitive_values, without_categories
from understudy.risk.identification import count_inside
from understudy.risk.patterns import Floats, Integers, RadiusKind, ball_edges, patterns_of
from understudy.survey.collected import collected
from understudy.survey.partition_work import gathered, in_pieces

LARGEST = 1_000_000  # records of a pattern that is not cut, and of a piece, about
PATTERN, PIECE, OWN = "understudy_pattern", "understudy_piece", "understudy_own"
WIDER = 1e-9  # rims are this much wider than rounding could make necessary


@dataclass(frozen=True, eq=False)
class Ends:
    """Of each piece: its pattern and its size, where it begins, and the ends of its two rims."""

    pattern: Integers
    size: Integers
    begins: Floats
    outer: tuple[Floats, Floats]  # the lowest lower end of its balls, the highest upper one
    inner: tuple[Floats, Floats]  # the highest lower end, the lowest upper one

    @property
    def count(self) -> int:
        return self.pattern.size

    def pieces_of(self, pattern: int) -> Integers:
        return np.flatnonzero(self.pattern == pattern)

    def in_rims(self, piece: int, points: Floats) -> NDArray[np.bool_]:
        """Which points must be compared with its balls one by one."""
        between = (points > self.inner[0][piece]) & (points < self.inner[1][piece])
        within = (points >= self.outer[0][piece]) & (points <= self.outer[1][piece])
        return np.asarray(within & ~between)

    def between(self, piece: int, points: Floats) -> int:
        """How many of these sorted points lie between its rims: in all of its balls."""
        low, high = self.inner[0][piece], self.inner[1][piece]
        past = np.searchsorted(points, high, "left") - np.searchsorted(points, low, "right")
        return max(0, int(past))


@dataclass(frozen=True, eq=False)
class Large:
    """The large patterns of a table, and what is done with their records. `shown` are the columns
    of the points: of each synthetic file, or the targets themselves where there is none."""

    targets: tuple[str, ...]
    shown: tuple[tuple[str, ...], ...]
    radii: Floats
    kind: RadiusKind
    synthetic: bool
    ends: Ends
    between: Integers = field(repr=False)  # (points' files, pieces)

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The risk of a piece's own records, from these and its halo."""
        piece, own = int(frame[PIECE][0]), frame[OWN].to_numpy()
        values = sensitive_values(frame, self.targets, "the confidential data")[:, own]
        lower, upper = ball_edges(values, self.radii, self.kind)
        size, balls = int(self.ends.size[piece]), np.zeros(values.shape[1], dtype=np.int64)
        total = np.zeros(values.shape[1])
        for number, names in enumerate(self.shown):
            points = sensitive_values(frame, names, f"synthetic data set {number + 1}")
            near = points[:, self.ends.in_rims(piece, points[0])]
            whole = patterns_of(np.zeros(near.shape[1], dtype=np.int64), 1)
            inside = count_inside(near, whole, lower, upper, balls) + self.between[number, piece]
            risk = (size - inside) / size
            if self.synthetic:
                theirs = points[:, own]
                in_ball = np.logical_and.reduce((theirs >= lower) & (theirs <= upper), axis=0)
                risk = np.where(in_ball, risk, 0.0)
            total += risk
        return frame.filter(own).with_columns(risk=pl.Series(total / len(self.shown)))


def large_patterns(table: ir.Table, known: Sequence[str], target: str) -> pl.DataFrame:
    """Known values, size and range of the patterns that are cut."""
    value = table[target].cast("float64")
    facts = {"size": table.count(), "low": value.min(), "high": value.max()}
    by = table.group_by(list(known)).aggregate(**facts) if known else table.aggregate(**facts)
    return collected(by.filter(by["size"] > LARGEST))


def marked(table: ir.Table, known: Sequence[str], large: pl.DataFrame) -> ir.Table:
    """The records with the number of their pattern; -1 where it is not cut."""
    if not known:
        return table.mutate(**{PATTERN: ibis.literal(0, "int64")})
    cases = []
    for number, row in enumerate(large.select(known).iter_rows(named=True)):
        same = [
            table[name].isnull()
            if value is None
            else table[name].identical_to(ibis.literal(value, table[name].type()))
            for name, value in row.items()
        ]
        cases.append((ibis.and_(*same), ibis.literal(number, "int64")))
    return table.mutate(**{PATTERN: ibis.cases(*cases, else_=ibis.literal(-1, "int64"))})


def risk_in_pieces(
    table: ir.Table,
    large: pl.DataFrame,
    targets: tuple[str, ...],
    shown: tuple[tuple[str, ...], ...],
    radii: Floats,
    kind: RadiusKind,
    schema: ibis.Schema,
) -> ir.Table:
    """The records of large patterns, which are marked, with their risk, where they are."""
    ends = _ends(table, large, targets, radii, kind)
    counted = gathered(table, partial(_between, ends, shown))
    between = np.sum([each[0] for each in counted], axis=0)
    work = Large(targets, shown, radii, kind, shown != (targets,), ends, between)
    spread = partial(_spread, ends, targets[0], shown)
    return in_pieces(table, spread, {PIECE: pl.Int64(), OWN: pl.Boolean()}, work, schema)


def _ends(
    table: ir.Table, large: pl.DataFrame, targets: tuple[str, ...], radii: Floats, kind: RadiusKind
) -> Ends:
    """Pieces of about as many records: where they are cut changes no number."""
    value = table[targets[0]].cast("float64")
    most = max(-(-int(size) // LARGEST) for size in large["size"])
    cuts = {f"cut_{k}": value.approx_quantile(k / most) for k in range(1, most)}
    quantiles = collected(table.group_by(PATTERN).aggregate(**cuts)).sort(PATTERN)
    every: list[Floats] = []
    pattern: list[int] = []
    size: list[int] = []
    for number, (records, low, high) in enumerate(large["size", "low", "high"].iter_rows()):
        inner = np.unique([quantiles[name][number] for name in cuts])
        begins = np.array([low, *inner[(inner > low) & (inner < high)], high])
        radius = radii[:1]
        ranges = np.column_stack([begins[:-1], begins[1:]])
        middle = np.clip(0.0, ranges[:, 0], ranges[:, 1])  # where |y| has its bend
        at = np.column_stack([ranges, middle])
        lower, upper = ball_edges(at, radius, kind)
        room = WIDER * (np.abs(at).max(axis=1) + float(radius[0, 0]))
        every.append(
            np.array([ranges[:, 0], lower.min(axis=1) - room, lower.max(axis=1) + room,
                      upper.min(axis=1) - room, upper.max(axis=1) + room])
        )  # fmt: skip
        pattern += [number] * len(ranges)
        size += [int(records)] * len(ranges)
    begins, lowest, low_end, high_end, highest = np.hstack(every)
    if len(targets) > 1:  # what is between in one target need not be in the others
        low_end, high_end = highest, lowest
    return Ends(np.array(pattern), np.array(size), begins, (lowest, highest), (low_end, high_end))


def _by_pattern(frame: pl.DataFrame) -> Iterator[tuple[int, NDArray[np.intp]]]:
    codes = frame[PATTERN].to_numpy()
    for pattern in np.unique(codes):
        yield int(pattern), np.flatnonzero(codes == pattern)


def _points(frame: pl.DataFrame, shown: Sequence[Sequence[str]]) -> list[Floats]:
    """The first target of each file's points."""
    return [frame[names[0]].cast(pl.Float64).to_numpy() for names in shown]


def _between(
    ends: Ends, shown: Sequence[Sequence[str]], frame: pl.DataFrame
) -> list[NDArray[np.int64]]:
    """Of some records: how many lie between the rims of each piece of their pattern."""
    counts, points = np.zeros((len(shown), ends.count), dtype=np.int64), _points(frame, shown)
    for pattern, rows in _by_pattern(frame):
        for number, each in enumerate(points):
            ordered = np.sort(each[rows])
            for piece in ends.pieces_of(pattern):
                counts[number, piece] = ends.between(piece, ordered)
    return [counts]


def _spread(
    ends: Ends, target: str, shown: Sequence[Sequence[str]], frame: pl.DataFrame
) -> pl.DataFrame:
    """Records once for each piece that they are needed in: their own, and those whose halo has a
    point of theirs."""
    frame = without_categories(frame)
    values, points = frame[target].cast(pl.Float64).to_numpy(), _points(frame, shown)
    parts = []
    for pattern, rows in _by_pattern(frame):
        pieces = ends.pieces_of(pattern)
        own = np.searchsorted(ends.begins[pieces], values[rows], "right") - 1
        for order, piece in enumerate(pieces):
            near = [ends.in_rims(piece, each[rows]) for each in points]
            needed = np.logical_or.reduce([own == order, *near])
            part = frame[rows[needed]]
            mine = pl.Series(OWN, (own == order)[needed])
            parts.append(part.with_columns(pl.lit(int(piece), pl.Int64).alias(PIECE), mine))
    return pl.concat(parts)
