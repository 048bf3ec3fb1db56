"""Probit: P(y = 1) = Phi(x'b), with the expected information, as svyglm has it."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, pi

import numpy as np
from scipy import special

from understudy.tables.family import Floats
from understudy.tables.likelihood import Likelihood, LikelihoodFamily


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


class ProbitFamily(LikelihoodFamily):
    name = "probit"
    outcome = "binary"
    likelihood = Probit
    intercept = True

    def names(self, terms: Sequence[str], levels: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002
        return tuple(terms)


def _normal_log_density(x: Floats) -> Floats:
    return np.asarray(-0.5 * (x**2 + log(2 * pi)))
