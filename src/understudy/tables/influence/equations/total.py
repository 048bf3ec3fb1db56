"""total: sum w y, or N sum(w y)/sum(w) where the population size N is public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.tables.influence.arithmetic import known_or_zero, where_inside
from understudy.tables.influence.equation import (
    Equation,
    FileColumns,
    Floats,
    Psi,
    RecordColumns,
    ReleasedEquation,
    averaged,
)


@dataclass(frozen=True)
class TotalEquation(Equation):
    """Without N: psi = y, to be compared with the constant c. With N: psi = N y - c, H = sum w.

    Records outside of the domain count with y = 0: in the second form they are part of sum(w).
    """

    name = "total"
    everyone = True

    population: float | None = None

    def released(self, files: Sequence[FileColumns]) -> ReleasedEquation:
        sums = np.array([file.weight @ _counted(file) for file in files])
        if self.population is None:
            total = averaged(sums)
            return ReleasedEquation(
                np.array([total]), np.ones((1, 1)), np.array([total]), {"c": 0.0}
            )
        sizes = np.array([file.size for file in files])
        total = averaged(self.population * sums / sizes)
        bread = np.array([[1 / averaged(sizes)]])
        return ReleasedEquation(np.array([total]), bread, np.zeros(1), {"c": float(total)})

    def psi(self, columns: RecordColumns, public: Mapping[str, Any]) -> Psi:
        factor = 1.0 if self.population is None else float(self.population)
        return Psi(factor * columns["y"] - public["c"], [1.0])


def _counted(file: FileColumns) -> Floats:
    return np.asarray(where_inside(file.inside, known_or_zero(file.columns["y"])))
