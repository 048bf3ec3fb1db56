"""Weighted moments by cell, against products of whole matrices."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.dp.moment_sums import FEW_CELLS, IN_CACHE, moment_sums


@pytest.mark.parametrize("cells", [5, FEW_CELLS, FEW_CELLS + 1])
@pytest.mark.parametrize("n", [50, IN_CACHE + 3])
def test_sums_are_those_of_whole_matrices(n: int, cells: int) -> None:
    """Whether records take the sums of their cell in turns or not, cells without records too."""
    rng = np.random.default_rng(n)
    cell, Y, alpha = rng.integers(0, cells - 1, n), rng.normal(1.0, 2.0, (3, n)), rng.random(n)
    alpha[cell == 2] = 0.0
    size, sums, products = moment_sums(cell, cells, Y, alpha)
    inside = (cell == np.arange(cells)[:, None]) * alpha
    np.testing.assert_allclose(size, inside.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(sums, inside @ Y.T, rtol=1e-10)
    np.testing.assert_allclose(products, (Y * alpha) @ Y.T, rtol=1e-10)
    of_all = moment_sums(cell, cells, Y, 0.5)
    np.testing.assert_allclose(of_all[2], 0.5 * Y @ Y.T, rtol=1e-10)
