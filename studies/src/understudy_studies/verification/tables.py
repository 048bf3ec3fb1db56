"""From stored answers to the study's tables: posterior medians, r_full, ROC and AUC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import betainc

import understudy as us
from understudy_studies.verification.normal import conditions, normal_table
from understudy_studies.verification.replicate import VerificationDesign
from understudy_studies.verification.roc import FEWEST, auc, auc_se, scores_of

Floats = NDArray[np.float64]
Noise = Literal["geometric", "laplace"]

KEYS = ["estimand", "synthesis", "partitioning", "interval", "alpha", "n_k", "M"]
NORMAL = 4  # times as many pairs as the ROC of a population has: they cost less
POINTS = 4001  # of the grid on which posterior distribution functions are crossed


def study_rows(results: Sequence[dict[str, Any]], epsilon: float) -> dict[str, pl.DataFrame]:
    """The rows of every part of the study."""
    parts = ("answers", "more", "bounded", "beyond")
    return {part: rows_of(results, part, epsilon) for part in parts}


def study_tables(
    rows: Mapping[str, pl.DataFrame], design: VerificationDesign, repeats: int
) -> dict[str, pl.DataFrame]:
    """Every table that the study writes."""
    answers = rows["answers"]
    tables = {
        "summary": summary(answers),
        "auc": auc_table(rows["more"]),
        "auc-bounded": auc_table(rows["bounded"]),
        "auc-designs": auc_table(answers.filter(synthesis="faithful", partitioning="equal")),
        "beyond": summary(rows["beyond"]),
        "beyond-auc": auc_table(rows["beyond"]),
        "auc-normal": normal_table(
            sorted({*design.partitions, design.roc_partitions}),
            design.epsilon,
            NORMAL * repeats * design.roc_pairs,
        ),
    }
    populations = {
        "no extreme weights": (rows["bounded"], tables["auc-bounded"]),
        "the paper's population": (rows["more"], tables["auc"]),
    }
    tables["auc-conditions"] = conditions(tables["auc-normal"], design.roc_partitions, populations)
    return tables


def rows_of(results: Sequence[dict[str, Any]], part: str, epsilon: float) -> pl.DataFrame:
    """All repeats' answers with `inside` (Q of V §4) and posterior medians under both noises."""
    rows = pl.concat(
        pl.DataFrame(result[part]).with_columns(replicate=pl.lit(result["replicate"]))
        for result in results
    ).with_columns(inside=pl.col("distance").abs() <= pl.col("alpha"))
    noises: tuple[tuple[str, Noise], ...] = (("median", "laplace"), ("own_median", "geometric"))
    for column, noise in noises:
        medians = np.empty(len(rows))
        for (m,), group in rows.with_row_index().group_by("M"):
            at = group["index"].to_numpy()
            noisy = group[noise].to_numpy().astype(float)
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
    lines = []
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
        lines.append(dict(zip(KEYS, key, strict=True)) | chance | numbers)
    return pl.DataFrame(lines, infer_schema_length=None)
