"""Noise on the table itself, better than T's: shares of epsilon by least squares, and the split
between estimates and standard errors, searched.

T §5 leaves optimised noise (Li et al. 2010, 2014) to others, and T §1.3 calls the trade between
precise estimates and precise variances an open challenge. Here both are tried on T's samples at
T's epsilon, with T's observed sensitivities. The interval score (Gneiting and Raftery 2007) asks
for intervals that are short and hold the truth: a split is judged by it, not by the error alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.framework import Row
from understudy_studies.private_tables.cells import CELL_COLUMNS, with_limits
from understudy_studies.private_tables.replicate import (
    BY,
    STATISTICS,
    Plan,
    Sample,
    numbered,
    rows_of,
    sample_rows,
    study_population,
    survey_of,
)

ALIKE, CONSISTENT, BEST = "as T", "made consistent", "least squares"
STRATEGIES: dict[str, Row] = {
    ALIKE: {},
    CONSISTENT: {"consistent": True},
    BEST: {"strategy": "least squares"},
}
SPLITS = (0.1, 0.3, 0.5, 0.7, 0.9)  # the estimates' part of epsilon
HALF_SAMPLES = (2, 4, 10)  # T has ten
MISSED = 2 / 0.05  # what a 95 % interval pays for each unit by which it misses the truth


def noise_repeat(plan: Plan, seed: int, number: int) -> Row:
    """The rows of one sample: itself, each strategy at T's split, the best one at every split."""
    rng = np.random.default_rng([seed, 9, number])
    drawn = us.doctorate_sample(study_population(seed), plan.n, rng)
    sample = Sample(survey_of(drawn), plan, number)
    rows = sample_rows(sample, "none")
    for label, options in STRATEGIES.items():
        rows += noisy_rows(sample, label, options)
    for part in SPLITS:
        for halves in HALF_SAMPLES:
            options = {**STRATEGIES[BEST], "estimates": part, "replicates": halves}
            rows += noisy_rows(sample, f"{BEST}; {part:.0%}, {halves} half-samples", options)
    return numbered(number, rows)


def noisy_rows(sample: Sample, label: str, options: Row) -> Iterator[pl.DataFrame]:
    epsilon = sample.plan.epsilon
    noisy = us.laplace_table(
        sample.survey, STATISTICS, BY, epsilon, seed=sample.number, **options
    ).table
    # ours takes the replicates' own noise out of their spread, T's leaves it in
    errors = {label: "se", f"{label}; T's errors": "replicate_se"}
    for statistic in STATISTICS:
        own = noisy.filter(statistic=statistic)
        part = CELL_COLUMNS.join(own, on=BY, how="left", maintain_order="left")
        for name, column in errors.items() if label in STRATEGIES else [(label, "se")]:
            cells = with_limits(part["estimate"].to_numpy(), part[column].to_numpy(), 1.96)
            yield rows_of(("Laplace", name, epsilon, 1, "recommended"), statistic, cells)


def noise_table(rows: pl.DataFrame) -> pl.DataFrame:
    """One line for each way and statistic, over all 27 cells and margins, relative to the sample's
    own; `rmse` is the root of the mean squared ratio, so that no cell is lost among larger ones."""
    low, high, truth = (pl.col(name) for name in ("lower", "upper", "truth"))
    outside = (low - truth).clip(0) + (truth - high).clip(0)
    square = (pl.col("estimate") - truth) ** 2
    cells = rows.group_by("mechanism", "statistic", "field", "gender", maintain_order=True).agg(
        square=square.mean(),
        score=(high - low + MISSED * outside).mean(),
        coverage=(outside == 0).mean(),
    )
    relative = {
        name: pl.col(name)
        / pl.col(name).filter(pl.col("mechanism") == "none").first().over("statistic", *BY)
        for name in ("square", "score")
    }
    return (
        cells.with_columns(**relative)
        .group_by("mechanism", "statistic", maintain_order=True)
        .agg(
            rmse_ratio=pl.col("square").mean().sqrt(),
            score_ratio=pl.col("score").mean(),
            coverage=pl.col("coverage").mean(),
        )
    )
