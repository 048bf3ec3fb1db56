"""Hadamard matrices: the balance in balanced repeated replication.

A square matrix of +1 and -1 with orthogonal rows. It exists for orders 1, 2 and, as far as
anyone knows, every multiple of 4; the constructions here (Paley's two, and doubling) give
most of them, so the order found is the smallest possible one or a little above it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Signs = NDArray[np.int64]


def hadamard(at_least: int) -> Signs:
    """The Hadamard matrix of the smallest order that we can make, `at_least` or more.

    The first row is all +1, so every other row has as many +1 as -1.
    """
    order = at_least
    while (matrix := hadamard_of_order(order)) is None:
        order += 1
    return matrix


def hadamard_of_order(order: int) -> Signs | None:
    """A Hadamard matrix of exactly this order, or None where no construction here gives one."""
    matrix = _construct(order)
    return None if matrix is None else matrix * matrix[0]


def _construct(order: int) -> Signs | None:
    if order == 1:
        return np.ones((1, 1), dtype=np.int64)
    if order == 2:
        return np.array([[1, 1], [1, -1]])
    if order < 1 or order % 4:
        return None
    if _is_prime(order - 1):  # q = order - 1 is 3 mod 4
        return _paley_skew(order - 1)
    q = order // 2 - 1
    if q % 4 == 1 and _is_prime(q):
        return _paley_symmetric(q)
    half = _construct(order // 2)
    return None if half is None else np.kron(np.array([[1, 1], [1, -1]]), half)


def _is_prime(q: int) -> bool:
    return q > 1 and all(q % divisor for divisor in range(2, int(q**0.5) + 1))


def _jacobsthal(q: int) -> Signs:
    """Q_ij = +1 where i - j is a square modulo the prime q, -1 where not, 0 on the diagonal."""
    numbers = np.arange(q)
    character: Signs = np.full(q, -1)
    character[numbers**2 % q] = 1
    character[0] = 0
    return np.asarray(character[(numbers[:, None] - numbers[None, :]) % q])


def _paley_skew(q: int) -> Signs:
    """Paley's first construction, order q + 1 for q = 3 mod 4: I + S with S' = -S."""
    skew = np.zeros((q + 1, q + 1), dtype=np.int64)
    skew[0, 1:], skew[1:, 0] = 1, -1
    skew[1:, 1:] = _jacobsthal(q)
    return skew + np.eye(q + 1, dtype=np.int64)


def _paley_symmetric(q: int) -> Signs:
    """Paley's second construction, order 2(q + 1) for q = 1 mod 4."""
    conference = np.zeros((q + 1, q + 1), dtype=np.int64)
    conference[0, 1:], conference[1:, 0] = 1, 1
    conference[1:, 1:] = _jacobsthal(q)
    corners = np.eye(q + 1, dtype=np.int64)
    return np.kron(conference, [[1, 1], [1, -1]]) + np.kron(corners, [[1, -1], [-1, -1]])
