"""Generated files with weights, strata, clusters, heaps and units, for tests of influence."""

from __future__ import annotations

import numpy as np
import polars as pl

from understudy.survey.design import Design
from understudy.survey.survey import Survey

DESIGN = Design(weight="w")


def people(n: int = 400, seed: int = 1, shift: float = 0.0) -> pl.DataFrame:
    """V's population with sizes 2 to 10: x grows with z, and so the weight falls with x."""
    draw = np.random.default_rng(seed)
    z = draw.uniform(2.0, 10.0, n)
    x = draw.normal(z + 5.0 + shift, np.sqrt(2.0))
    y = 2.0 + 0.5 * x + draw.normal(0, 2, n)
    return pl.DataFrame(
        {
            "x": x,
            "y": y,
            "k": draw.poisson(np.exp(-1 + 0.15 * x)),
            "b": (y > 7).astype(np.int64),
            "g": draw.choice(["a", "b", "c"], n),
            "r": np.round(x),
            "h": draw.integers(0, 4, n),
            "c": draw.integers(0, 3 * n // 40, n),
            "u": draw.integers(0, n // 3, n),
            "w": 600_000.0 / (n * z),
        }
    )


def survey(frame: pl.DataFrame, design: Design = DESIGN) -> Survey:
    return Survey(frame, design)
