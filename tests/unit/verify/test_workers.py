"""Workers: a deadline of CPU time per partition, and no partition disturbs another (threat 7)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.optimize import minimize

from understudy.verify.caller import Caller, CallerLeft
from understudy.verify.partition_fit import (
    Task,
    estimate,
    linear_coefficients,
    logistic_coefficients,
    weighted_quantile,
)
from understudy.verify.workers import WorkerPool

DEADLINE = 0.02  # CPU seconds; a quantile takes a hundredth of them, the slow task fifteen times


def quantile_task(values: list[float]) -> Task:
    return Task("quantile", np.array([values, [1.0] * len(values)]))


def slow_task() -> Task:
    """A sound fit, but so wide that it takes far longer than the deadline of the tests."""
    draw = np.random.default_rng(1)
    columns = draw.normal(size=(602, 2000))
    columns[1] = 1.0
    return Task("linear", columns, levels=(0,) * 600)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool(count=2, deadline=DEADLINE)
    yield made
    made.close()


def test_a_slow_partition_has_no_estimate_and_the_others_are_untouched(pool: WorkerPool) -> None:
    tasks = [quantile_task([float(k), k + 1.0, k + 2.0]) for k in range(8)]
    plain = pool.run(tasks)
    assert plain.tolist() == [k + 1.0 for k in range(8)]
    tasks[3] = slow_task()
    assert np.isfinite(estimate(tasks[3]))  # only the deadline takes it away
    estimates = pool.run(tasks)
    assert np.isnan(estimates[3])
    assert np.array_equal(np.delete(estimates, 3), np.delete(plain, 3))
    assert np.array_equal(pool.run(tasks[:3]), plain[:3])  # the pool has recovered


def test_a_killed_worker_is_one_missing_estimate(pool: WorkerPool) -> None:
    pool.run([quantile_task([1.0])] * 2)
    pool._idle[-1].kill()
    pool._idle[-1].wait()
    estimates = pool.run([quantile_task([5.0])] * 4)
    assert np.isnan(estimates).sum() == 1
    assert set(estimates[~np.isnan(estimates)]) == {5.0}


def test_nothing_is_computed_for_a_caller_who_left(pool: WorkerPool) -> None:
    caller = Caller()
    caller.has_stayed()
    caller.hang_up()  # too late to be noticed
    assert pool.run([quantile_task([5.0])] * 3, caller).tolist() == [5.0] * 3
    left = Caller()
    left.hang_up()
    with pytest.raises(CallerLeft, match="its epsilon is spent"):
        pool.run([quantile_task([5.0])] * 3, left)
    assert pool._idle == []  # those that were at work are ended


def test_questions_at_once_have_workers_of_their_own(pool: WorkerPool) -> None:
    with ThreadPoolExecutor(2) as threads:
        tasks = [[quantile_task([float(k)])] * 6 for k in range(2)]
        assert [set(made) for made in threads.map(pool.run, tasks)] == [{0.0}, {1.0}]


def test_a_task_that_makes_no_sense_is_only_missing(pool: WorkerPool) -> None:
    broken = Task("linear", np.ones((2, 3)), levels=(0, 0))
    estimates = pool.run([broken, quantile_task([2.0]), quantile_task([])])
    assert np.isnan(estimates[0])
    assert estimates[1] == 2.0
    assert np.isnan(estimates[2])


def test_the_estimate_depends_on_the_records_not_their_order() -> None:
    draw = np.random.default_rng(2)
    columns = draw.normal(size=(4, 3000)) * 10.0 ** draw.integers(-3, 4, 3000)
    columns[1] = draw.uniform(1, 5, 3000)
    orders = [np.arange(3000), *(draw.permutation(3000) for _ in range(5))]
    estimates = {
        estimate(Task("linear", columns[:, order], levels=(0, 0), column=1)) for order in orders
    }
    assert len(estimates) == 1  # to the last bit
    X = np.vstack([np.ones(3000), columns[2:]]).T
    unsorted = {
        float(linear_coefficients(columns[0][o], X[o], columns[1][o])[2])  # type: ignore[index]
        for o in orders
    }
    assert len(unsorted) > 1  # without the sorting it would not be so


def test_singular_separated_and_short_designs_have_no_coefficients() -> None:
    draw = np.random.default_rng(3)
    x = draw.normal(size=50)
    ones = np.ones(50)
    y = (x > 0).astype(float)
    assert linear_coefficients(y, np.column_stack([ones, x, 2 * x]), ones) is None
    assert linear_coefficients(y, np.column_stack([ones, 0 * x]), ones) is None
    assert linear_coefficients(y[:1], np.column_stack([ones, x])[:1], ones[:1]) is None
    assert logistic_coefficients(y, np.column_stack([ones, x]), ones) is None
    assert logistic_coefficients(ones, np.column_stack([ones, x]), ones) is None


def test_logistic_coefficients_maximise_the_likelihood() -> None:
    draw = np.random.default_rng(4)
    X = np.column_stack([np.ones(400), draw.normal(size=(400, 2))])
    w = draw.uniform(0.5, 3, 400)
    y = (draw.random(400) < 1 / (1 + np.exp(-(X @ [0.3, -1.0, 0.5])))).astype(float)

    def loss(b: np.ndarray) -> float:
        z = X @ b
        return float(np.sum(w * (np.logaddexp(0, z) - y * z)))

    direct = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-7}).x
    coefficients = logistic_coefficients(y, X, w)
    assert coefficients is not None
    np.testing.assert_allclose(coefficients, direct, atol=1e-6)


def test_weighted_quantile_by_repetition() -> None:
    values, weight = np.array([3.0, 1.0, 2.0]), np.array([2.0, 1.0, 3.0])
    repeated = np.array([3.0, 3.0, 1.0, 2.0, 2.0, 2.0])
    for p in (0.05, 0.3, 0.5, 0.66, 0.67, 0.99):
        expected = np.quantile(repeated, p, method="inverted_cdf")
        assert weighted_quantile(values, weight, p) == expected
