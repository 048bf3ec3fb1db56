"""Weighted likelihoods of families that are more than a canonical link.

Each gives the score of every record and the information; Newton's method solves sum w score = 0,
and A^-1 w score are the records' shares in the coefficients' error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.tables.family import Family, FamilyFit, Floats, least_squares

Ints = NDArray[np.int64]
ROUNDS = 100
HALVINGS = 40


class Likelihood(ABC):
    """y: the number of each record's level, (n,); X: (n, p), with its intercept."""

    def __init__(self, y: Ints, X: Floats, levels: int) -> None:
        self.y, self.X, self.levels = y, X, levels

    @abstractmethod
    def start(self, w: Floats) -> Floats:
        """Where Newton's method begins."""

    @abstractmethod
    def loglik(self, theta: Floats) -> Floats:
        """(n,)"""

    @abstractmethod
    def scores(self, theta: Floats) -> Floats:
        """(n, P)"""

    @abstractmethod
    def information(self, theta: Floats, w: Floats) -> Floats:
        """(P, P)"""

    def solve(self, w: Floats, start: Floats | None = None) -> Floats:
        """Newton's method; a step is halved until the likelihood grows."""
        w = w / w.mean()
        theta = self.start(w) if start is None else start
        with np.errstate(all="ignore"):
            value = self._weighed(theta, w)
            for _ in range(ROUNDS):
                gradient = w @ self.scores(theta)
                step = least_squares(self.information(theta, w), gradient)
                for halved in range(HALVINGS):
                    trial = theta + step / 2**halved
                    reached = self._weighed(trial, w)
                    if np.isfinite(reached) and reached >= value - 1e-12 * abs(value):
                        break
                theta, value = trial, reached
                if np.abs(step).max() < 1e-10 * (1 + np.abs(theta).max()):
                    return np.asarray(theta)
        raise Refused(
            "The regression does not converge (a predictor separates the outcome); leave that "
            "predictor out or merge its levels."
        )

    def _weighed(self, theta: Floats, w: Floats) -> float:
        loglik = self.loglik(theta)
        return float(w[w > 0] @ loglik[w > 0])


class LikelihoodFamily(Family, abstract=True):
    """A family that is fitted by its likelihood."""

    likelihood: ClassVar[type[Likelihood]]
    intercept: ClassVar[bool]  # whether the design matrix keeps its column of ones

    @abstractmethod
    def names(self, terms: Sequence[str], levels: Sequence[str]) -> tuple[str, ...]:
        """Of the coefficients."""

    def fit(self, y: Floats, X: Floats, terms: tuple[str, ...], levels: Sequence[str]) -> FamilyFit:
        columns = X.shape[1]
        if not self.intercept:
            keep = [k for k, term in enumerate(terms) if term != "Intercept"]
            X, terms = X[:, keep], tuple(terms[k] for k in keep)
        likelihood = self.likelihood(y.astype(np.int64), X, max(len(levels), 2))

        def influence(w: Floats, beta: Floats) -> Floats:
            bread = likelihood.information(beta, w)
            return np.asarray(np.linalg.solve(bread, (likelihood.scores(beta) * w[:, None]).T).T)

        return FamilyFit(self.names(terms, levels), columns, likelihood.solve, influence)
