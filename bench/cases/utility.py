"""What a synthetic file keeps: summary, propensity score and distance of distributions."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import understudy as us
from bench.framework.case import Case, Side
from bench.framework.generated_records import salaries
from understudy.utility.summary import summarise_utility

COLUMNS = ["field", "gender", "salary"]


class Utility(Case):
    what = "utility summary, propensity score and distance of distributions of two files"
    peers = {}
    sizes = (20_000, 60_000, 180_000)
    quick = (1_000, 2_000, 4_000)
    tiny = 300

    def sides(self, n: int, folder: Path) -> dict[str, Side]:  # noqa: ARG002
        first, second = salaries(n, 1), salaries(n, 2)

        def ours() -> None:
            summarise_utility(first, [second], COLUMNS, rng=np.random.default_rng(3))
            us.propensity_score(first, second, COLUMNS, classes=10)
            us.ecdf_distance(first["salary"], second["salary"], first["w"], second["w"])

        return {"ours": Side(ours)}
