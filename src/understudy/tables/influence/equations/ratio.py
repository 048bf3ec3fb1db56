"""ratio: psi = y - c z, H = sum w z."""

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
class RatioEquation(Equation):
    """d = w (y - c z) / sum(w z)."""

    name = "ratio"
    everyone = False

    def released(self, files: Sequence[FileColumns]) -> ReleasedEquation:
        used = [file.used() for file in files]
        below = np.array([file.weight @ file.columns["z"] for file in used])
        above = np.array([file.weight @ file.columns["y"] for file in used])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio, bread = averaged(above / below), 1 / averaged(below)
        return ReleasedEquation(
            np.array([ratio]), np.array([[bread]]), np.zeros(1), {"c": float(ratio)}
        )

    def psi(self, columns: RecordColumns, public: Mapping[str, Any]) -> Psi:
        return Psi(columns["y"] - public["c"] * columns["z"], [1.0])
