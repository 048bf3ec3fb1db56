"""How well a score tells pairs inside the tolerance from pairs outside: ROC, area, its error."""

from __future__ import annotations

from math import sqrt

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import rankdata

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

FEWEST = 10  # pairs inside and outside; with fewer an AUC says nothing


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
