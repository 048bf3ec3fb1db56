"""The tables whose distance from the records is measured: a fixed selection of each kind.

They follow from the columns and the measured tables, whatever the records are (misfit.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from understudy.mechanisms.whole_file.noisy_file import NoisyFile
from understudy.survey.cells import ColumnCells
from understudy.survey.misfit import KINDS

ColumnNumbers = tuple[int, ...]

TABLES = 30  # of a kind, at most
LARGEST = 50_000  # cells of a table that is looked at


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
        size = prod(len(cells_in(noisy, cells[j], j, probe)[0]) for j in probe.columns)
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


def cells_in(
    noisy: NoisyFile, column: ColumnCells, j: int, probe: Probe
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The cells of a column in a probe (levels and the values of y by themselves, other numbers in
    coarse cells): the coarse cell of each, and the cell of each fine one."""
    fine = np.arange(column.size, dtype=np.int32)
    if column.levels or j == probe.y:
        return noisy.coarse[j], fine
    return np.arange(noisy.sizes[j], dtype=np.int32), noisy.coarse[j]
