"""One pass over the confidential file: whole numbers per unit, held by the clip, added exactly.

A record's influences in clips become whole numbers of G = 2^30 steps; a unit's numbers are added,
shrunk to the clip, and all units' numbers are added. Whole numbers add up to the same sum in any
order and in any engine. Whatever a record holds, a unit's numbers are within the clip; what is not
a number counts as 0 (docs/proofs/influence.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from understudy.tables.influence.arithmetic import known_or_zero
from understudy.tables.influence.clip import Floats, Norm

GRID = 2**30  # steps of a clip
RECORD = float(2**45)  # steps that one record of a unit can have: 2^18 records fit 64 bits

Steps = NDArray[np.int64]


def sensitivity(estimates: int) -> int:
    """By how many steps one unit more or less moves the sums, in the clip's norm.

    One number is held exactly. Several are shrunk together and then rounded, each by up to a half;
    the shrinking itself is exact to 1e-6 of a step.
    """
    return GRID if estimates == 1 else GRID + estimates


def unit_sums(
    table: ir.Table,
    influences: Sequence[Any],
    steps: Floats,
    norm: Norm,
    unit: str | None = None,
    per_unit: Floats | None = None,
) -> ir.Table:
    """The (1, k) table of summed steps, as an expression; columns s0, s1, ...

    `influences` are expressions over `table`, `steps` how many steps a unit of each is;
    `per_unit` is a public number that every unit has less. Without `unit` each record is one.
    """
    count = len(influences)
    constants = np.zeros(count) if per_unit is None else per_unit
    scaled = [value * float(step) for value, step in zip(influences, steps, strict=True)]
    if unit is None:
        shifted = [_shifted(v, c * s) for v, c, s in zip(scaled, constants, steps, strict=True)]
        rows = table.select(**{f"v{j}": known_or_zero(v) for j, v in enumerate(shifted)})
    else:
        whole = {f"r{j}": _whole(_held(known_or_zero(v), RECORD)) for j, v in enumerate(scaled)}
        records = table.select(table[unit].name("unit"), **whole)
        summed = records.group_by("unit").aggregate(
            **{f"r{j}": records[f"r{j}"].sum() for j in range(count)}
        )
        numbers = [summed[f"r{j}"].cast("float64") for j in range(count)]
        shifted = [_shifted(v, c * s) for v, c, s in zip(numbers, constants, steps, strict=True)]
        rows = summed.select(**{f"v{j}": v for j, v in enumerate(shifted)})
    values = [rows[f"v{j}"] for j in range(count)]
    if count > 1:
        # held first: an infinite number times the factor would leave the clip
        rows = rows.select(**{f"v{j}": _held(v, RECORD) for j, v in enumerate(values)})
        rows = rows.mutate(factor=_factor([rows[f"v{j}"] for j in range(count)], norm))
        held_values = [rows[f"v{j}"] * rows["factor"] for j in range(count)]
    else:
        held_values = [_held(values[0], GRID)]
    held = rows.select(**{f"v{j}": _whole(v) for j, v in enumerate(held_values)})
    return held.aggregate(**{f"s{j}": held[f"v{j}"].sum() for j in range(count)})


def steps_of(row: dict[str, Any], count: int) -> Steps:
    """The sums of a pass that was run; of no record they are 0."""
    return np.array([int(row[f"s{j}"] or 0) for j in range(count)], dtype=np.int64)


def _shifted(value: Any, constant: float) -> Any:
    return value if constant == 0 else value - float(constant)


def _factor(values: Sequence[Any], norm: Norm) -> Any:
    if norm == 1:
        length = reduce(add, [value.abs() for value in values])
    else:
        length = reduce(add, [value * value for value in values]).sqrt()
    return ibis.least(1.0, GRID / ibis.greatest(length, 1.0))


def _held(value: Any, limit: float) -> Any:
    return ibis.greatest(ibis.least(value, float(limit)), -float(limit))


def _whole(value: Any) -> Any:
    """Rounded by `floor`, which all engines have alike; casting rounds in some of them."""
    return (value + 0.5).floor().cast("int64")
