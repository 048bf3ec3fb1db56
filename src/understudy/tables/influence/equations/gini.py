"""gini: psi = g(y) - c y - k with g(y) = E |y - Y|, Y of the synthetic files, and H = sum w y.

c = E |Y - Y'|/(2 E Y) is a function of the distribution, not the root of an equation of its own.
Its influence function at the synthetic distribution is (g(y) - c y - c E Y)/E Y. g is a sum over
the means of equal shares of the synthetic files, so that a record's psi is a short expression, and
k is what makes the sum of psi 0 over these files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.errors import Refused
from understudy.tables.gini_coefficient import gini_coefficient
from understudy.tables.influence.arithmetic import RecordNumber, absolute
from understudy.tables.influence.equation import (
    Equation,
    FileColumns,
    Floats,
    Psi,
    RecordColumns,
    ReleasedEquation,
    averaged,
)

SHARES = 64
NEGATIVE = "Gini's coefficient needs values that are not negative; ask about another variable."


@dataclass(frozen=True)
class GiniEquation(Equation):
    """d = w (g(y) - c y - k) / sum(w y)."""

    name = "gini"
    everyone = False

    def released(self, files: Sequence[FileColumns]) -> ReleasedEquation:
        used = [file.used() for file in files]
        gini = float(averaged([gini_coefficient(f.columns["y"], f.weight) for f in used]))
        y = np.concatenate([file.columns["y"] for file in used])
        if (y < 0).any():
            raise Refused(NEGATIVE)
        share = np.concatenate([file.weight / file.size / len(used) for file in used])
        public = {"c": gini, "at": _means_of_shares(y, share), "k": 0.0}
        public["k"] = float(share @ self.psi({"y": y}, public).common)
        total = averaged([file.weight @ file.columns["y"] for file in used])
        with np.errstate(divide="ignore"):
            bread = np.array([[1 / total]])
        return ReleasedEquation(np.array([gini]), bread, np.zeros(1), public)

    def psi(self, columns: RecordColumns, public: Mapping[str, Any]) -> Psi:
        y = columns["y"]
        distance: RecordNumber = 0.0
        for at in public["at"]:
            distance = distance + absolute(y - float(at))
        return Psi(distance / len(public["at"]) - public["c"] * y - public["k"], [1.0])


def _means_of_shares(y: Floats, share: Floats) -> Floats:
    """The means of equal shares of the distribution, from the smallest values to the largest."""
    order = np.argsort(y)
    reached = np.concatenate([[0.0], np.cumsum(share[order])])
    sums = np.concatenate([[0.0], np.cumsum((share * y)[order])])
    ends = np.interp(np.linspace(0.0, reached[-1], SHARES + 1), reached, sums)
    return np.asarray(np.diff(ends) * SHARES / reached[-1])
