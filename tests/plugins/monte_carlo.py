"""Are draws from the density that is meant? Differences by their Monte Carlo errors.

A reference is exact where it can be: moments on a lattice, in closed form, or of weighted
independent draws. Each comparison says how small a difference it must see, so a sampler that mixes
badly turns it red instead of blind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.fitting.diagnostics import ess_bulk

FAR = 6.0  # standard errors: 2e-9 for one comparison, and errors are themselves estimated
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class KnownMoments:
    """Means and variances (d,) of a distribution, and the variances of squared deviations."""

    mean: Matrix
    variance: Matrix
    fourth: Matrix  # E (x - mean)^4

    @property
    def moments(self) -> tuple[Matrix, Matrix]:
        """Of x and of (x - mean)^2: expectations and variances, (2 d,)."""
        spread = np.concatenate([self.variance, self.fourth - self.variance**2])
        return np.concatenate([self.mean, self.variance]), spread


def known_moments(points: Matrix, mass: Matrix) -> KnownMoments:
    """Of points (m, d) with these masses (m,)."""
    mass = mass / mass.sum()
    mean = mass @ points
    return KnownMoments(mean, mass @ (points - mean) ** 2, mass @ (points - mean) ** 4)


def lattice_moments(
    log_density: Callable[[Matrix], Matrix], draws: Matrix, spacing: float, reach: float = 9.0
) -> KnownMoments:
    """Moments of a density (m, d) -> (m,) by the trapezoidal rule, whose error falls like
    exp(-2 pi^2 / spacing^2) for a density that is as smooth as a normal one.

    The lattice lies where `draws` (k, d) lie, `reach` of their standard deviations each way. Its
    edge must be empty: a mass that the draws have missed next to it fails here.
    """
    axis = np.arange(-reach, reach + spacing / 2, spacing)
    d = draws.shape[1]
    white = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    factor = np.linalg.cholesky(np.atleast_2d(np.cov(draws.T)))
    points = draws.mean(axis=0) + white @ factor.T
    height = log_density(points)
    mass = np.exp(height - height.max())
    edge = (np.abs(white) >= axis[-1] - spacing / 2).any(axis=1)
    assert mass[edge].sum() < 1e-6 * mass.sum(), "the lattice does not hold the density"
    return known_moments(points, mass)


def compare(chains: Matrix, known: KnownMoments, shift: float, spread: float) -> None:
    """Means and variances of chains (chains, draws, d) are the known ones within `FAR` standard
    errors; and these are small enough that the limits are closer than `shift` standard deviations
    for a mean, and closer than a factor of 1 + `spread` for a standard deviation."""
    d = chains.shape[2]
    values = np.concatenate([chains, (chains - known.mean) ** 2], axis=2)
    expected, variance = known.moments
    error = np.sqrt(variance / ess_bulk(values))
    limits = FAR * error / np.concatenate([np.sqrt(known.variance), 2.0 * known.variance])
    assert limits[:d].max() < shift, limits[:d].round(3)
    assert limits[d:].max() < spread, limits[d:].round(3)
    score = (values.mean(axis=(0, 1)) - expected) / error
    assert np.abs(score).max() < FAR, score.round(1)


def standard_scores(a: Matrix, b: Matrix) -> Matrix:
    """Differences of means and of variances of chains (chains, draws, d), as standard scores."""
    centre = b.mean(axis=(0, 1))
    a, b = (np.concatenate([chains, (chains - centre) ** 2], axis=2) for chains in (a, b))
    means, squares = zip(
        *(
            (chains.mean(axis=(0, 1)), chains.var(axis=(0, 1)) / ess_bulk(chains))
            for chains in (a, b)
        ),
        strict=True,
    )
    return np.asarray((means[0] - means[1]) / np.sqrt(squares[0] + squares[1]))
