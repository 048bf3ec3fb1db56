"""The contract of an estimating equation: one class in one file gives equation and derivative.

An estimator solves sum_i w_i psi(record_i, theta) = 0. At the released estimate c, which is public,
and with H, minus the derivative of the sum at c, from the synthetic files, which are public too,

    theta_conf - c  =  sum_i d_i  to first order,      d_i = H^-1 w_i psi(record_i, c)

(methods §13): one Newton step from c. Every record's influence d_i is a function of that record and
of public numbers. A new estimator is one file:

    @dataclass(frozen=True)
    class MeanEquation(Equation):
        name = "mean"
        everyone = False

        def released(self, files): ...            # estimate, H and what psi needs, from the files
        def psi(self, columns, public): ...       # of arrays and of Ibis columns alike

Columns have plain names, which the estimator that asks gives them: y is the outcome, z a second
number, x0, x1, ... predictors, a and b the sides of a comparison.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from understudy.declarations import Declared
from understudy.tables.influence.arithmetic import RecordNumber, known_or_zero, where_inside

Floats = NDArray[np.float64]
RecordColumns = Mapping[str, RecordNumber]


@dataclass(frozen=True)
class FileColumns:
    """A synthetic file: its columns as arrays with NaN for what is missing, and its weights.

    `inside` is the domain that was asked for.
    """

    columns: Mapping[str, Floats]
    weight: Floats
    inside: NDArray[np.bool_]

    def used(self) -> FileColumns:
        """The records inside of the domain with all columns known: those that an estimate uses."""
        known = self.inside.copy()
        for values in self.columns.values():
            known &= ~np.isnan(values)
        columns = {name: values[known] for name, values in self.columns.items()}
        return FileColumns(columns, self.weight[known], np.ones(int(known.sum()), dtype=bool))

    @property
    def size(self) -> float:
        """The estimated population size of the file."""
        return float(self.weight.sum())

    @property
    def empty(self) -> bool:
        return not self.size > 0


@dataclass(frozen=True)
class ReleasedEquation:
    """An equation at the released estimate; everything here is public.

    `estimates` are the k numbers that are asked for, `bread` is J H^-1, (k, p): what the p
    equations do to them. `constant` is what the sum of influences is about to be compared with,
    where a record has no share of it (a total without a public size). `public` is what psi needs.
    `remainder` is what is left where an estimator moves in jumps, which no equation follows: the
    standard deviations that it has in the corrected estimates and in the differences.
    """

    estimates: Floats  # (k,)
    bread: Floats  # (k, p)
    constant: Floats  # (k,)
    public: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    remainder: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Psi:
    """psi of a record, as `common` times each of `parts`: regressions share their residual."""

    common: RecordNumber
    parts: Sequence[RecordNumber]


@dataclass(frozen=True)
class Equation(Declared, abstract=True):
    """An estimating equation with its settings."""

    name: ClassVar[str]
    everyone: ClassVar[bool]  # whether records outside of the domain have a psi: with y = 0

    @abstractmethod
    def released(self, files: Sequence[FileColumns]) -> ReleasedEquation:
        """Estimate and derivative, from the synthetic files."""

    @abstractmethod
    def psi(self, columns: RecordColumns, public: Mapping[str, Any]) -> Psi:
        """psi of every record at the released estimate, without its weight."""

    def influences(
        self,
        released: ReleasedEquation,
        columns: RecordColumns,
        weight: RecordNumber,
        inside: RecordNumber,
    ) -> list[RecordNumber]:
        """d_i for each of the k estimates; 0 for records that do not count."""
        if self.everyone:
            columns = {n: where_inside(inside, known_or_zero(v)) for n, v in columns.items()}
        psi = self.psi(columns, released.public)
        shared = weight * psi.common
        influences = []
        for row in released.bread:
            terms = [
                _times(share, part) for share, part in zip(row, psi.parts, strict=True) if share
            ]
            total = sum(terms[1:], terms[0]) if terms else 0.0
            influence = known_or_zero(shared * total)
            influences.append(influence if self.everyone else where_inside(inside, influence))
        return influences


def _times(share: float, part: RecordNumber) -> RecordNumber:
    constant = isinstance(part, (int, float))
    return float(share) * part if not constant or part != 1 else float(share)


def averaged(values: ArrayLike) -> Any:
    """The mean over synthetic files."""
    return np.mean(np.asarray(values, dtype=np.float64), axis=0)
