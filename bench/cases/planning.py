"""A plan of a verification: what answers to expect over a grid of n x n assumed results."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.framework.case import Case, Side
from understudy.verify.planner import plan


class Planning(Case):
    what = "plan of a verification over n x n assumed results, both measures"
    peers = {}
    sizes = (5, 10, 20)
    quick = (5,)
    tiny = 4

    def sides(self, n: int, folder: Path) -> dict[str, Side]:  # noqa: ARG002
        estimates, ses = np.linspace(64_880, 65_120, n), np.geomspace(30, 120, n)

        def ours() -> None:
            for measure in ("discrepancy", "agreement"):
                plan(65_000.0, 60.0, measure=measure, estimates=estimates, ses=ses)

        return {"ours": Side(ours)}
