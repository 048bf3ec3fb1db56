"""Are two samplers' draws from the same density? Differences by their Monte Carlo errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from understudy.fitting.diagnostics import ess_bulk

FAR = 6.0  # standard errors: 2e-9 for one comparison, and errors are themselves estimated


def standard_scores(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Differences of means and of variances of chains (chains, draws, d), as standard scores."""
    centre = b.mean(axis=(0, 1))
    a, b = (np.concatenate([one, (one - centre) ** 2], axis=2) for one in (a, b))
    means, squares = zip(
        *((one.mean(axis=(0, 1)), one.var(axis=(0, 1)) / ess_bulk(one)) for one in (a, b)),
        strict=True,
    )
    return np.asarray((means[0] - means[1]) / np.sqrt(squares[0] + squares[1]))
