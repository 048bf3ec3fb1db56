"""What a family of regressions declares about itself: one class in one file of `tables/families`.

`regress`, influence and the server's regressions know it from there. Families with a canonical
link solve sum w x (y - mu(x b)) = 0 and give mu for records as well (`LinkFamily`); the others give
the score of every record and the information (`likelihood.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from understudy.declarations import Declared, declared_in
from understudy.errors import Refused, UnknownName

Floats = NDArray[np.float64]
Outcome = Literal["number", "share", "binary", "count", "levels", "ordered"]
STEPS = 60


@dataclass(frozen=True)
class FamilyFit:
    """What is fitted: coefficients under a weight, and each record's share in their error."""

    names: tuple[str, ...]
    predictors: int  # columns of the design matrix, the intercept among them
    solve: Callable[[Floats, Floats | None], Floats]
    influence: Callable[[Floats, Floats], Floats]


def least_squares(matrix: Floats, right: Floats) -> Floats:
    """LAPACK itself would print about numbers that are not finite."""
    if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        raise np.linalg.LinAlgError
    return np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0])


class Family(Declared, abstract=True):
    """A family of regressions."""

    name: ClassVar[str]  # in `family="binomial"`
    outcome: ClassVar[Outcome]  # what y may be; texts of two levels are a share or binary too

    @abstractmethod
    def fit(self, y: Floats, X: Floats, terms: tuple[str, ...], levels: Sequence[str]) -> FamilyFit:
        """Of the columns of a design matrix; `levels` are those of a coded outcome."""


class LinkFamily(Family, abstract=True):
    """mu is a function of the linear predictor, by the canonical link."""

    words: ClassVar[str]  # "The ... regression does not converge"

    @abstractmethod
    def mean(self, linear: Any) -> Any:
        """mu at a linear predictor, of arrays and Ibis columns alike."""

    @abstractmethod
    def mean_and_slope(self, linear: Floats) -> tuple[Floats, Floats]:
        """mu and its derivative at a linear predictor."""

    def start(self, y: Floats, X: Floats, w: Floats) -> Floats:  # noqa: ARG002
        return np.zeros(X.shape[1])

    def solve(self, y: Floats, X: Floats, w: Floats, start: Floats | None = None) -> Floats:
        """Newton's method for the weighted likelihood."""
        w = w / w.mean()
        beta = self.start(y, X, w) if start is None else start.copy()
        size = np.abs(X).mean(axis=0)  # steps and coefficients are judged whatever the units
        for _ in range(STEPS):
            mu, slope = self.mean_and_slope(X @ beta)
            hessian = (X * (w * slope)[:, None]).T @ X
            step = least_squares(hessian, X.T @ (w * (y - mu)))
            longest = float((size * np.abs(step)).max())
            beta = beta + step * min(1.0, 5.0 / max(longest, 1e-300))
            if longest < 1e-10 * (1 + (size * np.abs(beta)).max()):
                return np.asarray(beta)
        raise Refused(
            f"The {self.words} regression does not converge (a predictor separates the outcome); "
            "leave that predictor out or merge its levels."
        )

    def influence(self, y: Floats, X: Floats, w: Floats, beta: Floats) -> Floats:
        """Rows A^-1 x w (y - mu): each record's share in the coefficients' error."""
        mu, slope = self.mean_and_slope(X @ beta)
        bread = (X * (w * slope)[:, None]).T @ X
        return np.asarray(np.linalg.solve(bread, (X * (w * (y - mu))[:, None]).T).T)

    def fit(
        self,
        y: Floats,
        X: Floats,
        terms: tuple[str, ...],
        levels: Sequence[str],  # noqa: ARG002
    ) -> FamilyFit:
        return FamilyFit(
            terms,
            X.shape[1],
            lambda w, start: self.solve(y, X, w, start),
            lambda w, beta: self.influence(y, X, w, beta),
        )


F = TypeVar("F", bound=Family)


@cache
def _known() -> tuple[Family, ...]:
    return tuple(cls() for cls in declared_in("understudy.tables.families", Family).values())


def families(kind: type[F]) -> dict[str, F]:
    """The families of a kind by name, in the order of their files."""
    return {family.name: family for family in _known() if isinstance(family, kind)}


def family_named(name: str, kind: type[F]) -> F:
    known = families(kind)
    if name not in known:
        raise UnknownName("family", name, known)
    return known[name]
