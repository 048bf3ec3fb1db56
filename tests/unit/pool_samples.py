"""A small joint distribution of four columns and the tables of its pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
SHAPE = (2, 3, 2, 3)
PAIRS = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]


def joint(seed: int) -> Vector:
    shares = np.random.default_rng(seed).gamma(0.4, size=SHAPE)
    return np.asarray(shares / shares.sum())


def pairs_of(shares: Vector) -> list[Vector]:
    letters = "abcd"
    return [np.einsum(f"abcd->{letters[a]}{letters[b]}", shares) for a, b in PAIRS]
