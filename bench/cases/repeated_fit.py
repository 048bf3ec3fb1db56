"""A repeated fit by NUTS: new data of the same shape, 500 + 1,000 iterations, one chain."""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import polars as pl
from numpyro.infer import MCMC, NUTS

import understudy as us
from bench.framework.case import Case, Side
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.nuts import Settings
from understudy.mechanisms.contract import plain_terms
from understudy.models.beta import Beta
from understudy.survey.codebook import Codebook, Column

WARMUP, DRAWS = 500, 1000
MODEL = Beta("y")
CODEBOOK = Codebook({"y": Column("y", role="sensitive", bounds=(0.0, 1.0))})


class RepeatedFit(Case):
    what = "repeated fit of the Beta model by NUTS from sums, 1,500 iterations"
    peers = {
        "sums": "NumPyro, compiled once, given the same sums as an argument",
        "compiled": "NumPyro, compiled once, given the records as an argument",
        "new": "NumPyro, a new MCMC object for each fit, compiled each time, as in its tutorials",
    }
    sizes = (500, 2_000, 8_000)
    quick = (100, 200, 400)
    tiny = 50
    compiles = True

    def sides(self, n: int, folder: Path) -> dict[str, Side]:  # noqa: ARG002
        seeds = count(1)
        function = partial(MODEL.function, n)
        counts: dict[str, Any] = {
            "num_warmup": WARMUP, "num_samples": DRAWS, "progress_bar": False,
        }  # fmt: skip

        def shares() -> us.Survey:
            y = np.random.default_rng(next(seeds)).beta(0.5, 3, n)
            return us.Survey(pl.DataFrame({"y": y}), codebook=CODEBOOK)

        def ours() -> float:
            survey, settings = shares(), Settings(DRAWS, 1, WARMUP, most_thinning=1)
            complete = np.zeros(n, dtype=bool)
            fitter = ModelFitter(MODEL, survey, MODEL.prepare(survey), complete, settings, 1)
            return float(fitter.fit(plain_terms(fitter), "bench").draws["lambda"].mean())

        def drawn(model: Any, key: Any, **data: Any) -> Any:
            sampler = MCMC(NUTS(model), **counts)
            sampler.run(key, **data)
            return sampler.get_samples()["lambda"]

        compiled = jax.jit(partial(drawn, function))
        compiled_sums = jax.jit(partial(drawn, _from_sums))

        def by(run: Any, from_sums: bool = False) -> float:
            arrays = MODEL.prepare(shares())
            data = {"sums": MODEL.moments(arrays, np.ones(n))} if from_sums else {"y": arrays["y"]}
            return float(np.asarray(run(jax.random.PRNGKey(1), **data)).mean())

        return {
            "ours": Side(ours),
            "sums": Side(lambda: by(compiled_sums, from_sums=True)),
            "compiled": Side(lambda: by(compiled)),
            "new": Side(lambda: by(partial(drawn, function))),
        }

    def check(self, ours: float, theirs: float, peer: str) -> None:  # noqa: ARG002
        assert abs(ours / theirs - 1) < 0.5  # other data of the same law


def _from_sums(sums: Any) -> None:
    phi = numpyro.sample("phi", dist.Beta(1.0, 1.0))
    lam = numpyro.sample("lambda", dist.Pareto(0.1, 1.5))
    numpyro.factor("records", MODEL.summed_loglik({"phi": phi, "lambda": lam}, sums))
