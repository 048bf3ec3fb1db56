"""Report M's simulation (chapters 2 and 3): ORI, MS and MODIPS on a census-scale table.

Each replicate draws an original table from the true shares, then m = 5 tables by MS and by MODIPS
at each epsilon and relation, and combines them (M eq. 3.1-3.3). Cells with the same true count
are alike, so sums are kept by true count: no per-cell Monte Carlo noise is left in the biases, and
the state of a run is small. A run that is stopped goes on where it was.

Nothing here is confidential and nothing is released, so the noise is drawn by NumPy, with the law
of OpenDP's integer Laplace noise (a difference of two geometric variables); the tests compare the
two. At 500 replicates OpenDP would draw for days.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy import stats

import understudy as us
from understudy_studies.framework import Vector, sum_replicates

Counts = NDArray[np.int64]

EPSILONS = tuple(math.exp(k) for k in range(-6, 5))
DATASETS = 5
RELATIONS = ("add-remove", "replace")
PRIOR = 0.5
# sums that a replicate adds for each method and true count
SUMS = ("count", "square", "coverage", "coverage_report", "empty", "empty_sets")
METHOD = ["name", "epsilon", "relation", "scale"]


@dataclass(frozen=True)
class Method:
    """ORI, MS, or MODIPS at one epsilon (the total over m data sets) and relation."""

    name: str
    epsilon: float = math.inf
    relation: str = ""

    @property
    def scale(self) -> float:
        """Of the noise in each data set; 0 without noise."""
        if self.name != "MODIPS":
            return 0.0
        return us.Modips(self.epsilon, "observed", self.relation).scale(DATASETS)  # type: ignore[arg-type]


def methods(epsilons: Sequence[float] = EPSILONS) -> list[Method]:
    """ORI, MS, then MODIPS by relation and epsilon."""
    private = [Method("MODIPS", e, relation) for relation in RELATIONS for e in epsilons]
    return [Method("ORI"), Method("MS"), *private]


def run(
    counts: Counts,
    replicates: int,
    state: Path,
    epsilons: Sequence[float] = EPSILONS,
    seed: int = 1,
    progress: bool | None = False,
) -> pl.DataFrame:
    """Replicates of the simulation with true counts `counts`: a row for each method and class of
    cells. `state` is where the sums are kept.

    A later call with more replicates goes on from there; each replicate has its own seed.
    """
    true, classes, cells = np.unique(counts, return_inverse=True, return_counts=True)
    every = methods(epsilons)

    def compute(number: int) -> Vector:
        return one_replicate(counts, classes, every, np.random.default_rng([seed, number]))

    sums, used = sum_replicates(state, replicates, compute, progress)
    return pl.concat(
        by_class(method, own, true, cells, used) for method, own in zip(every, sums, strict=True)
    )


def one_replicate(
    counts: Counts, classes: Counts, every: Sequence[Method], rng: np.random.Generator
) -> Vector:
    """Sums by class of cells, (methods, SUMS, classes): M §2.2.6 steps 2 to 4."""
    size = int(counts.sum())
    original = rng.multinomial(size, counts / size)
    sums = np.empty((len(every), len(SUMS), int(classes.max()) + 1))
    for row, method in enumerate(every):
        if method.name == "ORI":
            sets = original[None, :].astype(np.float64)
        else:
            sets = synthetic_sets(original, method.scale, rng)
        for column, values in enumerate(cell_figures(sets, counts, size)):
            sums[row, column] = np.bincount(classes, values, minlength=sums.shape[2])
    return sums


def synthetic_sets(original: Counts, scale: float, rng: np.random.Generator) -> Vector:
    """m tables of counts, (DATASETS, cells): MS where the scale of the noise is 0, else MODIPS."""
    size = int(original.sum())

    def one_set(own: np.random.Generator) -> Counts:
        basis: Vector | Counts = original
        if scale > 0:
            basis = us.rescaled_counts(original + integer_noise(original.size, scale, own), size)
        return us.synthetic_counts(basis, size, PRIOR, own)

    return np.array(us.side_by_side(one_set, rng.spawn(DATASETS)), dtype=np.float64)


def cell_figures(sets: Vector, true: Counts, size: int) -> list[Vector]:
    """For each cell the entries of SUMS, from m tables (M eq. 3.1-3.3, in counts, not shares).

    T = B/m + W, t with (m-1)(1 + mW/B)^2 degrees of freedom, W = mean of p(1-p)/N.
    """
    m = len(sets)
    mean = sets.mean(axis=0)
    within = (sets * (1 - sets / size)).mean(axis=0)
    if m == 1:
        half = t_quantile(np.full(mean.size, size - 1.0)) * np.sqrt(within)
    else:
        between = ((sets - mean) ** 2).sum(axis=0) / (m - 1) / m  # B/m
        ratio = np.divide(within, between, out=np.full_like(mean, 1e6), where=between > 0)
        half = t_quantile((m - 1) * (1 + ratio) ** 2) * np.sqrt(between + within)
    covered = np.abs(mean - true) <= half
    empty = mean == 0
    return [
        mean,
        (mean - true) ** 2,
        covered.astype(np.float64),
        (covered | empty).astype(np.float64),
        empty.astype(np.float64),
        (sets == 0).mean(axis=0),
    ]


def integer_noise(size: int, scale: float, rng: np.random.Generator) -> Counts:
    """Integer Laplace noise for simulations only: floors of exponentials are geometric."""
    up = np.floor(rng.standard_exponential(size) * scale)
    return (up - np.floor(rng.standard_exponential(size) * scale)).astype(np.int64)


def t_quantile(degrees: Vector) -> Vector:
    """97.5 % quantile of t by interpolation in 1/degrees (exact to 1e-6); degrees >= 4."""
    return np.asarray(np.interp(1 / degrees, _GRID, _QUANTILES), dtype=np.float64)


_GRID = np.linspace(0.0, 0.25, 4001)
_QUANTILES = np.append(stats.norm.ppf(0.975), stats.t.ppf(0.975, 1 / _GRID[1:]))


def by_class(
    method: Method, sums: Vector, true: Counts, cells: Counts, replicates: int
) -> pl.DataFrame:
    """Means over the `cells` cells of a class, which have `true` records each, and the replicates;
    `expected` is the closed form of the bias.

    `rmse_report` adds a squared bias of shares to a variance of counts, as the report prints it;
    `coverage_report` counts cells that are empty in all sets as covered.
    """
    means = dict(zip(SUMS, sums / (replicates * cells), strict=True))
    bias = means["count"] - true
    variance = np.maximum(means["square"] - bias**2, 0)
    expected = np.zeros(true.size)
    if method.name != "ORI":
        expected = class_bias(true, cells, PRIOR, method.scale)
    known = {**asdict(method), "scale": method.scale, "replicates": replicates}
    numbers = {
        "true": true,
        "cells": cells,
        "bias": bias,
        "expected": expected,
        "variance": variance,
        "rmse": np.sqrt(variance + bias**2),
        "rmse_report": np.sqrt(variance + (bias / (true * cells).sum()) ** 2),
    }
    return pl.DataFrame({**known, **numbers, **means})


def over_cells(classes: pl.DataFrame) -> pl.DataFrame:
    """A line for each method: means over all cells. `closed_form` is the mean |bias| by methods §8;
    `away` is how many Monte Carlo errors the simulated bias is from it."""
    cells, bias, expected = pl.col("cells"), pl.col("bias"), pl.col("expected")
    variance, replicates = pl.col("variance"), pl.col("replicates").first()

    def mean(values: pl.Expr) -> pl.Expr:
        return (values * cells).sum() / cells.sum()

    # of the mean |bias|: cells as if independent, which is too much, for they add up to N
    error = ((variance * cells).sum() / replicates).sqrt() / cells.sum()
    side = pl.when(expected < 0).then(-1.0).otherwise(1.0)
    return classes.group_by(METHOD, maintain_order=True).agg(
        size=(pl.col("true") * cells).sum(),
        cells=cells.sum(),
        bias=mean(bias.abs()),
        closed_form=mean(expected.abs()),
        away=mean(side * (bias - expected)) / error,
        **{name: mean(pl.col(name)) for name in ("rmse", "rmse_report", *SUMS[2:])},
    )


def class_bias(true: ArrayLike, cells: ArrayLike, prior: float, scale: float) -> Vector:
    """Closed form of the bias in records, for each class of cells (methods §8)."""
    number = np.asarray(cells, dtype=np.int64)
    # classes stand for their cells: the closed form needs every cell once
    counts = np.repeat(np.asarray(true, dtype=np.float64), number)
    size = int(counts.sum())
    per_cell = us.modips_bias(counts / size, size, prior, scale) * size
    return np.asarray(per_cell[np.cumsum(number) - 1], dtype=np.float64)
