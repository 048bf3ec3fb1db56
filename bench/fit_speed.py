"""A repeated fit against NumPyro's own: Beta, n = 2000, 500 + 1000 iterations, one chain.

    python bench/fit_speed.py

All fit new data of the same shape, after one fit that is not counted. NumPyro is used in three
ways: a new MCMC object for each fit, as its tutorials do; one object with `jit_model_args`; and a
whole run compiled once with the data as an argument, which is the fair peer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import polars as pl
from numpyro.infer import MCMC, NUTS

from understudy.fitting.fitter import ModelFitter
from understudy.fitting.nuts import Settings
from understudy.mechanisms.contract import plain_terms
from understudy.models.beta import Beta
from understudy.survey.codebook import Codebook, Column
from understudy.survey.survey import Survey

N, WARMUP, DRAWS, REPEATS = 2000, 500, 1000, 5
MODEL = Beta("y")
CODEBOOK = Codebook({"y": Column("y", role="sensitive", bounds=(0.0, 1.0))})


def shares(seed: int) -> Survey:
    y = np.random.default_rng(seed).beta(0.5, 3, N)
    return Survey(pl.DataFrame({"y": y}), codebook=CODEBOOK)


def ours(seed: int) -> np.ndarray:
    survey = shares(seed)
    settings = Settings(DRAWS, 1, WARMUP, most_thinning=1)
    nothing_missing = np.zeros(N, dtype=bool)
    fitter = ModelFitter(MODEL, survey, MODEL.prepare(survey), nothing_missing, settings, seed)
    return fitter.fit(plain_terms(fitter), "bench").draws["lambda"]


FUNCTION = partial(MODEL.function, N)
COUNTS: dict[str, Any] = {"num_warmup": WARMUP, "num_samples": DRAWS, "progress_bar": False}
REUSED = MCMC(NUTS(FUNCTION), jit_model_args=True, **COUNTS)


def new_object(seed: int) -> np.ndarray:
    return numpyros(MCMC(NUTS(FUNCTION), **COUNTS), seed)


def reused_object(seed: int) -> np.ndarray:
    return numpyros(REUSED, seed)


@jax.jit
def _compiled_run(key: Any, y: Any) -> Any:
    sampler = MCMC(NUTS(FUNCTION), **COUNTS)
    sampler.run(key, y=y)
    return sampler.get_samples()["lambda"]


def compiled_once(seed: int) -> np.ndarray:
    y = MODEL.prepare(shares(seed))["y"]
    return np.asarray(_compiled_run(jax.random.PRNGKey(seed), y))


def numpyros(sampler: Any, seed: int) -> np.ndarray:
    sampler.run(jax.random.PRNGKey(seed), y=MODEL.prepare(shares(seed))["y"])
    return np.asarray(sampler.get_samples()["lambda"])


def seconds(fit: Callable[[int], np.ndarray]) -> tuple[float, float]:
    """(median seconds of a repeated fit, posterior mean of lambda on the last data set)"""
    fit(0)
    taken = []
    for seed in range(1, REPEATS + 1):
        start = time.perf_counter()
        draws = fit(seed)
        taken.append(time.perf_counter() - start)
    return float(np.median(taken)), float(draws.mean())


def main() -> None:
    rows = {
        "Understudy": seconds(ours),
        "NumPyro, a new MCMC object": seconds(new_object),
        "NumPyro, one object, jit_model_args": seconds(reused_object),
        "NumPyro, compiled once, data as argument": seconds(compiled_once),
    }
    own = rows["Understudy"][0]
    print(f"{'repeated fit (Beta, n = 2000)':<42}{'seconds':>9}{'ratio':>8}{'mean lambda':>13}")
    for name, (taken, mean) in rows.items():
        print(f"{name:<42}{taken:>9.3f}{taken / own:>8.1f}{mean:>13.3f}")


if __name__ == "__main__":
    main()
