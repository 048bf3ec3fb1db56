"""The fits of a partition where an estimate exists, and where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from understudy.verify.partition_fit import (
    Task,
    estimate,
    linear_coefficients,
    logistic_coefficients,
    poisson_coefficients,
)


def test_one_record_has_a_quantile_and_none_has_not() -> None:
    assert estimate(Task("quantile", np.array([[3.0], [2.0]]))) == 3.0
    assert math.isnan(estimate(Task("quantile", np.empty((2, 0)))))


def test_a_gini_needs_values_that_are_not_negative_and_not_all_zero() -> None:
    assert estimate(Task("gini", np.array([[3.0, 3.0], [2.0, 1.0]]))) == pytest.approx(0.0)
    assert estimate(Task("gini", np.array([[0.0, 6.0], [1.0, 1.0]]))) == pytest.approx(0.5)
    for values in ([0.0, 0.0], [-1.0, 6.0]):
        assert math.isnan(estimate(Task("gini", np.array([values, [1.0, 1.0]]))))


def test_a_number_that_does_not_vary_has_no_correlation() -> None:
    columns = np.array([[0.1, 0.1, 0.1], [1.0, 2.0, 4.0], [3.0, 1.0, 2.0]])
    for order in ([0, 1, 2], [2, 1, 0]):
        assert math.isnan(estimate(Task("correlation", columns[order], levels=(0,))))


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_a_correlation_is_that_of_numpy(unit: float) -> None:
    y, w, z = np.array([[1.0, 2.0, 4.0, 8.0], [1.0, 3.0, 2.0, 1.0], [3.0, 5.0, 2.0, 9.0]])
    moments = np.cov(y, z, aweights=w)
    expected = moments[0, 1] / np.sqrt(moments[0, 0] * moments[1, 1])
    task = Task("correlation", np.array([unit * y, w, z / unit]), levels=(0,))
    assert estimate(task) == pytest.approx(expected, rel=1e-12)


def test_columns_of_any_length_are_solved() -> None:
    outcome = np.array([3.0, -5.0])
    coefficients = linear_coefficients(outcome, np.eye(2), np.ones(2))
    assert coefficients is not None
    assert coefficients.tolist() == pytest.approx([3.0, -5.0])


@pytest.mark.parametrize(
    "design",
    [[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]], [[1.0, 2.0]]],
)
def test_a_singular_design_has_no_coefficients(design: list[list[float]]) -> None:
    columns = np.array(design)
    assert (
        linear_coefficients(np.arange(float(len(columns))), columns, np.ones(len(columns))) is None
    )


def test_every_record_decides_when_the_steps_have_settled() -> None:
    """A record whose predictors are all 0 keeps its chance of one half from the first step on."""
    draw = np.random.default_rng(3)
    design = np.vstack([np.zeros((1, 2)), draw.normal(0, 1, (60, 2))])
    chances = 1 / (1 + np.exp(-design @ [2.0, -1.0]))
    outcome, weight = (draw.random(61) < chances).astype(float), draw.uniform(1, 5, 61)

    def loss(beta: np.ndarray) -> float:
        logit = design @ beta
        return float(np.sum(weight * (np.logaddexp(0, logit) - outcome * logit)))

    coefficients = logistic_coefficients(outcome, design, weight)
    assert coefficients is not None
    expected = minimize(loss, np.zeros(2), tol=1e-12).x
    np.testing.assert_allclose(coefficients, expected, atol=1e-5)


def test_counts_have_the_coefficients_of_greatest_likelihood() -> None:
    """As scipy finds them. The mean of a record whose predictors are all 0 is 1 at every step."""
    draw = np.random.default_rng(4)
    design = np.vstack([np.zeros((1, 2)), draw.normal(0, 1, (60, 2))])
    outcome = draw.poisson(np.exp(design @ [1.0, -0.5])).astype(float)
    weight = draw.uniform(1, 5, 61)

    def loss(beta: np.ndarray) -> float:
        return float(np.sum(weight * (np.exp(design @ beta) - outcome * (design @ beta))))

    coefficients = poisson_coefficients(outcome, design, weight)
    assert coefficients is not None
    np.testing.assert_allclose(coefficients, minimize(loss, np.zeros(2), tol=1e-12).x, atol=1e-5)


def test_the_wanted_coefficient_of_counts_is_estimated_where_there_is_one() -> None:
    """Two groups with mean counts of 2 and 6: the logarithm of their ratio is the coefficient."""
    columns = np.array([[1.0, 3.0, 6.0], np.ones(3), [0.0, 0.0, 1.0]])
    task = Task("poisson", columns, levels=(2,), level=1)
    assert estimate(task) == pytest.approx(math.log(3))
    columns[0, 0] = -1
    assert math.isnan(estimate(task))


def test_a_record_far_below_all_counts_has_no_say() -> None:
    """Its mean is exp(-36): the coefficient is that of the other three records."""
    columns = np.array([[20.0, 7.0, 3.0, 0.0], np.ones(4), [0.0, 1.0, 2.0, 40.0]])
    without = estimate(Task("poisson", columns[:, :3], levels=(0,)))
    assert estimate(Task("poisson", columns, levels=(0,))) == pytest.approx(without, abs=1e-9)


@pytest.mark.parametrize("wrong", ["negative", "too large", "overflow", "infinite", "singular"])
def test_counts_without_an_estimate(wrong: str) -> None:
    outcome, design, weight = (
        np.arange(1.0, 5.0),
        np.column_stack([np.ones(4), np.arange(4.0)]),
        np.ones(4),
    )
    assert poisson_coefficients(outcome, design, weight) is not None
    if wrong == "negative":
        outcome[0] = -1
    elif wrong == "too large":
        outcome[:], design[:, 1] = [1.0, 1e14, 1.0, 1e14], [0.0, 1.0, 0.0, 1.0]  # its log is 32
    elif wrong == "overflow":
        outcome[:], design[:, 1] = [0.0, 1e300, 0.0, 1e300], [1.0, 1e308, 2.0, -1e308]
    elif wrong == "infinite":
        design[2, 1] = np.inf
    else:
        design[:, 1] = 2
    with np.errstate(all="ignore"):  # as the worker has it
        assert poisson_coefficients(outcome, design, weight) is None


@pytest.mark.parametrize(("column", "level", "wanted"), [(0, 0, 1), (1, 1, 2), (1, 2, 3)])
def test_levels_are_dummies_beside_the_numbers(column: int, level: int, wanted: int) -> None:
    """Least squares on a matrix written out: intercept, a number, two of three levels."""
    draw = np.random.default_rng(6)
    number, code = draw.normal(0, 1, 50), draw.integers(0, 3, 50).astype(float)
    outcome, weight = draw.normal(0, 1, 50) + code**2, draw.uniform(1, 4, 50)
    columns = np.array([outcome, weight, number, code])
    task = Task("linear", columns, levels=(0, 3), column=column, level=level)
    matrix = np.column_stack([np.ones(50), number, code == 1, code == 2])
    root = np.sqrt(weight)
    expected = np.linalg.lstsq(matrix * root[:, None], outcome * root, rcond=None)[0]
    assert estimate(task) == pytest.approx(expected[wanted])
