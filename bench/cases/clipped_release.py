"""A clipped release of FBS from Python: three files under ReferenceCensored, epsilon 3."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl

import understudy as us
from bench.framework.case import Case, NotRun, Side
from understudy.fitting import fitter

LARGEST_NUTS = 2_000
COLUMNS = (
    us.Column("field", type="categorical", levels=tuple("abcdefgh")),
    us.Column("gender", type="categorical", levels=("f", "m")),
    us.Column("salary", role="sensitive", bounds=(1.0, 1e9)),
    us.Column("w", role="weight", bounds=(0.1, 1e6)),
)


class ClippedRelease(Case):
    what = "three files of FBS under ReferenceCensored: both fits, bounds, records"
    peers = {"nuts": "the same by NUTS instead of independent proposals"}
    sizes = (2_000, 20_000, 200_000)
    quick = (1_000,)
    tiny = 500
    compiles = True

    def sides(self, n: int, folder: Path) -> dict[str, Side | NotRun]:  # noqa: ARG002
        confidential, past = survey(n, 1), survey(n, 2)
        model = us.FBS("salary", "field + gender", population=1e6)

        def release() -> None:
            us.synthesize(confidential, model, us.ReferenceCensored(3.0, past), datasets=3, seed=7)

        def by_nuts() -> None:
            with all_by_nuts():
                release()

        few = n <= LARGEST_NUTS
        return {
            "ours": Side(release),
            "nuts": Side(by_nuts, 2) if few else NotRun(f"above {LARGEST_NUTS:,} records"),
        }


@contextmanager
def all_by_nuts() -> Iterator[None]:
    kept = fitter.is_clipped_gaussian
    fitter.is_clipped_gaussian = lambda *_: False
    try:
        yield
    finally:
        fitter.is_clipped_gaussian = kept


def survey(n: int, seed: int) -> us.Survey:
    rng = np.random.default_rng(seed)
    field, gender = rng.integers(0, 8, n), rng.integers(0, 2, n)
    log_salary = 11 + 0.1 * field - 0.15 * gender + 0.45 * rng.standard_normal(n)
    frame = pl.DataFrame(
        {
            "field": np.array(list("abcdefgh"))[field],
            "gender": np.array(["f", "m"])[gender],
            "salary": np.exp(log_salary),
            "w": np.exp(rng.normal(3.0, 0.5, n)),
        }
    )
    return us.Survey(frame, us.Design(weight="w"), us.Codebook({c.name: c for c in COLUMNS}))
