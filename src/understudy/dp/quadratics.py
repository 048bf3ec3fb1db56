"""Quadratic functions of a record's values u (d,), as coefficients of their powers.

    f(u) = c_0 + sum_j c_j u_j + sum_{j <= k} c_jk u_j u_k

in this order, q = (d + 1)(d + 2)/2 numbers. The log-likelihood of a Gaussian model is such a
function for all records that share their predictors, so what it does on a box is known from its
coefficients there: it is c_0 at the centre, and nowhere further from that than `reach`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def powers(u: Array) -> Array:
    """1, u_j and u_j u_k of points (..., d): (..., q)."""
    j, k = np.triu_indices(u.shape[-1])
    constant = np.ones((*u.shape[:-1], 1))
    return np.concatenate([constant, u, u[..., j] * u[..., k]], axis=-1)


def points(d: int) -> Array:
    """Where a quadratic must be known to be known: 0, e_j, -e_j, e_j + e_k; (q, d)."""
    unit = np.eye(d)
    j, k = np.triu_indices(d, 1)
    return np.concatenate([np.zeros((1, d)), unit, -unit, unit[j] + unit[k]])


def through(values: Array) -> Array:
    """Coefficients (..., q) of the quadratics with these values (..., q) at `points`."""
    d = _variables(values.shape[-1])
    j, k = np.triu_indices(d)
    middle, up, down = values[..., :1], values[..., 1 : d + 1], values[..., d + 1 : 2 * d + 1]
    second = np.empty((*values.shape[:-1], len(j)))
    second[..., j == k] = (up + down) / 2 - middle
    a, b = j[j < k], k[j < k]
    second[..., j < k] = values[..., 2 * d + 1 :] - up[..., a] - up[..., b] + middle
    return np.concatenate([middle, (up - down) / 2, second], axis=-1)


def about(coefficients: Array, centres: Array) -> Array:
    """The same functions (S, q) about each of the centres (b, d), as functions of u - centre:
    (S, b, q)."""
    d = centres.shape[-1]
    j, k = np.triu_indices(d)
    second = np.arange(len(j)) + d + 1
    move = np.zeros((len(centres), coefficients.shape[-1], coefficients.shape[-1]))
    move[:, :, 0] = powers(centres)
    move[:, np.arange(1, d + 1), np.arange(1, d + 1)] = 1.0
    for row, a, b in zip(second, j, k, strict=True):  # d(u_a u_b) = u_a du_b + u_b du_a
        move[:, row, 1 + a] += centres[:, b]
        move[:, row, 1 + b] += centres[:, a]
    move[:, second, second] = 1.0
    return np.asarray(np.einsum("sq,bqr->sbr", coefficients, move, optimize=True))


def reach(coefficients: Array, half: Array) -> Array:
    """How far the functions (..., q) can be from their value at 0 where |u_j| <= half_j (..., d);
    an upper limit."""
    return np.asarray((np.abs(coefficients[..., 1:]) * powers(half)[..., 1:]).sum(axis=-1))


def _variables(q: int) -> int:
    """d of q = (d + 1)(d + 2)/2."""
    return int(np.sqrt(2 * q)) - 1
