"""Records whose low-order tables are given: a pool from a tree, weighted to the tables, sampled.

1. `tree`: the spanning tree of the largest mutual informations (Chow and Liu 1968).
2. `draw_pool`: records drawn from the tree's distribution, each distinct cell once, with its share.
3. The pool's weights are raked to every table (dp/raking.py).
4. `systematic`: whole numbers of records with the expected counts, to less than one record;
   `balanced` (dp/balanced.py) keeps the tables, too.

Only noisy tables come in, so nothing here can see a record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__public__ = ("distinct_cells", "draw_pool")

Vector = NDArray[np.float64]
Codes = NDArray[np.int32]
Counts = NDArray[np.int64]
ColumnNumbers = tuple[int, ...]

INDEPENDENT = 0.05  # share of the pool without dependence, so that rare pairs are in it


@dataclass(frozen=True, eq=False)
class Pool:
    """Distinct cells `codes` (U, columns) in lexicographic order, and their `weights`, sum 1.

    A column's codes lie side by side in memory: tables read few columns of all cells.
    """

    codes: Codes
    weights: Vector

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", np.asfortranarray(self.codes))


def tree(
    tables: Sequence[Vector], columns: Sequence[ColumnNumbers], roots: ColumnNumbers = ()
) -> list[tuple[int, int | None]]:
    """(column, its parent) in an order in which parents come first; `roots` have none."""
    places = sorted({column for names in columns for column in names})
    information = {}
    for table, names in zip(tables, columns, strict=True):
        for i, a in enumerate(names):
            for b in names[i + 1 :]:
                if (a, b) not in information:
                    information[a, b] = mutual_information(pair_table(table, names, a, b))
    order: list[tuple[int, int | None]] = [(root, None) for root in roots or places[:1]]
    while len(order) < len(places):
        inside = [column for column, _ in order]
        reach = [
            (information.get((min(a, b), max(a, b)), 0.0), a, b)
            for a in inside
            for b in places
            if b not in inside
        ]
        best, parent, child = max(reach, key=lambda edge: edge[0])
        order.append((child, parent if best > 0 else None))
    return order


def mutual_information(pair: Vector) -> float:
    """sum p log(p / (p_a p_b)) of a two-way table of shares."""
    outer = np.multiply.outer(pair.sum(axis=1), pair.sum(axis=0))
    used = pair > 0
    return float((pair[used] * np.log(pair[used] / outer[used])).sum())


def pair_table(table: Vector, names: ColumnNumbers, a: int, b: int) -> Vector:
    """The two-way margin of a table, a's levels in rows."""
    rest = tuple(axis for axis, name in enumerate(names) if name not in (a, b))
    pair = np.asarray(table.sum(axis=rest), dtype=np.float64)
    return pair if names.index(a) < names.index(b) else pair.T


def draw_pool(
    tables: Sequence[Vector],
    columns: Sequence[ColumnNumbers],
    size: int,
    rng: np.random.Generator,
    independent: float = INDEPENDENT,
    known: Mapping[int, Codes] | None = None,
) -> Pool:
    """`size` records along the tree, a share with independent columns, as distinct cells.

    Columns that are `known` (size,) keep their codes, and the tree grows from them.
    """
    known = known or {}
    order = tree(tables, columns, tuple(known))
    codes = np.empty((size, len(order)), dtype=np.int32)
    alone = int(independent * size)
    for column, parent in order:
        if column in known:
            codes[:, column] = known[column]
            continue
        margin = _one_way(tables, columns, column)
        codes[:, column] = _draw(margin, size, rng)
        if parent is None:
            continue
        table, names = next(
            (table, names)
            for table, names in zip(tables, columns, strict=True)
            if column in names and parent in names
        )
        conditional = pair_table(table, names, parent, column)
        for level, shares in enumerate(conditional):
            rows = alone + np.flatnonzero(codes[alone:, parent] == level)
            if rows.size and shares.sum() > 0:
                codes[rows, column] = _draw(shares, rows.size, rng)
    cells, counts = distinct_cells(codes)
    return Pool(cells, counts / size)


def distinct_cells(codes: Codes) -> tuple[Codes, Counts]:
    """The distinct rows in lexicographic order, and how often each occurs.

    Rows are packed into as few 64-bit numbers as they need, which sort much faster than rows.
    """
    levels = codes.max(axis=0).astype(np.int64) + 1
    packed: list[Counts] = []
    room = 0
    for column, count in enumerate(levels):
        if not packed or room * int(count) >= 2**63:
            packed.append(codes[:, column].astype(np.int64))
            room = int(count)
        else:
            packed[-1] = packed[-1] * count + codes[:, column]
            room *= int(count)
    order = np.argsort(packed[0]) if len(packed) == 1 else np.lexsort(packed[::-1])
    changed = np.zeros(len(codes), dtype=bool)
    changed[0] = True
    for numbers in packed:
        changed[1:] |= np.diff(numbers[order]) != 0
    first = np.flatnonzero(changed)
    return codes[order[first]], np.diff(np.append(first, len(codes)))


def thinned(weights: Vector, least: float, rng: np.random.Generator) -> Vector:
    """The weights with small ones, below `least`, either raised to it or dropped, so that each
    keeps its expectation; what is left has far fewer cells."""
    small = (weights > 0) & (weights < least)
    kept = rng.random(weights.size) * least < weights
    return np.where(small, np.where(kept, least, 0.0), weights)


def systematic(weights: Vector, size: int, rng: np.random.Generator) -> Counts:
    """Whole counts with sum `size`, each within one of size * weight: floors of a shifted sum."""
    reached = np.floor(np.cumsum(weights) * (size / weights.sum()) + rng.random())
    reached = np.minimum(reached, size)
    reached[-1] = size
    return np.asarray(np.diff(reached, prepend=0.0), dtype=np.int64)


def cell_table(
    codes: Codes, names: ColumnNumbers, shape: tuple[int, ...], weights: Vector
) -> Vector:
    """The table of these columns: the weights of the cells, added up."""
    numbers = cell_numbers(codes, names, shape)
    sums = np.bincount(numbers, weights, minlength=math.prod(shape))
    return np.asarray(sums.reshape(shape), dtype=np.float64)


def cell_numbers(codes: Codes, names: ColumnNumbers, shape: tuple[int, ...]) -> NDArray[np.intp]:
    """The place of each row in the table of these columns."""
    numbers = codes[:, names[0]].astype(np.intp)
    for name, levels in zip(names[1:], shape[1:], strict=True):
        numbers = numbers * levels + codes[:, name]
    return numbers


def _one_way(tables: Sequence[Vector], columns: Sequence[ColumnNumbers], column: int) -> Vector:
    for table, names in zip(tables, columns, strict=True):
        if column in names:
            axis = names.index(column)
            others = tuple(other for other in range(table.ndim) if other != axis)
            return np.asarray(table.sum(axis=others), dtype=np.float64)
    raise KeyError(column)


def _draw(shares: Vector, size: int, rng: np.random.Generator) -> Codes:
    distribution = np.cumsum(shares)
    drawn = np.searchsorted(distribution / distribution[-1], rng.random(size), side="right")
    return np.minimum(drawn, shares.size - 1).astype(np.int32)
