"""correlation: psi = u v - c (u^2 + v^2)/2 of the standardised y and z, H = sum w."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
class CorrelationEquation(Equation):
    """The influence function of a correlation, with u = (y - m_y)/s_y and v = (z - m_z)/s_z.

    Means and standard deviations are parameters too; what they do to the correlation cancels but
    for the term with the squares (the delta method over the five moments).
    """

    name = "correlation"
    everyone = False

    def released(self, files: Sequence[FileColumns]) -> ReleasedEquation:
        used = [file.used() for file in files]
        facts = np.array([moments(file) for file in used])
        correlation = float(averaged(facts[:, 4] / np.sqrt(facts[:, 2] * facts[:, 3])))
        my, mz, vy, vz, _ = (float(number) for number in averaged(facts))
        public = {"c": correlation, "y": (my, vy**0.5), "z": (mz, vz**0.5)}
        size = averaged([file.size for file in used])
        return ReleasedEquation(
            np.array([correlation]), np.array([[1 / size]]), np.zeros(1), public
        )

    def psi(self, columns: RecordColumns, public: Mapping[str, Any]) -> Psi:
        u, v = ((columns[n] - public[n][0]) / public[n][1] for n in ("y", "z"))
        return Psi(u * v - public["c"] / 2 * (u * u + v * v), [1.0])


def moments(file: FileColumns) -> Floats:
    """Means, variances and covariance of y and z."""
    y, z, share = file.columns["y"], file.columns["z"], file.weight / file.size
    my, mz = share @ y, share @ z
    return np.array(
        [my, mz, share @ (y - my) ** 2, share @ (z - mz) ** 2, share @ ((y - my) * (z - mz))]
    )
