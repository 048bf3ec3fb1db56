"""How well a score tells pairs inside the tolerance from pairs outside: ROC, area, its error."""

from __future__ import annotations

from math import sqrt

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import rankdata

from understudy_studies.framework import FEWEST, Vector

Flags = NDArray[np.bool_]


def scores_of(rows: pl.DataFrame) -> dict[str, Vector]:
    """What orders the pairs: the noisy count of agreement, and how near 0 a discrepancy is. These
    are the orders of the posterior median and of the probability to be inside."""

    def near(name: str) -> Vector:
        return np.asarray(-np.abs(rows[name].to_numpy().astype(float)))

    return {
        "discrepancy": near("discrepancy"),
        "agreement": rows["geometric"].to_numpy().astype(float),
        "agreement_laplace": rows["laplace"].to_numpy(),
        "no_noise": near("steps"),
        **{name: near(name) for name in rows.columns if name.startswith("clip ")},
    }


def measured(scores: dict[str, Vector], inside: Flags) -> dict[str, float | None]:
    """The area of every score and its error; none with hardly any pair inside, or outside."""
    enough = min(inside.sum(), (~inside).sum()) >= FEWEST
    numbers: dict[str, float | None] = {}
    for name, score in scores.items():
        area = auc(score, inside) if enough else None
        numbers |= {name: area, f"{name}_se": None if area is None else auc_se(area, inside)}
    return numbers


def auc(score: Vector, inside: Flags) -> float:
    """The chance that a pair inside scores above a pair outside, ties counted half."""
    ones = int(inside.sum())
    others = len(inside) - ones
    ranks = rankdata(score)
    return float((ranks[inside].sum() - ones * (ones + 1) / 2) / (ones * others))


def auc_se(area: float, inside: Flags) -> float:
    """Hanley and McNeil's standard error."""
    ones = int(inside.sum())
    others = len(inside) - ones
    first, second = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (ones - 1) * (first - area**2) + (others - 1) * (second - area**2)
    return sqrt(max(spread, 0.0) / (ones * others))


def roc(score: Vector, inside: Flags) -> tuple[Vector, Vector]:
    """Shares of outside and of inside pairs that are called inside, as the threshold falls."""
    order = np.argsort(-score, kind="stable")
    last = np.append(np.diff(score[order]) != 0, True)  # ties are called together
    hits = np.cumsum(inside[order])[last] / max(1, inside.sum())
    false = np.cumsum(~inside[order])[last] / max(1, (~inside).sum())
    return np.concatenate([[0.0], false]), np.concatenate([[0.0], hits])
