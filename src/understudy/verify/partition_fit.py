"""Quantile, Gini's coefficient, correlation or regression coefficient of one partition, and the
worker.

Run as a program, it reads tasks from its standard input and writes one number for each;
not-a-number says that the estimate does not exist. The kernel ends the process when a task
has used its CPU seconds, even inside a matrix routine. CPU time, not wall time, so that a
slow record in one partition cannot make another partition late. Rows are put into one order
first: the number depends on the partition's records alone, to the last bit.
"""

from __future__ import annotations

import pickle
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from understudy.declarations import own_module
from understudy.tables.gini_coefficient import gini_coefficient

__public__ = ("Task as PartitionTask", "estimate as estimate_partition")

Floats = NDArray[np.float64]

MOST_STEPS = 30
LARGEST_LOGIT = 30.0  # beyond it the fit separates the outcome, and no estimate exists
LENGTH = struct.Struct("<Q")
NUMBER = struct.Struct("<d")


@dataclass(frozen=True)
class Task:
    """`fit` is the name of a function below, or `mine.py:function`. Columns are outcome,
    weight, then predictors; `levels[j]` is 0 for a number, else the count of public levels
    that predictor j's codes stand for. `column` is the predictor whose coefficient is wanted,
    `level` the dummy within it (from 1)."""

    fit: str
    columns: Floats  # (2 + predictors, records)
    probability: float = 0.5
    levels: tuple[int, ...] = ()
    column: int = 0
    level: int = 0


def estimate(task: Task) -> float:
    """The partition's estimate, or NaN where there is none."""
    if task.columns.shape[1] == 0:
        return float("nan")
    order = np.lexsort(task.columns[::-1])
    return float(fit_named(task.fit)(replace(task, columns=task.columns[:, order])))


def fit_named(name: str) -> Callable[[Task], float]:
    """A function of this file, or one in a file of the server's own."""
    file, colon, function = name.rpartition(":")
    known = vars(own_module(file, "estimator")) if colon else globals()
    fit: Callable[[Task], float] = known[function]
    return fit


def quantile(task: Task) -> float:
    outcome, weight = task.columns
    return weighted_quantile(outcome, weight, task.probability)


def gini(task: Task) -> float:
    outcome, weight = task.columns
    return float("nan") if np.any(outcome < 0) else gini_coefficient(outcome, weight)


def correlation(task: Task) -> float:
    y, weight, z = task.columns
    if np.ptp(y) == 0 or np.ptp(z) == 0:
        return float("nan")
    u, v = (values - np.average(values, weights=weight) for values in (y, z))
    u, v = u / np.abs(u).max(), v / np.abs(v).max()  # squares of any unit stay in range
    return float(np.sum(weight * u * v) / np.sqrt(np.sum(weight * u**2) * np.sum(weight * v**2)))


def linear(task: Task) -> float:
    outcome, weight, *predictors = task.columns
    design, wanted = design_matrix(predictors, task, len(outcome))
    coefficients = linear_coefficients(outcome, design, weight)
    return float("nan") if coefficients is None else float(coefficients[wanted])


def logistic(task: Task) -> float:
    outcome, weight, *predictors = task.columns
    design, wanted = design_matrix(predictors, task, len(outcome))
    coefficients = logistic_coefficients(outcome, design, weight)
    return float("nan") if coefficients is None else float(coefficients[wanted])


def poisson(task: Task) -> float:
    outcome, weight, *predictors = task.columns
    design, wanted = design_matrix(predictors, task, len(outcome))
    coefficients = poisson_coefficients(outcome, design, weight)
    return float("nan") if coefficients is None else float(coefficients[wanted])


def weighted_quantile(values: Floats, weight: Floats, probability: float) -> float:
    """The smallest value at which the weighted distribution reaches the probability."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    position = int(np.searchsorted(reached, probability * reached[-1], side="left"))
    return float(values[order][min(position, len(values) - 1)])


def design_matrix(predictors: list[Floats], task: Task, records: int) -> tuple[Floats, int]:
    """Intercept, numbers as they are, and a dummy for every public level but the first."""
    columns = [np.ones(records)]
    wanted = 0
    for number, (values, levels) in enumerate(zip(predictors, task.levels, strict=True)):
        if number == task.column:
            wanted = len(columns) + max(task.level - 1, 0)
        if levels:
            columns += [(values == code).astype(float) for code in range(1, levels)]
        else:
            columns.append(values)
    return np.column_stack(columns), wanted


def linear_coefficients(outcome: Floats, design: Floats, weight: Floats) -> Floats | None:
    """Weighted least squares by QR; None when the design is singular."""
    if design.shape[0] < design.shape[1]:
        return None
    root = np.sqrt(weight)[:, None]
    size = np.sqrt(np.sum((root * design) ** 2, axis=0))
    if not np.all(np.isfinite(size)) or np.any(size == 0):
        return None
    q, r = np.linalg.qr(root * design / size)
    if np.abs(np.diag(r)).min() < 1e-9:
        return None
    solved: Floats = np.linalg.solve(r, q.T @ (root[:, 0] * outcome)) / size
    return solved if np.all(np.isfinite(solved)) else None


def logistic_coefficients(outcome: Floats, design: Floats, weight: Floats) -> Floats | None:
    """Weighted maximum likelihood by Newton steps, at most MOST_STEPS; None when the
    design is singular, the outcome separated, or the steps do not settle."""
    coefficients = np.zeros(design.shape[1])
    for _ in range(MOST_STEPS):
        logit = design @ coefficients
        if not np.abs(logit).max() <= LARGEST_LOGIT:  # nor where it is no number
            return None
        chance = 1 / (1 + np.exp(-logit))
        spread = chance * (1 - chance)
        step = linear_coefficients((outcome - chance) / spread, design, weight * spread)
        if step is None:
            return None
        coefficients = coefficients + step
        if np.abs(design @ step).max() < 1e-8:
            return coefficients
    return None


def poisson_coefficients(outcome: Floats, design: Floats, weight: Floats) -> Floats | None:
    """Weighted maximum likelihood with a log link, by the same steps, from a regression of
    log(y + 1/2); None for negative outcomes too."""
    if np.any(outcome < 0):
        return None
    coefficients = linear_coefficients(np.log(outcome + 0.5), design, weight)
    for _ in range(MOST_STEPS):
        if coefficients is None:
            return None
        linear = design @ coefficients
        if not linear.max() <= LARGEST_LOGIT:  # means near 0 have an estimate
            return None
        mean = np.exp(linear)
        step = linear_coefficients((outcome - mean) / mean, design, weight * mean)
        if step is None:
            return None
        coefficients = coefficients + step
        if np.abs(design @ step).max() < 1e-8:
            return coefficients
    return None


def serve(tasks: BinaryIO, numbers: BinaryIO, seconds: float) -> None:
    """Answer tasks until the input ends; SIGPROF ends the process at a task's deadline."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    while len(header := tasks.read(LENGTH.size)) == LENGTH.size:
        task = pickle.loads(tasks.read(LENGTH.unpack(header)[0]))
        with suppress(Exception):
            fit_named(task.fit)  # a first import is not part of a partition's time
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            number = estimate(task)
        except Exception:
            # Whatever goes wrong inside a partition, that partition has no estimate.
            number = float("nan")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        numbers.write(NUMBER.pack(number))
        numbers.flush()


if __name__ == "__main__":
    np.seterr(all="ignore")
    estimate(Task("logistic", np.array([[0.0, 1.0, 1.0, 0.0], [1.0] * 4]), levels=()))
    serve(sys.stdin.buffer, sys.stdout.buffer, float(sys.argv[1]))
