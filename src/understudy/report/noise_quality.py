"""What the noise of a whole file does to its tables, for the public page: it costs nothing.

A cell's noise has a public variance v in each of m sets. Of a table whose cells are c_1, c_2, ...
fine cells each, the average over the sets differs from the truth by noise by a total variation of

    sum_k E|noise_k| / (2 n),   E|noise_k| <= sqrt(2 c_k v / (pi m))

with equality for Gaussian noise; for Laplace noise it is a little less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from understudy.report.numbers import fixed
from understudy.report.public_facts import PublicFacts

MOST_TABLES = 20
COLUMNS = ("one column", "two columns", "three columns")


def noise_quality(draws: Sequence[Mapping[str, Any]], facts: PublicFacts) -> dict[str, Any] | None:
    """Rows of the columns and of the measured tables; None where the draws hold no such tables."""
    if not draws or "one_way_variances" not in draws[0]:
        return None
    first, m = draws[0], len(draws)
    labels = [facts.label(name) for name in first["columns"]]
    members = [np.bincount(mapped).astype(np.float64) for mapped in first["coarse"]]
    fewest = min(range(len(labels)), key=lambda j: len(first["coarse"][j]))
    n = float(np.mean([sum(draw["one_way"][fewest]) for draw in draws]))  # the noisy total
    together: list[set[int]] = [set() for _ in labels]
    for names in first["measured"]:
        for name in names:
            together[name] |= set(names) - {name}
    columns = [
        (
            labels[j],
            f"{members[j].size:,}",
            _share(_moved(members[j], variance, m, n)),
            _counted_with(labels, j, together[j]),
        )
        for j, variance in enumerate(first["one_way_variances"])
    ]
    tables = []
    for names, variance in zip(first["measured"], first["table_variances"], strict=True):
        cells = math.prod(members[name].size for name in names)
        moved = _moved(np.ones(cells), variance, m, n)
        tables.append((moved, " by ".join(labels[name] for name in names), f"{cells:,}"))
    tables.sort(key=lambda table: -table[0])
    some = f"; the {MOST_TABLES} largest of {len(tables)}" if len(tables) > MOST_TABLES else ""
    pairs = {tuple(sorted(pair)) for j, others in enumerate(together) for pair in _pairs(j, others)}
    left = math.comb(len(labels), 2) - len(pairs)
    return {
        "columns": columns,
        "tables": [(name, cells, _share(moved)) for moved, name, cells in tables[:MOST_TABLES]],
        "some": some,
        "left": _left(left, math.comb(len(labels), 2)),
        "measured": _measured(first.get("quality", ())),
        "clusters": _clusters(first.get("clusters")),
    }


def _measured(quality: Sequence[Mapping[str, Any]]) -> str:
    """What was measured, at a part of the epsilon; nothing where none was given to it."""
    if not quality:
        return ""
    parts = [
        f"{_share(measured['distance'])} ({measured['tables']:,} tables of "
        f"{COLUMNS[measured['columns'] - 1]}; standard error "
        f"{fixed(measured['error'], 4)})"
        for measured in quality
    ]
    return (
        "How far the tables that the records are drawn from are from the confidential ones was "
        "measured, with noise that is part of the claim. The mean total variation, with all that "
        f"noise and fit do: {', '.join(parts)}."
    )


def _clusters(measured: Mapping[str, Any] | None) -> str:
    if not measured:
        return ""
    return (
        "How much larger variances are because the sample was drawn in clusters was measured, too, "
        "with noise that is part of the claim: the design effect of all columns together is "
        f"{fixed(measured['design_effect'], 2)} (standard error by noise "
        f"{fixed(measured['error'], 2)}, half of which has been added)."
    )


def _counted_with(labels: Sequence[str], column: int, others: set[int]) -> str:
    """The shorter of two lists: the columns, or those that are missing among all."""
    missing = set(range(len(labels))) - others - {column}
    if not missing:
        return "all others"
    if not others:
        return "no other"
    shorter = sorted(others if len(others) <= len(missing) else missing)
    return ("" if len(others) <= len(missing) else "all but ") + ", ".join(
        labels[k] for k in shorter
    )


def _left(left: int, pairs: int) -> str:
    if left == 0:
        return "Every pair of columns was counted together."
    return (
        f"{left:,} of {pairs:,} pairs of columns were not counted together: in the files they "
        "depend on each other only as far as the counted tables imply it."
    )


def _pairs(column: int, others: set[int]) -> list[tuple[int, int]]:
    return [(column, other) for other in others]


def _moved(members: Any, variance: float, m: int, n: float) -> float:
    sizes = np.sqrt(2 * members * variance / (math.pi * m))
    return float(min(1.0, sizes.sum() / (2 * n)))


def _share(share: float) -> str:
    return fixed(share, 3)
