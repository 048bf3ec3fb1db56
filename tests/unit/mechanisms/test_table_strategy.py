"""The division of epsilon over a table and its margins, beside closed forms and searches."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from understudy.demo.doctorates import doctorates
from understudy.errors import Refused
from understudy.mechanisms import laplace_table as module
from understudy.mechanisms.laplace_table import laplace_table
from understudy.mechanisms.table_strategy import best_shares, expected_error

ROWS, COLUMNS = 8, 2
ONE_ROW, ONE_COLUMN = np.ones((1, ROWS)), np.ones((1, COLUMNS))
# cells, row margins, column margins, total: what `laplace_table` measures by two variables
TABLES = [
    np.eye(ROWS * COLUMNS),
    np.kron(np.eye(ROWS), ONE_COLUMN),
    np.kron(ONE_ROW, np.eye(COLUMNS)),
    np.kron(ONE_ROW, ONE_COLUMN),
]
WORKLOAD = np.vstack(TABLES)
NUMBER = np.repeat(np.arange(4), [len(table) for table in TABLES])
SHARES = [np.full(4, 0.25), np.array([0.7, 0.1, 0.15, 0.05]), np.array([0.97, 0.01, 0.01, 0.01])]


def by_eigenvalues(shares: np.ndarray, workload: np.ndarray) -> float:
    """2 (sum a)^2 tr(W'W (A'A)^-1): A'A and W'W have the same eigenspaces, the contrasts of rows,
    of columns, of both and the mean, so that the trace is a sum over four of them."""
    lengths = np.array([1, COLUMNS, ROWS, ROWS * COLUMNS])  # records of cells that an entry adds up
    seen = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 1]])  # by which tables
    dimension = np.array([(ROWS - 1) * (COLUMNS - 1), ROWS - 1, COLUMNS - 1, 1])
    strategy, asked = (seen @ (weight**2 * lengths) for weight in (shares, workload))
    return float(2 * shares.sum() ** 2 * (dimension * asked / strategy).sum())


@pytest.mark.parametrize("shares", SHARES)
def test_the_expected_error_is_the_closed_form(shares: np.ndarray) -> None:
    ours = expected_error(shares, np.ones(4), NUMBER, WORKLOAD)
    assert ours == pytest.approx(by_eigenvalues(shares, np.ones(4)), rel=1e-9)
    # Li et al. 2010: 2 (|A|_1 / epsilon)^2 |W A^+|_F^2, |A|_1 the largest column sum
    strategy = WORKLOAD * shares[NUMBER, None]
    answers = WORKLOAD @ np.linalg.pinv(strategy)
    norm = np.abs(strategy).sum(axis=0).max()
    assert ours == pytest.approx(2 * norm**2 * (answers**2).sum(), rel=1e-9)


@pytest.mark.parametrize("sensitivity", [(1, 1, 1, 1), (8, 1, 1, 1), (16, 8, 2, 1), (30, 6, 9, 2)])
def test_the_best_shares_are_those_of_a_search(sensitivity: tuple[float, ...]) -> None:
    """Scaled margins stand in the strategy as less noisy ones; all on the cells is one corner."""
    scale = np.array(sensitivity, dtype=np.float64)
    best = best_shares(scale, NUMBER, WORKLOAD)
    least = expected_error(best, scale, NUMBER, WORKLOAD)
    steps = np.linspace(0.0, 0.98, 15)
    grid = [np.array([1 - sum(three), *three]) for three in product(steps, repeat=3)]

    def error(shares: np.ndarray) -> float:  # (sum a)^2 is 1 whatever the scale
        return by_eigenvalues(shares / scale, np.ones(4)) / (shares / scale).sum() ** 2

    searched = min((shares for shares in grid if shares[0] > 0.01), key=error)
    assert best.sum() == pytest.approx(1)
    assert least == pytest.approx(error(best), rel=1e-9)
    assert 0.97 * error(searched) < least <= error(searched) * (1 + 1e-6)
    assert least < error(np.full(4, 0.25))


def test_counts_of_equal_noise_are_best_measured_by_their_cells_alone() -> None:
    """Laplace noise charges a record for each table that it lies in."""
    assert best_shares(np.ones(4), NUMBER, WORKLOAD).tolist() == [1, 0, 0, 0]
    assert best_shares(np.array([1.0, 0.0]), NUMBER[:24], WORKLOAD[:24]).tolist() == [0.5, 0.5]


def test_least_squares_spends_no_more_and_leaves_less_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spent: list[float] = []

    def record(counts: np.ndarray, _sensitivity: int, epsilon: float) -> np.ndarray:
        spent.append(epsilon)
        return counts

    parts: list[list[Fraction]] = []
    shares_of = module._shares
    monkeypatch.setattr(module, "integer_laplace", record)
    monkeypatch.setattr(module, "_shares", lambda *of: parts.append(shares_of(*of)) or parts[-1])
    survey, by = doctorates(400, seed=1), ["field", "gender"]
    asked = {"statistics": ["count", "mean(salary)"], "by": by, "epsilon": 3.0}
    left = {}
    for strategy in ("alike", "least squares"):
        spent.clear()
        made = laplace_table(
            survey, **asked, sensitivity="declared", consistent=True, strategy=strategy,  # type: ignore[arg-type]
            estimates=0.75,
        )  # fmt: skip
        replicates = [epsilon for epsilon in spent if epsilon == min(spent)]
        assert len(replicates) == 80
        assert sum(map(Fraction, replicates)) == pytest.approx(0.75)
        assert sum(map(Fraction, spent)) == pytest.approx(3)
        assert sum(map(Fraction, spent)) <= 3
        assert [sum(of_statistic) for of_statistic in parts] == [1] * len(parts)  # exactly
        counts = made.table.filter(statistic="count")
        sums = counts.pivot("gender", index="field", values="estimate")
        np.testing.assert_allclose(sums["All"], sums["Female"] + sums["Male"])
        assert "75% of epsilon is for the estimates and the rest for 10" in str(made.claim)
        left[strategy] = (counts["noise_sd"] ** 2).sum()
    assert left["least squares"] < 0.9 * left["alike"]
    with pytest.raises(Refused, match="Unknown strategy"):
        laplace_table(survey, **asked, strategy="best")  # type: ignore[arg-type]
    for estimates in (0.0, 1.0, 1):
        with pytest.raises(Refused, match="between 0 and 1"):
            laplace_table(survey, **asked, estimates=estimates)  # type: ignore[arg-type]
