"""difference of two groups' means: psi_a = a (y - c_a), psi_b = b (y - c_b), H = diag(N_a, N_b)."""

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
class DifferenceEquation(Equation):
    """d = w a (y - c_a)/N_a - w b (y - c_b)/N_b; a and b are 1 inside of a group and 0 outside."""

    name = "difference"
    everyone = False

    def released(self, files: Sequence[FileColumns]) -> ReleasedEquation:
        used = [file.used() for file in files]
        means, sizes = {}, {}
        for side in ("a", "b"):
            weights = [file.weight * file.columns[side] for file in used]
            sums = [w @ file.columns["y"] for w, file in zip(weights, used, strict=True)]
            of_side = np.array([w.sum() for w in weights])
            with np.errstate(divide="ignore", invalid="ignore"):
                means[side] = float(averaged(np.array(sums) / of_side))
            sizes[side] = float(averaged(of_side))
        with np.errstate(divide="ignore"):
            bread = np.array([[1 / np.float64(sizes["a"]), -1 / np.float64(sizes["b"])]])
        return ReleasedEquation(np.array([means["a"] - means["b"]]), bread, np.zeros(1), means)

    def psi(self, columns: RecordColumns, public: Mapping[str, Any]) -> Psi:
        sides = [columns[side] * (columns["y"] - public[side]) for side in ("a", "b")]
        return Psi(1.0, sides)
