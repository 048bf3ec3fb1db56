"""Ordered logit: logit P(y <= k) = zeta_k - x'b, with the observed information (R's svyolr)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy import special

from understudy.tables.family import Floats
from understudy.tables.likelihood import Likelihood, LikelihoodFamily


class OrderedLogit(Likelihood):
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


class OrderedFamily(LikelihoodFamily):
    name = "ordered"
    outcome = "ordered"
    likelihood = OrderedLogit
    intercept = False

    def names(self, terms: Sequence[str], levels: Sequence[str]) -> tuple[str, ...]:
        return (*terms, *(f"{lower}|{upper}" for lower, upper in pairwise(levels)))
