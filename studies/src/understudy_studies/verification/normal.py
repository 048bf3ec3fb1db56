"""Both measures where every error is normal, and what sets the study's populations apart from it.

No data are needed: the synthetic estimate has a standard error of 1, the confidential one of
`ratio`, and the parts' errors are normal too. Flags, steps and noise are the server's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.framework import Vector
from understudy_studies.verification.replicate import CLIP
from understudy_studies.verification.roc import measured

RATIOS = (1.0, 2.0, 4.0)  # the paper's population has nearly 4
ALPHAS = (1.0, 2.0, 3.0)
AREAS = {
    f"{name}_{end}": getattr(pl.col(name), end)()
    for name in ("discrepancy", "agreement")
    for end in ("min", "max")
}


def normal_pairs(
    partitions: int, ratio: float, pairs: int, rng: np.random.Generator
) -> tuple[Vector, Vector]:
    """tau_hat - tau_0 and tau_k - tau_0 of many pairs of files, in synthetic standard errors.

    tau_0 has the variance 1, a part's estimate M ratio^2, and tau_hat is the mean of the parts.
    """
    whole = rng.normal(0.0, sqrt(1 + ratio**2), pairs)
    apart = rng.standard_normal((pairs, partitions))
    apart -= apart.mean(axis=1, keepdims=True)
    return whole, whole[:, None] + sqrt(partitions) * ratio * apart


def normal_table(
    partitions: Sequence[int],
    epsilon: str,
    pairs: int,
    ratios: Sequence[float] = RATIOS,
    seed: int = 1,
) -> pl.DataFrame:
    """AUC of discrepancy and agreement (adjusted intervals) for each M, ratio and alpha.

    `follows` is the correlation of the clipped answer, before any noise, with tau_hat - tau_0;
    `clipped` the share of parts that the clip cuts.
    """
    micro, rng = us.parse_epsilon(epsilon), np.random.default_rng(seed)
    lines: list[dict[str, Any]] = []
    for m in partitions:
        for ratio in ratios:
            whole, parts = normal_pairs(m, ratio, pairs, rng)
            bound = CLIP * sqrt(m)
            steps = us.discrepancy_steps(parts, 0.0, bound).sum(axis=1)
            drawn = us.geometric_noise(2 * us.DISCREPANCY_GRID, micro)(steps)
            near = -np.abs(np.array(drawn, dtype=np.float64))
            about: dict[str, Any] = {
                "M": m,
                "ratio": ratio,
                "clipped": float(np.mean(np.abs(parts) > bound)),
                "follows": float(np.corrcoef(steps, whole)[0, 1]),
            }
            for alpha in ALPHAS:
                inside = np.abs(whole) <= alpha
                counts = us.agreement_flags(parts, 0.0, sqrt(m) * alpha).sum(axis=1)
                noisy = np.array(us.geometric_noise(1, micro, (0, m))(counts), dtype=np.float64)
                row = about | {"alpha": alpha, "inside": float(inside.mean())}
                lines.append(row | measured({"discrepancy": near, "agreement": noisy}, inside))
    return pl.DataFrame(lines, infer_schema_length=None)


def conditions(
    normal: pl.DataFrame,
    partitions: int,
    populations: Mapping[str, tuple[pl.DataFrame, pl.DataFrame]],
) -> pl.DataFrame:
    """What the areas depend on: the normal setting beside populations (rows, their AUC table)."""
    errors = normal.filter(M=partitions).group_by("ratio", maintain_order=True)
    settings = [
        errors.agg(pl.col("follows").first(), **AREAS).with_columns(
            setting=pl.lit("normal errors"), estimand=pl.lit("any")
        )
    ]
    for name, (rows, areas) in populations.items():
        chosen = rows.filter(partitioning="equal", interval="adjusted")
        unrepeated = chosen.filter(alpha=chosen["alpha"][0])  # the rest repeats the same pairs
        follows = unrepeated.group_by("estimand", maintain_order=True).agg(
            # The distance is in synthetic standard errors: its variance is 1 + ratio^2.
            ratio=(pl.col("distance").var() - 1).clip(0).sqrt(),
            follows=pl.corr("steps", "distance"),
        )
        ranges = areas.filter(partitioning="equal").group_by("estimand").agg(**AREAS)
        joined = follows.join(ranges, on="estimand", how="left", maintain_order="left")
        settings.append(joined.with_columns(setting=pl.lit(name)))
    return pl.concat(
        part.select("setting", "estimand", "ratio", "follows", *AREAS) for part in settings
    )
