"""Regression coefficients: psi = x (y - mu(x c)), H = sum w mu' x x'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.errors import Refused
from understudy.tables.family import LinkFamily
from understudy.tables.influence.arithmetic import RecordNumber
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
class RegressionEquation(Equation):
    """y on x0, x1, ..., which hold all columns of the design matrix but the intercept.

    `wanted` are the places of the coefficients that are asked for, the intercept being 0.
    """

    name = "regression"
    everyone = False

    family: LinkFamily
    predictors: int
    wanted: tuple[int, ...]

    def released(self, files: Sequence[FileColumns]) -> ReleasedEquation:
        used = [file.used() for file in files]
        matrices = [self._matrix(file) for file in used]
        fits = [
            self.family.solve(file.columns["y"], matrix, file.weight)
            for file, matrix in zip(used, matrices, strict=True)
        ]
        beta = averaged(fits)
        breads = []
        for file, matrix in zip(used, matrices, strict=True):
            _, slope = self.family.mean_and_slope(matrix @ beta)
            breads.append((matrix * (file.weight * slope)[:, None]).T @ matrix)
        rows = list(self.wanted)
        bread = _inverse(averaged(breads))[rows]
        return ReleasedEquation(beta[rows], bread, np.zeros(len(rows)), {"c": beta})

    def psi(self, columns: RecordColumns, public: Mapping[str, Any]) -> Psi:
        predictors = [columns[f"x{number}"] for number in range(self.predictors)]
        linear: RecordNumber = float(public["c"][0])
        for coefficient, values in zip(public["c"][1:], predictors, strict=True):
            linear = linear + float(coefficient) * values
        return Psi(columns["y"] - self.family.mean(linear), [1.0, *predictors])

    def _matrix(self, file: FileColumns) -> Floats:
        predictors = [file.columns[f"x{number}"] for number in range(self.predictors)]
        return np.column_stack([np.ones(len(file.weight)), *predictors])


def _inverse(matrix: Floats) -> Floats:
    """Of a Gram matrix whose columns may have very different sizes; refused where it has none."""
    size = np.sqrt(np.diag(matrix))
    if not np.all(size > 0) or np.linalg.cond(matrix / np.outer(size, size)) > 1e12:
        raise Refused("The predictors are collinear in the synthetic files; leave one out.")
    return np.asarray(np.linalg.inv(matrix / np.outer(size, size)) / np.outer(size, size))
