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


def judged_points(zeros: int) -> list[float]:
    """Where a prior is looked at with `zeros` draws whose logarithm is not finite, and the numbers
    from there to 31."""
    points: list[float] = []
    positions = np.r_[np.full(zeros, -np.inf), np.arange(float(zeros), 32.0)][:, None]

    def evaluate_now(point: Any, arrays: Any) -> Any:  # noqa: ARG001
        points.append(float(point[0]))
        return -0.5 * float(point[0]) ** 2, None

    density: Any = SimpleNamespace(
        prior_draws=lambda keys, arrays: ({"scale": np.ones((32, 1))}, positions),  # noqa: ARG005
        coordinates=["scale"],
        evaluate_now=evaluate_now,
    )
    refuse_improper(density, ARRAYS)
    return points


def test_a_draw_that_is_zero_in_doubles_is_among_the_lowest() -> None:
    points = judged_points(6)
    draws = np.r_[np.full(6, -700.0), np.arange(6.0, 32.0)]
    spread = scipy.stats.median_abs_deviation(draws, scale="normal")
    expected = np.median(draws) + NEAR * spread * np.array([1.0, -1.0])
    np.testing.assert_allclose([points[0], points[2]], expected, rtol=1e-4)
    assert judged_points(7) == []  # so many that the spread is not known


@pytest.mark.parametrize("infinite", [6, 7])
def test_infinite_draws_are_seldom(infinite: int) -> None:
    """A proper prior with wide tails may draw what is infinite in doubles, one in five at most."""
    scales = np.r_[np.full(infinite, np.inf), np.ones(32 - infinite)][:, None]
    positions = np.tile(np.random.default_rng(0).normal(size=1), (32, 1))
    density: Any = SimpleNamespace(
        prior_draws=lambda keys, arrays: (  # noqa: ARG005
            {"rate": np.ones((32, 1)), "scale": scales},
            positions,
        ),
        coordinates=["scale"],
        evaluate_now=lambda point, arrays: (-0.5 * float(point[0]) ** 2, None),  # noqa: ARG005
    )
    if infinite == 6:
        refuse_improper(density, ARRAYS)
        return
    with pytest.raises(Refused, match="The prior of `scale` is improper or not finite"):
        refuse_improper(density, ARRAYS)
