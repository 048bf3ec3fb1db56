"""The pass over the records of FBS: weighted sums of squares and products of all columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.framework.case import Case, Side
from understudy.demo.doctorates import doctorates
from understudy.fitting.moments import cell_moments
from understudy.models.normal_sample import FBS


class MomentsOfFbs(Case):
    what = "moments of FBS, salary and weight given field and gender"
    peers = {
        "read": "NumPy's sums of the same columns: reading them from memory",
        "product": "NumPy's own Z'AZ",
    }
    sizes = (100_000, 400_000, 1_600_000)
    quick = (10_000, 20_000, 40_000)
    tiny = 1_000
    bars = {"read": 4.0}
    most_growth = 1.1

    def sides(self, n: int, folder: Path) -> dict[str, Side]:  # noqa: ARG002
        survey = doctorates(1_000, seed=1)
        model = FBS("salary", "C(field) + gender").for_survey(survey)
        rows = np.arange(n) % survey.n
        arrays = {name: array[rows] for name, array in model.prepare(survey).items()}
        X, Y = (np.asarray(part, dtype=np.float64) for part in model.gaussian_data(arrays))
        alpha = np.random.default_rng(1).uniform(0, 1, n)
        cells = model.gaussian_cells(arrays)
        Z = np.concatenate([X, Y], axis=1)

        def ours() -> np.ndarray:
            moments = cell_moments(*cells, alpha)
            XX, XY, YY = (np.asarray(part) for part in (moments.XX, moments.XY, moments.YY))
            return np.block([[XX, XY], [XY.T, YY]])

        return {
            "ours": Side(ours),
            "read": Side(lambda: (X.sum(), Y.sum(), alpha.sum()), compared=False),
            "product": Side(lambda: (Z * alpha[:, None]).T @ Z),
        }

    def check(self, ours: np.ndarray, theirs: np.ndarray, peer: str) -> None:  # noqa: ARG002
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * np.abs(theirs).max())
