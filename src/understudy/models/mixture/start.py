"""Where the chains of a mixture start: weighted EM, the best of a few tries.

From random points a sampler spends its whole warm-up on finding the components. EM on the
weighted complete-data likelihood (weights alpha_i r_ik, a small ridge, sigma_k at or above its
floor) finds a mode in seconds. It decides where chains start and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

TRIES, TRIAL_STEPS, STEPS = 3, 8, 30
MOST_RECORDS = 3000  # a start needs no more
RIDGE = 1.0  # prior precision of a whitened coefficient
LEAST_SHARE = 1e-3  # of a component without records: the start must be finite


@dataclass(frozen=True)
class Components:
    """theta (K, R) on the whitened columns, sigma (K,), share (K,), largest share first."""

    theta: Matrix
    sigma: Vector
    share: Vector
    score: float


def em_start(
    Q: Matrix, size: Vector, alpha: Vector, components: int, floor: float, seed: int
) -> Components:
    """The best of `TRIES` short runs, run on; `size` are log incomes, (n,)."""
    rng = np.random.default_rng(seed)
    if len(size) > MOST_RECORDS:
        some = rng.choice(len(size), MOST_RECORDS, replace=False)
        Q, size, alpha = Q[some], size[some], alpha[some]
    tries = [
        _em(Q, size, alpha, _first(Q, size, components, rng), floor, TRIAL_STEPS)
        for _ in range(TRIES)
    ]
    best, components_of_best = max(tries, key=lambda pair: pair[0].score)
    final, _ = _em(Q, size, alpha, components_of_best, floor, STEPS)
    order = np.argsort(-final.share, kind="stable")
    share = np.maximum(final.share[order], LEAST_SHARE)
    return Components(final.theta[order], final.sigma[order], share / share.sum(), best.score)


def _first(Q: Matrix, size: Vector, components: int, rng: np.random.Generator) -> Matrix:
    """Responsibilities (K, n): bands of the residuals of one regression, blurred."""
    theta = np.linalg.lstsq(Q, size, rcond=None)[0]
    residual = size - Q @ theta
    blurred = residual + residual.std() * rng.normal(0.0, 0.7, len(size))
    edges = np.quantile(blurred, np.arange(1, components) / components)
    band = np.searchsorted(edges, blurred)
    own = band[None] == np.arange(components)[:, None]
    return np.asarray(0.1 / components + 0.9 * own, dtype=np.float64)


def _em(
    Q: Matrix, size: Vector, alpha: Vector, responsibility: Matrix, floor: float, steps: int
) -> tuple[Components, Matrix]:
    products = (Q[:, :, None] * Q[:, None, :]).reshape(len(Q), -1)  # one matrix product per step
    for _ in range(steps):
        theta, sigma, share = _maximise(Q, products, size, alpha * responsibility, floor)
        z = (size - theta @ Q.T) / sigma[:, None]
        log_joint = np.log(share / sigma)[:, None] - 0.5 * z * z
        top = log_joint.max(axis=0)
        density = np.exp(log_joint - top)
        total = density.sum(axis=0)
        responsibility = density / total
    score = float(alpha @ (top + np.log(total)))
    return Components(theta, sigma, share, score), responsibility


def _maximise(
    Q: Matrix, products: Matrix, size: Vector, weight: Matrix, floor: float
) -> tuple[Matrix, Vector, Vector]:
    """Weighted ridge regressions, one per component; `weight` is alpha_i r_ik (K, n)."""
    columns = Q.shape[1]
    moments = (weight @ products).reshape(-1, columns, columns) + RIDGE * np.eye(columns)
    right = ((weight * size) @ Q)[..., None]
    theta = np.asarray(np.linalg.solve(moments, right)[..., 0], dtype=np.float64)
    mass = weight.sum(axis=1)
    squares = (weight * (size - theta @ Q.T) ** 2).sum(axis=1)
    # one observation of size 0.5 keeps an empty component's sigma in reach
    sigma = np.maximum(np.sqrt((squares + 0.25) / (mass + 1.0)), 1.2 * floor)
    share = mass + 1.0 / len(weight)
    return theta, sigma, share / share.sum()
