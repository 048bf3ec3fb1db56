"""Logistic regression: mu = 1/(1 + exp(-x b)), mu' = mu (1 - mu)."""

from __future__ import annotations

from typing import Any

from scipy import special

from understudy.tables.family import Floats, LinkFamily
from understudy.tables.influence.arithmetic import expit


class Binomial(LinkFamily):
    name = "binomial"
    outcome = "share"
    words = "logistic"

    def mean(self, linear: Any) -> Any:
        return expit(linear)

    def mean_and_slope(self, linear: Floats) -> tuple[Floats, Floats]:
        mu = special.expit(linear)
        return mu, mu * (1 - mu)
