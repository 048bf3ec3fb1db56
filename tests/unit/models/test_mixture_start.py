"""Where chains of a mixture start: the steps of EM by other means, and first guesses by hand."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import scipy.stats

from understudy.models.mixture import mixture
from understudy.models.mixture.mixture import Mixture
from understudy.models.mixture.start import _em, _first, _maximise, em_start
from understudy.survey.survey import Survey

N, K = 120, 4


@pytest.fixture(scope="module")
def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Q (n, 3), sizes, weights, and what each component is responsible for (K, n)."""
    rng = np.random.default_rng(5)
    Q = np.c_[np.ones(N), rng.normal(size=(N, 2))]
    size = Q @ [0.3, 1.0, -0.5] + rng.normal(size=N) * rng.choice([0.3, 1.5], N)
    share = rng.dirichlet(np.ones(K), N).T
    return Q, size, rng.uniform(0.2, 1.0, N), share


def test_components_are_ridge_regressions(problem: tuple[np.ndarray, ...]) -> None:
    """By least squares with one more observation of 0 for each coefficient."""
    Q, size, alpha, share = problem
    weight = alpha * share
    products = (Q[:, :, None] * Q[:, None, :]).reshape(N, -1)
    theta, sigma, shares = _maximise(Q, products, size, weight, 0.05)
    for k in range(K):
        root = np.sqrt(weight[k])
        rows = np.r_[Q * root[:, None], np.eye(3)]
        expected = np.linalg.lstsq(rows, np.r_[size * root, np.zeros(3)], rcond=None)[0]
        np.testing.assert_allclose(theta[k], expected, rtol=1e-9)
        squares = np.average((size - Q @ expected) ** 2, weights=weight[k]) * weight[k].sum()
        assert sigma[k] == pytest.approx(np.sqrt((squares + 0.25) / (weight[k].sum() + 1)))
    expected_share = (weight.sum(axis=1) + 1 / K) / (weight.sum() + 1)
    np.testing.assert_allclose(shares, expected_share)
    _, floored, _ = _maximise(Q, products, size, weight, 5.0)
    np.testing.assert_allclose(floored, 6.0)  # a fifth above its floor


def test_responsibilities_are_bayes_rule(problem: tuple[np.ndarray, ...]) -> None:
    Q, size, alpha, share = problem
    step, responsibility = _em(Q, size, alpha, share, 0.05, 2)
    law = scipy.stats.norm(Q @ step.theta.T, step.sigma)
    joint = (step.share * law.pdf(size[:, None])).T
    np.testing.assert_allclose(responsibility, joint / joint.sum(axis=0), rtol=1e-9)
    density = np.log(joint.sum(axis=0) * np.sqrt(2 * np.pi))
    assert step.score == pytest.approx(alpha @ density, rel=1e-9)


def test_first_bands_hold_as_many_records_each(problem: tuple[np.ndarray, ...]) -> None:
    Q, size, _, _ = problem
    first = _first(Q, size, K, np.random.default_rng(1))
    np.testing.assert_allclose(first.sum(axis=0), 1.0)
    assert set(np.round(np.unique(first), 12)) == {0.025, 0.925}
    assert (first > 0.5).sum(axis=1).tolist() == [N // K] * K
    # bands of residuals: the first band's are the lowest, blurred
    residual = size - Q @ np.linalg.lstsq(Q, size, rcond=None)[0]
    means = [residual[band].mean() for band in first > 0.5]
    assert means == sorted(means)


def test_the_start_is_a_better_fit_than_one_regression(problem: tuple[np.ndarray, ...]) -> None:
    Q, size, alpha, _ = problem
    start = em_start(Q, size, alpha, K, 0.05, seed=2)
    assert start.share.tolist() == sorted(start.share, reverse=True)
    assert start.share.sum() == pytest.approx(1.0)
    assert start.share.min() >= 1e-3 / (1 + K * 1e-3)
    whole, _ = _em(Q, size, alpha, np.ones((1, N)), 0.05, 1)
    assert start.score > whole.score


MODEL = Mixture("income", "age", 2, zero_by=("sex",), typical=100.0)


def survey(n: int = 40) -> Survey:
    rng = np.random.default_rng(3)
    y = np.exp(rng.normal(5.0, 1.0, n))
    y[:3], y[3:7] = 0.0, -10.0
    sex = np.where(np.arange(n) < 10, "F", "M")
    return Survey(pl.DataFrame({"sex": sex, "age": rng.normal(45, 12, n), "income": y}))


@pytest.mark.fixed_seed("one of the two spreads is to lie below its floor")
def test_first_guesses_are_shares_and_spreads(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 incomes: 3 of the 10 women have none, 4 of all are losses."""
    monkeypatch.setattr(mixture, "SPREAD_FLOOR", 0.25)
    arrays = MODEL.prepare(survey())
    start = MODEL.start(arrays, np.ones(40))
    np.testing.assert_allclose(start["zero"], [3.5 / 11, 0.5 / 31])
    assert float(start["negative"]) == pytest.approx(4.5 / 41)
    assert float(arrays["centre"]) == pytest.approx(np.log(100.0))
    beta = np.linalg.solve(arrays["L"], start["theta"].T)
    expected = np.sqrt(np.mean(beta**2, axis=1))
    assert expected.min() < 0.5 < expected.max()  # one of them is below twice the floor
    np.testing.assert_allclose(start["spread"], np.where(expected < 0.5, 0.5, expected))


def test_first_steps_are_standard_deviations_by_hand() -> None:
    arrays = MODEL.prepare(survey())
    alpha = np.full(40, 0.5)
    alpha[3:7] = [0.0, 1.0, 0.5, 0.0]  # losses weigh 1.5
    guess = {
        "share": np.array([0.75, 0.25]),
        "sigma": np.array([0.4, 1.2]),
        "spread": np.array([0.5, 1.5]),
        "zero": np.array([0.5, 0.1]),
    }
    scale = MODEL.start_scale(guess, arrays, alpha)
    records = np.array([0.75, 0.25]) * 33 / 2  # 33 positive incomes of weight one half
    np.testing.assert_allclose(scale["share"], [(records[0] + 0.2) ** -0.5])
    np.testing.assert_allclose(
        scale["sigma"], [0.4 / 0.2 / (2 * records[0] + 1) ** 0.5, 1.2 / (2 * records[1] + 1) ** 0.5]
    )
    assert scale["spread"] == pytest.approx(0.5)  # two components
    precision = 1 + records / np.array([0.16, 1.44])
    np.testing.assert_allclose(scale["theta"], precision[:, None] ** -0.5)
    women, men = alpha[:10].sum(), 15.0
    expected = np.array([women * 0.25 + 0.5, men * 0.09 + 0.5]) ** -0.5
    np.testing.assert_allclose(scale["zero"], expected)
    assert scale["negative"] == pytest.approx(2**-0.5)
    assert scale["loss_mean"] == pytest.approx(1.75**-0.5)
    assert scale["loss_sigma"] == pytest.approx(0.5)
