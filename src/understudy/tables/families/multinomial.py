"""Multinomial logit: log P(y = k)/P(y = first) = x'b_k."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from understudy.tables.family import Floats
from understudy.tables.likelihood import Likelihood, LikelihoodFamily


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


class MultinomialFamily(LikelihoodFamily):
    name = "multinomial"
    outcome = "levels"
    likelihood = MultinomialLogit
    intercept = True

    def names(self, terms: Sequence[str], levels: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{level}: {term}" for level in levels[1:] for term in terms)
