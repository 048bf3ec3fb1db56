"""Weighted likelihoods that are more than a canonical link: probit, multinomial, ordered logit.

Each gives the score of every record and the information; Newton's method solves sum w score = 0,
and A^-1 w score are the records' shares in the coefficients' error.

    probit       P(y = 1) = Phi(x'b), with the expected information, as svyglm has it
    multinomial  log P(y = k)/P(y = first) = x'b_k
    ordered      logit P(y <= k) = zeta_k - x'b, with the observed information (R's svyolr)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from math import log, pi

import numpy as np
from numpy.typing import NDArray
from scipy import special

from understudy.errors import Refused

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ROUNDS = 100
HALVINGS = 40


class Likelihood(ABC):
    """y: the number of each record's level, (n,); X: (n, p), with its intercept."""

    intercept = True  # whether the design matrix keeps its column of ones

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

    @staticmethod
    @abstractmethod
    def names(terms: Sequence[str], levels: Sequence[str]) -> tuple[str, ...]:
        """Of the coefficients."""

    def solve(self, w: Floats, start: Floats | None = None) -> Floats:
        """Newton's method; a step is halved until the likelihood grows."""
        w = w / w.mean()
        theta = self.start(w) if start is None else start
        with np.errstate(all="ignore"):
            value = self._weighed(theta, w)
            for _ in range(ROUNDS):
                gradient = w @ self.scores(theta)
                step = np.linalg.lstsq(self.information(theta, w), gradient, rcond=None)[0]
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


class Probit(Likelihood):
    def start(self, w: Floats) -> Floats:  # noqa: ARG002
        return np.zeros(self.X.shape[1])

    def loglik(self, theta: Floats) -> Floats:
        return np.asarray(special.log_ndtr(np.where(self.y > 0, 1, -1) * (self.X @ theta)))

    def scores(self, theta: Floats) -> Floats:
        linear = self.X @ theta
        sign = np.where(self.y > 0, 1.0, -1.0)
        mills = np.exp(_normal_log_density(linear) - special.log_ndtr(sign * linear))
        return np.asarray(self.X * (sign * mills)[:, None])

    def information(self, theta: Floats, w: Floats) -> Floats:
        linear = self.X @ theta
        both = special.log_ndtr(linear) + special.log_ndtr(-linear)
        weight = np.exp(2 * _normal_log_density(linear) - both)
        return np.asarray((self.X * (w * weight)[:, None]).T @ self.X)

    @staticmethod
    def names(terms: Sequence[str], levels: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG004
        return tuple(terms)


class MultinomialLogit(Likelihood):
    def start(self, w: Floats) -> Floats:  # noqa: ARG002
        return np.zeros((self.levels - 1) * self.X.shape[1])

    def _log_shares(self, theta: Floats) -> Floats:
        linear = self.X @ theta.reshape(self.levels - 1, -1).T
        return np.asarray(
            special.log_softmax(np.column_stack([np.zeros(len(self.X)), linear]), axis=1)
        )

    def loglik(self, theta: Floats) -> Floats:
        return np.asarray(self._log_shares(theta)[np.arange(len(self.y)), self.y])

    def scores(self, theta: Floats) -> Floats:
        met = np.arange(1, self.levels) == self.y[:, None]
        residual = met - np.exp(self._log_shares(theta))[:, 1:]
        return np.asarray((residual[:, :, None] * self.X[:, None, :]).reshape(len(self.X), -1))

    def information(self, theta: Floats, w: Floats) -> Floats:
        shares = np.exp(self._log_shares(theta))[:, 1:]
        blocks = [
            [
                (self.X * (w * shares[:, j] * ((j == k) - shares[:, k]))[:, None]).T @ self.X
                for k in range(self.levels - 1)
            ]
            for j in range(self.levels - 1)
        ]
        return np.asarray(np.block(blocks))

    @staticmethod
    def names(terms: Sequence[str], levels: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{level}: {term}" for level in levels[1:] for term in terms)


class OrderedLogit(Likelihood):
    intercept = False

    def start(self, w: Floats) -> Floats:
        shares = np.bincount(self.y, w, self.levels) / w.sum()
        below = np.clip(np.cumsum(shares)[:-1], 1e-6, 1 - 1e-6)
        return np.concatenate([np.zeros(self.X.shape[1]), special.logit(below)])

    def _edges(self, theta: Floats) -> tuple[Floats, Floats]:
        """The linear predictors of the thresholds above and below each record's level."""
        p = self.X.shape[1]
        linear, edges = self.X @ theta[:p], np.concatenate([[-np.inf], theta[p:], [np.inf]])
        return edges[self.y + 1] - linear, edges[self.y] - linear

    def loglik(self, theta: Floats) -> Floats:
        if np.any(np.diff(theta[self.X.shape[1] :]) <= 0):
            return np.full(len(self.y), np.nan)
        upper, lower = self._edges(theta)
        return np.asarray(np.log(special.expit(upper) - special.expit(lower)))

    def _slopes(self, theta: Floats) -> tuple[Floats, ...]:
        """First and second derivatives of the log-likelihood in the two predictors."""
        upper, lower = self._edges(theta)
        above, below = special.expit(upper), special.expit(lower)
        share = above - below
        f, g = above * (1 - above) / share, below * (1 - below) / share
        return f, -g, f * (1 - 2 * above) - f**2, f * g, -g * (1 - 2 * below) - g**2

    def _parts(self) -> tuple[Floats, Floats]:
        """d(upper)/d theta and d(lower)/d theta, (n, P); the outermost edges do not move."""
        edges = np.eye(self.levels + 1)[:, 1:-1]
        return (
            np.hstack([-self.X, edges[self.y + 1]]),
            np.hstack([-self.X, edges[self.y]]),
        )

    def scores(self, theta: Floats) -> Floats:
        first, second, *_ = self._slopes(theta)
        up, low = self._parts()
        return np.asarray(first[:, None] * up + second[:, None] * low)

    def information(self, theta: Floats, w: Floats) -> Floats:
        _, _, uu, ul, ll = self._slopes(theta)
        up, low = self._parts()
        cross = (up * (w * ul)[:, None]).T @ low
        return np.asarray(
            -((up * (w * uu)[:, None]).T @ up + cross + cross.T + (low * (w * ll)[:, None]).T @ low)
        )

    @staticmethod
    def names(terms: Sequence[str], levels: Sequence[str]) -> tuple[str, ...]:
        return (*terms, *(f"{lower}|{upper}" for lower, upper in pairwise(levels)))


def _normal_log_density(x: Floats) -> Floats:
    return np.asarray(-0.5 * (x**2 + log(2 * pi)))


LIKELIHOODS: dict[str, type[Likelihood]] = {
    "probit": Probit,
    "multinomial": MultinomialLogit,
    "ordered": OrderedLogit,
}
