"""Poisson regression: mu = exp(x b), mu' = mu."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.tables.families.gaussian import Gaussian
from understudy.tables.family import Floats, LinkFamily
from understudy.tables.influence.arithmetic import exp


class Poisson(LinkFamily):
    name = "poisson"
    outcome = "count"
    words = "Poisson"

    def mean(self, linear: Any) -> Any:
        return exp(linear)

    def mean_and_slope(self, linear: Floats) -> tuple[Floats, Floats]:
        mu = np.exp(np.clip(linear, -700.0, 700.0))
        return mu, mu

    def start(self, y: Floats, X: Floats, w: Floats) -> Floats:
        """Newton's method overshoots for counts: it starts from a regression of log(y + 1/2)."""
        return Gaussian().solve(np.log(y + 0.5), X, w)
