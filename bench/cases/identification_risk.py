"""Identification risk of every record under five synthetic files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from bench.framework.case import Case, NotRun, Side
from bench.framework.incomes import KNOWN, incomes
from understudy.risk.identification import identification_risk

FILES, RADIUS = 5, 0.2
LARGEST_LOOP = 3_000


class IdentificationRisk(Case):
    what = "identification risk of every record, five synthetic files"
    peers = {
        "loop": "the published formula as it stands: each record against all, O(n²), in NumPy",
    }
    sizes = (3_000, 30_000, 300_000)
    quick = (500, 1_000, 2_000)
    tiny = 200
    most_growth = 1.1

    def sides(self, n: int, folder: Path) -> dict[str, Side | NotRun]:  # noqa: ARG002
        frame = incomes(n, 1)
        files = [frame.with_columns(income=incomes(n, seed)["income"]) for seed in range(2, 7)]
        assert len(files) == FILES
        loop = Side(lambda: direct_risk(frame, files))
        return {
            "ours": Side(
                lambda: identification_risk(
                    frame, files, known=KNOWN, target="income", radius=RADIUS
                )
            ),
            "loop": loop if n <= LARGEST_LOOP else NotRun(f"above {LARGEST_LOOP:,} records"),
        }

    def check(self, ours: np.ndarray, theirs: np.ndarray, peer: str) -> None:  # noqa: ARG002
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def direct_risk(frame: pl.DataFrame, files: list[pl.DataFrame]) -> np.ndarray:
    """Each record against all others of its pattern, file by file."""
    y = frame["income"].to_numpy()
    pattern = frame.select(pl.struct(KNOWN).rank("dense")).to_series().to_numpy()
    half = RADIUS * np.abs(y) + 1e-12 * np.abs(y)
    total = np.zeros(len(y))
    for file in files:
        z = file["income"].to_numpy()
        for i in range(len(y)):
            same = pattern == pattern[i]
            inside = (z >= y[i] - half[i]) & (z <= y[i] + half[i])
            if inside[i]:
                total[i] += (same & ~inside).sum() / same.sum()
    return total / len(files)
