"""Mixing of records and tails of priors, on made-up densities: nothing is compiled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.stats

from understudy.errors import Refused
from understudy.models.density_check import NEAR, refuse_improper, refuse_mixing

N = 6


def density_with(loglik: Any) -> Any:
    return SimpleNamespace(
        model=SimpleNamespace(targets=("y",)),
        n=N,
        dimension=1,
        evaluate_now=lambda position, arrays: (position[0], loglik(np.asarray(arrays["y"]))),
    )


ARRAYS = {"y": np.random.default_rng(1).normal(size=(N, 2))}


def test_a_target_may_have_several_columns() -> None:
    refuse_mixing(density_with(lambda y: -(y**2).sum(axis=1)), ARRAYS, thoroughly=True)
    with pytest.raises(Refused, match="another record's log-likelihood"):
        refuse_mixing(density_with(lambda y: y[:, 0] - y.mean()), ARRAYS, thoroughly=True)


def test_neighbours_by_two_are_told_apart_by_the_thorough_check_only() -> None:
    """Records of even number depend on one another, and so do those of odd number."""
    density = density_with(lambda y: y[:, 0] - np.roll(y[:, 0], 2))
    refuse_mixing(density, ARRAYS, thoroughly=False)
    with pytest.raises(Refused, match="another record's log-likelihood"):
        refuse_mixing(density, ARRAYS, thoroughly=True)


def test_a_draw_that_is_zero_in_doubles_is_among_the_lowest() -> None:
    """12 draws whose logarithm is not finite, and the numbers from 12 to 31."""
    numbers, points = iter(range(32)), []

    def unconstrain(parameters: Any, arrays: Any) -> Any:  # noqa: ARG001
        number = next(numbers)
        return np.array([-np.inf if number < 12 else float(number)])

    def evaluate_now(point: Any, arrays: Any) -> Any:  # noqa: ARG001
        points.append(float(point[0]))
        return -0.5 * float(point[0]) ** 2, None

    density: Any = SimpleNamespace(
        prior_draw=lambda key, arrays: {"scale": np.ones(1)},  # noqa: ARG005
        unconstrain=unconstrain,
        coordinates=["scale"],
        evaluate_now=evaluate_now,
    )
    refuse_improper(density, ARRAYS)
    draws = np.r_[np.full(12, -700.0), np.arange(12.0, 32.0)]
    spread = scipy.stats.median_abs_deviation(draws, scale="normal")
    expected = np.median(draws) + NEAR * spread * np.array([1.0, -1.0])
    np.testing.assert_allclose([points[0], points[2]], expected, rtol=1e-4)
