"""Corrected estimates cover the population, and answers tell inside from outside the tolerance.

Populations: V's with sizes 2 to 10, and skewed salaries; samples with chances proportional to
size, synthetic files drawn from the same population. Noise is of OpenDP's law, from a seed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from influence_arrays import ArrayFile, answer

from understudy.tables.influence.equation import Equation
from understudy.tables.influence.equations.linear import LinearEquation
from understudy.tables.influence.equations.mean import MeanEquation
from understudy.tables.influence.equations.quantile import QuantileEquation, quantiles_of
from understudy.tables.regress import solve

N = 200_000
Columns = dict[str, np.ndarray]
EQUATIONS: dict[str, Equation] = {
    "mean": MeanEquation(),
    "median": QuantileEquation(0.5),
    "slope": LinearEquation(1, (1,)),
}


def estimate(name: str, values: Columns, w: np.ndarray) -> float:
    if name == "mean":
        return float(np.average(values["y"], weights=w))
    if name == "median":
        return float(quantiles_of(values["y"], w, np.array([0.5]))[0])
    matrix = np.column_stack([np.ones(len(w)), values["x0"]])
    return float(solve(values["y"], matrix, w, "gaussian")[1])


def vs_population(draw: np.random.Generator) -> tuple[np.ndarray, Columns]:
    z = draw.uniform(2.0, 10.0, N)
    x = draw.normal(z + 5.0, np.sqrt(2.0))
    return z, {"y": x, "x0": 0.5 * x + draw.normal(0, 2, N)}


def skewed_salaries(draw: np.random.Generator) -> tuple[np.ndarray, Columns]:
    """Lognormal salaries, and chances of selection that rise with them."""
    age = draw.uniform(30, 70, N)
    salary = np.exp(11.2 + 0.008 * age + draw.normal(0, 0.45, N))
    return 20.0 + salary / 5_000.0, {"y": salary, "x0": age}


def simulated(
    population: Callable[[np.random.Generator], tuple[np.ndarray, Columns]],
    name: str, n: int, repeats: int, seed: int,
) -> tuple[float, float]:  # fmt: skip
    """Coverage of 95 % intervals, and the AUC of "within one standard error"."""
    draw = np.random.default_rng(seed)
    z, columns = population(draw)
    reached = np.cumsum(z)
    truth = estimate(name, columns, np.ones(N))

    def sample() -> ArrayFile:
        points = (np.arange(n) + draw.random()) / n * reached[-1]
        rows = np.minimum(np.searchsorted(reached, points), N - 1)
        used = columns if name == "slope" else {"y": columns["y"]}
        return ArrayFile({k: v[rows] for k, v in used.items()}, reached[-1] / (n * z[rows]))

    covered, scores, inside = 0, [], []
    for _ in range(repeats):
        confidential, synthetic = sample(), sample()
        reply = answer(EQUATIONS[name], confidential, [synthetic], 1.0, draw)
        low, high = reply.interval(0.95)
        covered += low <= truth <= high
        apart = estimate(name, dict(confidential.values), confidential.weight) - reply.released
        scores.append(-abs(reply.difference))
        inside.append(abs(apart) <= reply.plan.prepared.sampling_se[0])
    right = stats.mannwhitneyu(
        np.array(scores)[np.array(inside)], np.array(scores)[~np.array(inside)]
    )
    return covered / repeats, float(right.statistic / (sum(inside) * (repeats - sum(inside))))


@pytest.mark.parametrize("name", EQUATIONS)
def test_answers_cover_and_tell(name: str) -> None:
    """300 repeats: binomial(300, .95) is below .89 with chance 3e-6; partitions have .74 to .77."""
    coverage, auc = simulated(vs_population, name, 1000, 300, 3)
    assert 0.89 < coverage <= 1
    assert auc > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("population", [vs_population, skewed_salaries])
@pytest.mark.parametrize("name", EQUATIONS)
def test_coverage_is_nominal(
    name: str, population: Callable[[np.random.Generator], tuple[np.ndarray, Columns]]
) -> None:
    coverage, _ = simulated(population, name, 2000, 3000, 4)
    assert 0.93 <= coverage <= 0.97
