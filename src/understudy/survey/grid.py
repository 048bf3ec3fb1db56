"""Edges of the cells into which a number is counted, from public facts alone.

Edges are exact fractions: a multiple of the declared rounding lies in one cell, whatever the
rounding of floating-point numbers. A cell holds its lower edge and not its upper one; the last
holds both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from understudy.errors import Refused
from understudy.survey.codebook import Column

MOST_CELLS = 250  # of a grid that nobody gave
AIM = 200  # cells of a grid whose width is chosen
SMALLEST_SHARE = Fraction(1, 10**6)  # of the larger bound: where a grid by ratios begins
DENSITIES = (48, 24, 12, 6, 3, 1)  # cells in a factor of ten


def exact(number: float) -> Fraction:
    """The decimal that a person wrote: 0.1 is a tenth."""
    return Fraction(repr(float(number)))


def rounding_of(column: Column) -> Fraction | None:
    """The steps that the column's values stand on: 1 for whole numbers and days."""
    whole = column.type in ("integer", "date")
    if column.rounding is None:
        return Fraction(1) if whole else None
    step = exact(column.rounding)
    if whole and step.denominator != 1:
        raise Refused(
            f"Column `{column.name}` has whole numbers, so its rounding must be one; correct its "
            "type or its rounding."
        )
    return step


def grid_edges(column: Column) -> list[Fraction]:
    """The edges of the column's grid, from the lower bound to the upper one.

    A rounded number with few values has a cell for each, and then the upper bound stands twice.
    """
    low, high = bounds_of(column)
    step = rounding_of(column)
    kind = column.grid
    if kind is None:
        kind = "log" if column.transform == "log" or column.role == "weight" else "linear"
    if step is not None and (high - low) / step < MOST_CELLS and isinstance(kind, str):
        return [low, *(edge for edge in _multiples(step, low, high) if edge > low), high]
    elif kind == "linear":
        inner = _multiples(_step(high - low, step), low, high)
    elif kind == "log":
        inner = _by_ratio(low, high, step)
    else:
        inner = [exact(edge) for edge in kind]
    if step is not None:
        inner = [math.ceil(edge / step) * step for edge in inner]
    return [low, *sorted({edge for edge in inner if low < edge < high}), high]


def bounds_of(column: Column) -> tuple[Fraction, Fraction]:
    """The column's bounds; those of its own edges where it has no others."""
    edges = column.grid if isinstance(column.grid, tuple) else None
    bounds = column.bounds or (None if edges is None else (edges[0], edges[-1]))
    if bounds is None:
        raise Refused(
            f"Column `{column.name}` has no bounds in the codebook; declare them, or leave the "
            "column out."
        )
    if edges is not None and (edges[0] < bounds[0] or edges[-1] > bounds[1]):
        raise Refused(
            f"The edges of column `{column.name}` reach beyond its bounds; correct one of them."
        )
    return exact(bounds[0]), exact(bounds[1])


def _step(span: Fraction, rounding: Fraction | None) -> Fraction:
    """The least of 1, 2, 5, 10, ... (times the rounding) that makes at most `AIM` cells."""
    unit = rounding or Fraction(10) ** math.floor(math.log10(span / AIM))
    while True:
        for factor in (1, 2, 5):
            if span <= AIM * factor * unit:
                return factor * unit
        unit *= 10


def _multiples(step: Fraction, low: Fraction, high: Fraction) -> list[Fraction]:
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _by_ratio(low: Fraction, high: Fraction, rounding: Fraction | None) -> list[Fraction]:
    """Edges of nearly equal ratio, of two figures; on both sides of 0, which is an edge.

    Numbers nearer to 0 than the rounding, or than a millionth of the larger bound, share a cell.
    """
    largest = max(-low, high)
    start = low if low > 0 else -high if high < 0 else rounding or largest * SMALLEST_SHARE
    power = math.floor(math.log10(start))
    decades = range(power, math.floor(math.log10(largest)) + 1)
    for density in DENSITIES:
        figures = 2 if density > 12 else 1
        mantissas = sorted({round(Fraction(10 ** (j / density)), figures) for j in range(density)})
        sizes = [mantissa * Fraction(10) ** k for k in decades for mantissa in mantissas]
        edges = [size for size in sizes if size >= start]
        edges = sorted({*edges, *(-edge for edge in edges), Fraction(0)})
        edges = [edge for edge in edges if low < edge < high]
        if len(edges) <= AIM:
            return edges
    return edges


def support(
    edges: Sequence[Fraction], step: Fraction, special: Sequence[Fraction]
) -> tuple[list[Fraction], list[tuple[int, int]]]:
    """The lower edges of the cells that hold a multiple of `step` besides special values, and the
    first and last such multiples. A cell without one joins its neighbour."""
    taken = {value / step for value in special}
    starts: list[Fraction] = []
    multiples: list[tuple[int, int]] = []
    for k, (edge, after) in enumerate(pairwise(edges)):
        first = math.ceil(edge / step)
        last = math.floor(after / step) if k == len(edges) - 2 else math.ceil(after / step) - 1
        while first <= last and first in taken:
            first += 1
        while last > first and last in taken:
            last -= 1
        if first <= last:
            starts.append(edge)
            multiples.append((first, last))
    return starts, multiples
