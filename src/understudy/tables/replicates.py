"""Variance by replicate weights: sum_r c_r (theta_r - centre)^2.

brr 1/R    fay 1/(R (1-rho)^2)    jk1 (R-1)/R    jkn (n_h-1)/n_h, given
bootstrap 1/(R-1)    sdr 4/R (successive differences, the ACS's 4/80)
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from understudy.survey.design import Replicates

Floats = NDArray[np.float64]


def coefficients(spec: Replicates, count: int) -> Floats:
    """c_r of each of `count` replicates."""
    if spec.kind == "jkn":
        return np.asarray(spec.coefficients, dtype=np.float64)
    coefficient = {
        "brr": 1 / count,
        "fay": 1 / (count * (1 - (spec.fay or 0.0)) ** 2),
        "jk1": (count - 1) / count,
        "bootstrap": 1 / (count - 1),
        "sdr": 4 / count,
    }[spec.kind]
    return np.full(count, coefficient)


def replicate_variance(estimate: Floats, replicated: Floats, spec: Replicates) -> Floats:
    """(domains,) variance from (domains,) estimates and (domains, R) replicated estimates."""
    c = coefficients(spec, replicated.shape[-1])
    centre = estimate if spec.centre == "estimate" else replicated[:, c > 0].mean(axis=-1)
    return np.asarray(((replicated - centre[:, None]) ** 2) @ c, dtype=np.float64)


def replicate_covariance(estimate: Floats, replicated: Floats, spec: Replicates) -> Floats:
    """(p, p) covariance of p estimates from (p, R) replicated ones."""
    c = coefficients(spec, replicated.shape[-1])
    centre = estimate if spec.centre == "estimate" else replicated[:, c > 0].mean(axis=-1)
    deviation = replicated - centre[:, None]
    return np.asarray((deviation * c) @ deviation.T, dtype=np.float64)


def replicate_df(batches: Iterable[Floats]) -> float:
    """Rank of the (n, R) replicate weights minus 1, as R survey counts it, in one pass.

    The R x R matrix of products is enough: a relative singular value below 1e-5 shows in it as
    an eigenvalue below 1e-10, far above rounding.
    """
    products: Floats | None = None
    for block in batches:
        product = block.T @ block
        products = product if products is None else products + product
    if products is None:
        return 0.0
    norms = np.sqrt(np.diag(products))
    norms = np.where(norms > 0, norms, 1.0)
    eigenvalues = np.linalg.eigvalsh(products / np.outer(norms, norms))
    return float((eigenvalues > 1e-10 * eigenvalues[-1]).sum() - 1)
