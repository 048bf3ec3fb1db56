"""Pairwise risk weights of records in 40 patterns."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.framework.case import Case, Side
from bench.framework.incomes import KNOWN, incomes
from understudy.risk.weights import pairwise_weights


class PairwiseWeights(Case):
    what = "pairwise risk weights, 40 patterns"
    peers = {"sort": "NumPy's sort of the one column"}
    sizes = (10_000, 100_000, 1_000_000)
    quick = (1_000, 3_000, 10_000)
    tiny = 300
    bars = {"sort": 60.0}
    most_growth = 1.1

    def sides(self, n: int, folder: Path) -> dict[str, Side]:  # noqa: ARG002
        frame = incomes(n, 1)
        income = frame["income"].to_numpy()
        return {
            "ours": Side(lambda: pairwise_weights(frame, KNOWN, "income", 0.2)),
            "sort": Side(lambda: np.sort(income), compared=False),
        }
