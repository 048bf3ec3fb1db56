"""Student's quantiles: SciPy's for every number of degrees of freedom, and closed forms."""

from __future__ import annotations

from math import inf, nan, pi, sqrt, tan
from statistics import NormalDist

import numpy as np
import pytest
from scipy import special

from understudy.tables.student_t import MANY, t_quantile

DEGREES = np.concatenate(
    [[0.05, 0.5, 0.9, MANY - 0.01, MANY, MANY + 0.01], np.geomspace(1, 1e8, 200)]
)


@pytest.mark.parametrize("probability", [0.025, 0.3, 0.51, 0.75, 0.9, 0.975, 0.9995, 0.99995])
def test_quantiles_are_scipys(probability: float) -> None:
    np.testing.assert_allclose(
        t_quantile(DEGREES, probability), special.stdtrit(DEGREES, probability), rtol=1e-11
    )


def test_one_and_two_degrees_have_closed_forms() -> None:
    for p in (0.6, 0.975, 0.99):
        assert t_quantile(1, p) == pytest.approx(tan(pi * (p - 0.5)), rel=1e-13)
        closed = (2 * p - 1) / sqrt(2 * p * (1 - p))
        assert t_quantile(2, p) == pytest.approx(closed, rel=1e-13)


def test_ends() -> None:
    normal = NormalDist().inv_cdf(0.975)
    ends = t_quantile([[inf, 0.0], [nan, -1.0]], 0.975)
    np.testing.assert_array_equal(ends, [[normal, nan], [nan, nan]])
    np.testing.assert_array_equal(t_quantile([1.0, 30.0, 1e6], 0.5), [0, 0, 0])
