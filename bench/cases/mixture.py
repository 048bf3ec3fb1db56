"""The mixture of ten regressions of paper R: CPU seconds per effective draw.

Effective draws are the median bulk ESS of expected predictive quantities (the distribution function
at seven places, the regression on the predictors), by the same function from both samplers' draws.
Ours is the model's Gibbs sampler; Stan's is NUTS on the same density in the same coordinates, from
the same starting points, with trees of at most the depth that gave it most effective draws per
gradient. It flatters Stan a little: it sees positive incomes only, ours the zeros too, and our time
holds the search for starting points. A chain of Stan takes .4 s an iteration at 6,000 records.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl

from bench.framework.case import Case, NotRun, Outcome, Side
from bench.framework.peer_environments import PEERS, has_rstan, last_line
from understudy.fitting.diagnostics import ess_bulk
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.nuts import Settings
from understudy.mechanisms.contract import plain_terms
from understudy.models.mixture.judged import generating_quantities
from understudy.models.mixture.mixture import Mixture
from understudy_studies.risk_weights.incomes import PREDICTORS, generated_incomes

COMPONENTS, CHAINS, WARMUP, DRAWS = 10, 2, 300, 700
MOST_CPU = 3600


class MixtureDraws(Case):
    what = "mixture of ten regressions"
    per = "effective draw"
    peers = {"rstan": "rstan (compiled), the same density by NUTS"}
    sizes = (1_000, 3_000, 6_000)
    quick = (200,)
    tiny = 200
    compiles = True

    def sides(self, n: int, folder: Path) -> dict[str, Side | NotRun]:
        survey = generated_incomes(n)
        model = Mixture("income", PREDICTORS, COMPONENTS, zero_by=("earner",))
        settings = Settings(DRAWS * CHAINS, CHAINS, WARMUP, most_thinning=1)
        complete = np.zeros(survey.n, dtype=bool)
        fitter = ModelFitter(model, survey, model.prepare(survey), complete, settings, 1, (), False)

        def ours() -> Outcome:
            fitted = fitter.fit(plain_terms(fitter), "release")
            flat = fitted.chains.reshape(-1, fitted.chains.shape[-1])
            values = jax.lax.map(lambda q: fitter.density.constrain(q, fitter.safe_arrays), flat)
            numbers = quantities(fitter, values).reshape(*fitted.chains.shape[:2], -1)
            return Outcome(worth=float(np.median(ess_bulk(numbers))))

        def rstan() -> Outcome:
            chains, seconds = zip(
                *(stan_chain(folder, fitter, k) for k in range(CHAINS)), strict=True
            )
            numbers = np.stack([quantities(fitter, chain) for chain in chains])
            return Outcome(worth=float(np.median(ess_bulk(numbers))), cpu=sum(seconds))

        return {
            "ours": Side(ours),
            "rstan": Side(rstan, 1, outside=True)
            if has_rstan() and n == self.sizes[0]
            else NotRun(f"run at {self.sizes[0]:,} records alone, where R has rstan"),
        }


def stan_chain(folder: Path, fitter: ModelFitter, chain: int) -> tuple[dict[str, Any], float]:
    """theta, sigma and share of every draw, and the CPU seconds of one chain."""
    model, arrays = fitter.model, fitter.arrays
    start = model.start(fitter.safe_arrays, plain_terms(fitter).alpha, chain)
    assert start is not None
    positive = arrays["y"] > 0
    size = np.log(arrays["y"][positive]) - float(arrays["centre"])
    tables = {
        "records": np.c_[arrays["Q"][positive], size],
        "L": arrays["L"],
        "theta": start["theta"],
        "components": np.c_[start["share"], start["sigma"]],
        "spread": start["spread"][:, None],
    }
    for name, table in tables.items():
        pl.DataFrame(np.asarray(table)).write_csv(folder / f"{name}.csv")
    sizes = [str(k) for k in (model.deepest_tree, WARMUP, DRAWS, chain + 1)]
    program = [str(shutil.which("Rscript")), str(PEERS / "mixture.R"), str(folder), *sizes]
    seconds = last_line(program, MOST_CPU)["sampling"]
    frame = pl.read_csv(folder / "draws.csv")
    K = sum(name.startswith("sigma[") for name in frame.columns)
    R = sum(name.startswith("spread[") for name in frame.columns)
    theta = [f"theta[{k},{r}]" for k in range(1, K + 1) for r in range(1, R + 1)]
    draws = {"theta": frame.select(theta).to_numpy().reshape(-1, K, R)}
    for name in ("sigma", "share"):
        draws[name] = frame.select([f"{name}[{k}]" for k in range(1, K + 1)]).to_numpy()
    return draws, seconds


def quantities(fitter: ModelFitter, parameters: dict[str, Any]) -> np.ndarray:
    """(draws, quantities) of parameters whose first axis is the draw."""
    arrays, key = {"Q": fitter.safe_arrays["Q"]}, jax.random.key(0)  # nothing is drawn
    chosen = {name: parameters[name] for name in ("theta", "sigma", "share")}
    every = jax.jit(lambda d: jax.lax.map(lambda each: generating_quantities(key, each, arrays), d))
    return np.stack([np.asarray(value) for value in every(chosen)[0].values()], axis=-1)
