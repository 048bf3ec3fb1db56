"""Linear regression: mu = x b, mu' = 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.tables.family import Floats, LinkFamily, least_squares


class Gaussian(LinkFamily):
    name = "gaussian"
    outcome = "number"
    words = "linear"

    def mean(self, linear: Any) -> Any:
        return linear

    def mean_and_slope(self, linear: Floats) -> tuple[Floats, Floats]:
        return linear, np.ones_like(linear)

    def solve(self, y: Floats, X: Floats, w: Floats, start: Floats | None = None) -> Floats:  # noqa: ARG002
        """Weighted least squares."""
        root = np.sqrt(w)[:, None]
        return least_squares(X * root, y * root[:, 0])
