"""Gaussian models: f_i = log N(Y_i; X_i B, Sigma) + offset_i, in whatever coordinates.

For such a model the sum of alpha_i f_i depends on the data through X'AX, X'AY and Y'AY alone
(methods §4), so `fitting/moments.py` can draw from its posterior without touching the records
again. A model says here which arrays are X and Y, and how (B, Sigma) and its own unconstrained
position belong together.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from math import log, pi
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular
from numpy.typing import NDArray

from understudy.models.contract import OutcomeModel

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


class GaussianModel(OutcomeModel, abstract=True):
    """A model whose likelihood is Gaussian given X, with one covariance matrix for all."""

    @abstractmethod
    def gaussian_values(self, arrays: Mapping[str, Any]) -> list[Vector]:
        """The columns of Y, d of shape (n,), of the prepared arrays."""

    def gaussian_data(self, arrays: Mapping[str, Any]) -> tuple[Matrix, Matrix]:
        """X (n, K) and Y (n, d) of the prepared arrays."""
        return np.asarray(arrays["X"]), np.stack(self.gaussian_values(arrays), axis=1)

    def gaussian_cells(
        self, arrays: Mapping[str, Any]
    ) -> tuple[Matrix, NDArray[np.int64], list[Vector]]:
        """X (cells, K), the cell of each record (n,), and the columns of Y."""
        cell = np.asarray(arrays["cell"])
        rows = np.zeros(int(cell.max()) + 1, dtype=np.int64)
        rows[cell] = np.arange(len(cell))  # any record of each
        return np.asarray(arrays["X"])[rows], cell, self.gaussian_values(arrays)

    @abstractmethod
    def position(self, B: Array, Sigma: Array) -> Array:
        """The unconstrained position of B (K, d) and Sigma (d, d)."""

    @abstractmethod
    def log_volume(self, B: Array, Sigma: Array) -> Array:
        """log |d(B, Sigma)/d(position)|, Sigma counted by its lower triangle."""


def normal_loglik(Y: Array, X: Array, B: Array, factor: Array) -> Array:
    """log N(Y_i; x_i B, F F') for all records, F lower triangular (d, d): shape (n,).

    (Y - X B) F'^-1 is one product of (X, Y) with a small matrix. A batched triangular solve is tens
    of times slower (methods §4), and a difference that is whitened afterwards twice as slow.
    """
    d = factor.shape[0]
    inverse = solve_triangular(factor, jnp.eye(d), lower=True).T
    white = jnp.concatenate([X, Y], axis=1) @ jnp.concatenate([-B @ inverse, inverse])
    constant = -0.5 * d * log(2 * pi) - jnp.log(jnp.diagonal(factor)).sum()
    return constant - 0.5 * jnp.square(white).sum(axis=1)


def cell_numbers(X: Matrix) -> NDArray[np.int64]:
    """A number for each distinct row of X, from 0.

    Rows are told apart by one random combination of their columns: sorting whole rows would
    cost more than a fit when there are millions.
    """
    direction = np.random.default_rng(0).standard_normal(X.shape[1])
    label = (X * direction).sum(axis=1)
    return np.asarray(np.unique(label, return_inverse=True)[1], dtype=np.int64).reshape(-1)
