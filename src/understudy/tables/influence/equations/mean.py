"""mean: psi = y - c, H = sum w. A proportion is the mean of 1 where the record has the level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.tables.influence.equation import (
    Equation,
    FileColumns,
    Psi,
    RecordColumns,
    ReleasedEquation,
    averaged,
)


@dataclass(frozen=True)
class MeanEquation(Equation):
    """d = w (y - c) / N, N the population size of the synthetic files."""

    name = "mean"
    everyone = False

    def released(self, files: Sequence[FileColumns]) -> ReleasedEquation:
        used = [file.used() for file in files]
        mean = averaged([file.weight @ file.columns["y"] / file.size for file in used])
        size = averaged([file.size for file in used])
        return ReleasedEquation(
            np.array([mean]), np.array([[1 / size]]), np.zeros(1), {"c": float(mean)}
        )

    def psi(self, columns: RecordColumns, public: Mapping[str, Any]) -> Psi:
        return Psi(columns["y"] - public["c"], [1.0])
