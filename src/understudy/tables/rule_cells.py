"""Which combinations of cells no record can be in, by the codebook's rules alone.

A cell is a set of values, so a condition is true, false or unknown (a missing value) for some of
them; all three are kept for every combination (Kleene). A combination is ruled out when the rule
is broken whatever the values inside the cells are; where only some values break it, the
combination stays, and rules.py sees to the records.
"""

from __future__ import annotations

import ast
import datetime
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.survey.cells import ColumnCells
from understudy.survey.codebook import EPOCH, Codebook
from understudy.tables.domain import column_name, named_columns, syntax_of

Flags = NDArray[np.bool_]
MOST_COMBINATIONS = 4_000_000  # fine cells that a rule may join; larger ones are left to the repair
MOST_LIMITS = 4  # of a rule on one column's grid; a rule with more compares two numbers

_ORDERS: dict[type[ast.cmpop], Any] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True, eq=False)
class RuledOut:
    """Combinations of these columns' cells that the rule leaves no record, an axis for each."""

    rule: str
    columns: tuple[str, ...]
    cells: Flags

    def coarsened(self, coarse: Mapping[str, NDArray[Any]]) -> RuledOut:
        """The same for coarse cells: ruled out where all their fine cells are."""
        flags = self.cells
        for axis, name in enumerate(self.columns):
            groups = np.asarray(coarse[name])
            parts = [
                flags.take(np.flatnonzero(groups == k), axis).all(axis)
                for k in range(int(groups.max()) + 1)
            ]
            flags = np.stack(parts, axis)
        return RuledOut(self.rule, self.columns, flags)

    def limits(self, name: str, grid: int) -> list[int]:
        """The cells of a column's grid at which the rule begins to say something else: 16 for
        `age >= 16`. None for a rule that compares numbers with each other."""
        if name not in self.columns or grid < 2:
            return []
        along = np.moveaxis(self.cells, self.columns.index(name), 0)[:grid].reshape(grid, -1)
        changed = np.flatnonzero((along[1:] != along[:-1]).any(axis=1)) + 1
        return [int(cell) for cell in changed] if changed.size <= MOST_LIMITS else []

    def holds(self, codes: Mapping[str, NDArray[Any]]) -> Flags:
        """Which records, given by their codes, are in such a combination."""
        return np.asarray(self.cells[tuple(codes[name] for name in self.columns)])


@dataclass(frozen=True, eq=False)
class _Truth:
    """Whether a condition may be true, false, unknown; arrays that broadcast to the cells."""

    true: Flags
    false: Flags
    unknown: Flags

    def negated(self) -> _Truth:
        return _Truth(self.false, self.true, self.unknown)

    def both(self, other: _Truth) -> _Truth:
        unknown = (self.unknown & (other.true | other.unknown)) | (
            other.unknown & (self.true | self.unknown)
        )
        return _Truth(self.true & other.true, self.false | other.false, unknown)

    def either(self, other: _Truth) -> _Truth:
        return self.negated().both(other.negated()).negated()

    @property
    def surely(self) -> Flags:
        return self.true & ~self.false & ~self.unknown


def ruled_out(codebook: Codebook, cells: Mapping[str, ColumnCells]) -> list[RuledOut]:
    """Of every rule of the codebook whose columns all have cells, in fine cells."""
    excluded = []
    for rule in codebook.impossible:
        if (joined := _joined(rule, cells)) is not None:
            truth = _condition(syntax_of(rule), cells, joined)
            excluded.append(_flags(rule, joined, cells, truth.surely))
    for rule in codebook.order:
        if (joined := _joined(rule, cells)) is not None:
            truth = _condition(syntax_of(rule), cells, joined)
            excluded.append(_flags(rule, joined, cells, truth.negated().surely))
    for column in codebook:
        rule = column.applies_when
        if rule and column.name in cells and not column.derived:
            joined = _joined(rule, cells, column.name)
            if joined is not None:
                truth = _condition(syntax_of(rule), cells, joined)
                skipped = _along(skip_cells(cells[column.name]), column.name, joined)
                wrong = ~truth.true & ~skipped
                if answers_when_applies(cells[column.name]):
                    wrong = wrong | (truth.surely & skipped)
                excluded.append(_flags(f"{column.name} applies when {rule}", joined, cells, wrong))
    return [out for out in excluded if out.cells.any()]


def skip_cells(cells: ColumnCells) -> Flags:
    """The cell of records that a question does not apply to, (size,)."""
    skipped = np.zeros(cells.size, dtype=bool)
    skip = cells.column.skip
    skipped[-1 if skip is None else cells.grid_size + cells.points.index(skip)] = True
    return skipped


def answers_when_applies(cells: ColumnCells) -> bool:
    """Whether the skip's cell is empty of records that the question applies to: always, unless it
    is the empty value and the codebook says that answers may be empty."""
    return cells.column.skip is not None or cells.column.blanks is not True


def _joined(rule: str, cells: Mapping[str, ColumnCells], *more: str) -> tuple[str, ...] | None:
    """The columns of a rule; None where one has no cells or there are too many combinations."""
    columns = (*sorted(named_columns(rule) - set(more)), *more)
    if not all(name in cells for name in columns):
        return None
    product = math.prod(cells[name].size for name in columns)
    return columns if product <= MOST_COMBINATIONS else None


def _flags(
    rule: str, columns: tuple[str, ...], cells: Mapping[str, ColumnCells], flags: Flags
) -> RuledOut:
    shape = tuple(cells[name].size for name in columns)
    return RuledOut(rule, columns, np.broadcast_to(flags, shape).copy())


def _along(flags: NDArray[Any], name: str, columns: Sequence[str]) -> NDArray[Any]:
    """A vector over one column's cells, shaped to broadcast with the others."""
    shape = [1] * len(columns)
    shape[columns.index(name)] = len(flags)
    return flags.reshape(shape)


def _condition(
    node: ast.expr, cells: Mapping[str, ColumnCells], columns: tuple[str, ...]
) -> _Truth:
    if isinstance(node, ast.BoolOp):
        parts = [_condition(part, cells, columns) for part in node.values]
        return reduce(_Truth.both if isinstance(node.op, ast.And) else _Truth.either, parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _condition(node.operand, cells, columns).negated()
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        return reduce(_Truth.both, (_compared(a, op, b, cells, columns) for a, op, b in pairs))
    return _anything()


def _anything() -> _Truth:
    yes = np.ones((), dtype=bool)
    return _Truth(yes, yes, yes)


def _compared(
    left: ast.expr,
    op: ast.cmpop,
    right: ast.expr,
    cells: Mapping[str, ColumnCells],
    columns: tuple[str, ...],
) -> _Truth:
    if isinstance(op, (ast.Is, ast.IsNot)) and (name := column_name(left)) is not None:
        empty = _along(np.arange(cells[name].size) >= cells[name].missing_from, name, columns)
        truth = _Truth(empty, ~empty, np.zeros((), dtype=bool))
        return truth if isinstance(op, ast.Is) else truth.negated()
    if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, (ast.List, ast.Tuple, ast.Set)):
        parts = [_compared(left, ast.Eq(), item, cells, columns) for item in right.elts]
        truth = reduce(_Truth.either, parts) if parts else _anything()
        return truth if isinstance(op, ast.In) else truth.negated()
    a, b = _side(left, right, cells, columns), _side(right, left, cells, columns)
    if a is None or b is None:
        return _anything()
    known = a.known & b.known
    if type(op) in _ORDERS:
        ordered = _ORDERS[type(op)]
        low, high = (a.lower, b.upper), (a.upper, b.lower)
        if isinstance(op, (ast.Gt, ast.GtE)):
            low, high = high, low
        return _Truth(known & ordered(*low), known & ~ordered(*high), ~known)
    alike = known & (a.lower <= b.upper) & (b.lower <= a.upper)
    same = alike & (a.lower == a.upper) & (b.lower == b.upper)
    truth = _Truth(alike, known & ~same, ~known)
    return truth if isinstance(op, ast.Eq) else truth.negated()


@dataclass(frozen=True, eq=False)
class _Side:
    """One side of a comparison: the least and the largest value of each cell."""

    lower: NDArray[Any]
    upper: NDArray[Any]
    known: Flags


def _side(
    node: ast.expr, other: ast.expr, cells: Mapping[str, ColumnCells], columns: tuple[str, ...]
) -> _Side | None:
    """None where the cells do not tell: a text that is not equal or different to another."""
    name = column_name(node)
    if name is not None:
        inside = cells[name]
        known = _along(np.arange(inside.size) < inside.missing_from, name, columns)
        lower, upper = inside.lower, inside.upper
        if inside.levels and isinstance(inside.levels[0], str):
            lower = upper = np.array([*inside.levels, *[""] * (inside.size - len(inside.levels))])
        return _Side(_along(lower, name, columns), _along(upper, name, columns), known)
    value = _constant(node)
    across = column_name(other)
    if isinstance(value, str) and across is not None and cells[across].column.type == "date":
        try:
            value = (datetime.date.fromisoformat(value) - EPOCH).days
        except ValueError:
            return None
    if value is None:
        return None
    return _Side(np.asarray(value), np.asarray(value), np.ones((), dtype=bool))


def _constant(node: ast.expr) -> Any:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _constant(node.operand)
        return None if inner is None or isinstance(inner, str) else -inner
    return node.value if isinstance(node, ast.Constant) else None
