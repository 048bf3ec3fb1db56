"""FBS: CPU seconds per effective draw, ours from moments, rstan from the same sums or records.

Effective draws are the least bulk ESS over coefficients and scales, by the same function for both;
our time holds the pass over the records, rstan's the sums or nothing. First runs hold compilation,
rstan's only where its program was not kept.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from bench.framework.case import Case, NotRun, Outcome, Side
from bench.framework.peer_environments import PEERS, ROOT, has_rstan, last_line
from understudy.demo.doctorates import doctorates
from understudy.fitting.diagnostics import ess_bulk
from understudy.fitting.moments import sample_exactly
from understudy.fitting.nuts import Settings
from understudy.models.density import density_of
from understudy.models.normal_sample import FBS

PREDICTORS = "C(field) + gender"
DRAWS = 2000
LARGEST_RECORDS = 1_000
MOST_CPU = 600


class FbsDraws(Case):
    what = "FBS fitted from moments"
    per = "effective draw"
    peers = {
        "rstan_sums": "rstan (compiled), given the sums X'X, X'Y and Y'Y",
        "rstan_records": "rstan (compiled), through the records",
    }
    sizes = (1_000, 5_000, 25_000)  # of 100,000, which all have the weight 1
    quick = (200, 400, 800)
    tiny = 200
    compiles = True

    def sides(self, n: int, folder: Path) -> dict[str, Side | NotRun]:
        survey = doctorates(n, seed=1)
        model = FBS("salary", PREDICTORS).for_survey(survey)
        arrays = model.prepare(survey)
        alpha = jnp.ones(survey.n)
        density = density_of(model, arrays)

        def ours() -> Outcome:
            settings = Settings(DRAWS)
            posterior = sample_exactly(density, arrays, alpha, settings, jax.random.key(1))
            assert posterior is not None
            return Outcome(worth=posterior.diagnostics.least_ess_bulk)

        columns = np.c_[arrays["X"], arrays["y0"], arrays["w"]]
        pl.DataFrame(columns).write_csv(folder / "records.csv")
        sides: dict[str, Side | NotRun] = {"ours": Side(ours)}
        for way in ("sums", "records"):
            sides[f"rstan_{way}"] = _rstan(folder, way, columns)
        return sides


def _rstan(folder: Path, way: str, columns: np.ndarray) -> Side | NotRun:
    if not has_rstan():
        return NotRun("R has no rstan (scripts/test-components rstan)")
    if way == "records" and len(columns) > LARGEST_RECORDS:
        return NotRun(f"above {LARGEST_RECORDS:,} records")

    def run() -> Outcome:
        kept = ROOT / "build" / "peers" / f"fbs-{way}.rds"
        kept.parent.mkdir(parents=True, exist_ok=True)
        program = [str(shutil.which("Rscript")), str(PEERS / "fbs.R")]
        command = [*program, str(folder), way, str(kept)]
        spent = last_line(command, MOST_CPU)
        draws = pl.read_csv(folder / "draws.csv").to_numpy()
        _is_near(draws[:, : 2 * (columns.shape[1] - 2)], columns)
        worth = float(ess_bulk(draws[None]).min())
        seconds = spent["compiling"] + spent["sampling"]
        return Outcome(None, worth, seconds)

    return Side(run, most=5 if way == "sums" else 1, compared=False, outside=True)


def _is_near(draws: np.ndarray, columns: np.ndarray) -> None:
    """Posterior means of the coefficients are those of least squares, within half a deviation."""
    X, Y = columns[:, :-2], columns[:, -2:]
    squares = np.linalg.lstsq(X, Y, rcond=None)[0].T.ravel()
    assert (np.abs(draws.mean(axis=0) - squares) < 0.5 * draws.std(axis=0)).all()
