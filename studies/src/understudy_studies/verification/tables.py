"""From stored answers to the study's tables: posterior medians, r_full, ROC and AUC."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import betainc
from scipy.stats import rankdata

import understudy as us

Noise = Literal["geometric", "laplace"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

KEYS = ["estimand", "synthesis", "partitioning", "interval", "alpha", "n_k", "M"]
FEWEST = 10  # pairs inside and outside; with fewer an AUC says nothing
POINTS = 4001  # of the grid on which posterior distribution functions are crossed


def rows_of(found: Sequence[dict[str, Any]], part: str, epsilon: float) -> pl.DataFrame:
    """All repeats' answers with `inside` (Q of V §4) and posterior medians under both noises."""
    rows = pl.concat(
        pl.DataFrame(one[part]).with_columns(replicate=pl.lit(one["replicate"])) for one in found
    ).with_columns(inside=pl.col("distance").abs() <= pl.col("alpha"))
    noises: tuple[tuple[str, Noise], ...] = (("median", "laplace"), ("own_median", "geometric"))
    for column, noise in noises:
        medians = np.empty(len(rows))
        for (m,), places in rows.with_row_index().group_by("M"):
            at = places["index"].to_numpy()
            noisy = places[noise].to_numpy().astype(float)
            medians[at] = posterior_medians(noisy, int(str(m)), epsilon, noise)
        rows = rows.with_columns(pl.Series(column, medians))
    return rows


def posterior_medians(noisy: Floats, partitions: int, epsilon: float, noise: Noise) -> Floats:
    """Medians of r given S^R (V eq. 4), many at once: the exact mixture of Betas on a grid of r,
    its distribution function crossed by a straight line between two points."""
    grid = np.linspace(0.0, 1.0, POINTS)
    counts = np.arange(partitions + 1)[:, None]
    reached = betainc(counts + 1, partitions - counts + 1, grid)
    medians = np.empty(len(noisy))
    for start in range(0, len(noisy), 2000):  # bounds the memory
        some = slice(start, start + 2000)
        log_weights = us.agreement_loglik(noisy[some], partitions, epsilon, noise)
        weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
        cdf = (weights / weights.sum(axis=1, keepdims=True)) @ reached
        above = np.argmax(cdf >= 0.5, axis=1)
        row = np.arange(len(cdf))
        low, high = cdf[row, above - 1], cdf[row, above]
        medians[some] = grid[above - 1] + (0.5 - low) / (high - low) * (grid[1] - grid[0])
    return medians


def summary(rows: pl.DataFrame) -> pl.DataFrame:
    """r_full and the posterior medians of every setting, over repeats."""
    return rows.group_by(KEYS, maintain_order=True).agg(
        r_full=pl.col("inside").mean(),
        median=pl.col("median").mean(),
        median_sd=pl.col("median").std(),
        q1=pl.col("median").quantile(0.25),
        q3=pl.col("median").quantile(0.75),
        own_median=pl.col("own_median").mean(),
        own_sd=pl.col("own_median").std(),
        share=(pl.col("count") / pl.col("M")).mean(),
        repeats=pl.len(),
    )


def auc_table(rows: pl.DataFrame) -> pl.DataFrame:
    """How well each measure tells whether the confidential estimate is inside the tolerance.

    Agreement is ordered by its noisy count, the discrepancy by how near 0 it is: the orders of the
    posterior median and of the probability to be inside. With hardly any pair inside, or outside,
    there is nothing to tell, and no AUC.
    """
    found = []
    for key, part in rows.filter(interval="adjusted").group_by(KEYS, maintain_order=True):
        inside = part["inside"].to_numpy()
        scores = scores_of(part)
        numbers: dict[str, float | None] = {}
        for name, score in scores.items():
            enough = min(inside.sum(), (~inside).sum()) >= FEWEST
            area = auc(score, inside) if enough else None
            numbers[name] = area
            numbers[f"{name}_se"] = None if area is None else auc_se(area, inside)
        chance = {"pairs": len(part), "inside": float(inside.mean())}
        found.append(dict(zip(KEYS, key, strict=True)) | chance | numbers)
    return pl.DataFrame(found, infer_schema_length=None)


def scores_of(rows: pl.DataFrame) -> dict[str, Floats]:
    return {
        "discrepancy": -np.abs(rows["discrepancy"].to_numpy().astype(float)),
        "agreement": rows["geometric"].to_numpy().astype(float),
        "agreement_laplace": rows["laplace"].to_numpy(),
        "no_noise": -np.abs(rows["steps"].to_numpy().astype(float)),
        **{
            name: -np.abs(rows[name].to_numpy().astype(float))
            for name in rows.columns
            if name.startswith("clip ")
        },
    }


def auc(score: Floats, inside: Flags) -> float | None:
    """The chance that a pair inside scores above a pair outside, ties counted half."""
    ones = int(inside.sum())
    others = len(inside) - ones
    if not ones or not others:
        return None
    ranks = rankdata(score)
    return float((ranks[inside].sum() - ones * (ones + 1) / 2) / (ones * others))


def auc_se(area: float, inside: Flags) -> float:
    """Hanley and McNeil's standard error."""
    ones = int(inside.sum())
    others = len(inside) - ones
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (ones - 1) * (first - area**2) + (others - 1) * (second - area**2)
    return sqrt(max(spread, 0.0) / (ones * others))


def roc(score: Floats, inside: Flags) -> tuple[Floats, Floats]:
    """Shares of outside and of inside pairs that are called inside, as the threshold falls."""
    order = np.argsort(-score, kind="stable")
    last = np.append(np.diff(score[order]) != 0, True)  # ties are called together
    hits = np.cumsum(inside[order])[last] / max(1, inside.sum())
    false = np.cumsum(~inside[order])[last] / max(1, (~inside).sum())
    return np.concatenate([[0.0], false]), np.concatenate([[0.0], hits])
