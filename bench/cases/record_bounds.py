"""Bounds of all records over posterior draws, which never lie in memory as one matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.stats import beta

from bench.framework.case import Case, Side
from understudy.dp.record_bounds import record_bounds
from understudy.models.beta import Beta
from understudy.models.density import density_of

DRAWS = 200


class RecordBounds(Case):
    what = "bounds of all records over 200 draws, Beta model"
    peers = {"scipy": "SciPy's log densities, draw by draw, and their extremes"}
    sizes = (10_000, 30_000, 90_000)
    quick = (1_000, 2_000, 4_000)
    tiny = 300
    most_growth = 1.1
    compiles = True

    def sides(self, n: int, folder: Path) -> dict[str, Side]:  # noqa: ARG002
        rng = np.random.default_rng(0)
        arrays = {"y": rng.beta(0.5, 3, n)}
        density = density_of(Beta("y"), arrays)
        positions = rng.normal([-1.8, 1.25], 0.02, (DRAWS, 2))
        drawn = [density.constrain(position, arrays) for position in positions]
        shapes = [
            (float(d["lambda"] * d["phi"]), float(d["lambda"] * (1 - d["phi"]))) for d in drawn
        ]

        def ours() -> float:
            bounds = record_bounds(
                density.record_loglik, positions, arrays, np.ones(n), np.zeros(n)
            )
            return float(bounds.overall)

        def bare() -> float:
            return max(float(np.abs(beta.logpdf(arrays["y"], a, b)).max()) for a, b in shapes)

        return {"ours": Side(ours), "scipy": Side(bare)}

    def check(self, ours: float, theirs: float, peer: str) -> None:  # noqa: ARG002
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)
