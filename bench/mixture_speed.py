"""The mixture synthesizer at the size of paper R's application: time per effective draw.

    python bench/mixture_speed.py [--n 6000] [--components 10] [--draws 800] [--warmup 300]

Effective draws are those of the worst predictive quantity (see `Mixture`), over two chains. Where
R has rstan, the same posterior is sampled there from the same start with trees of the same depth,
for a few iterations: enough to time an iteration, not to count effective draws. Both are NUTS
with a diagonal metric, so an effective draw costs both as many iterations, and the ratio of the
time of an iteration is the ratio per effective draw. It flatters Stan: its first iterations have
shorter trees than later ones, and it sees positive incomes only, ours the zeros too.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from understudy.fitting.fitter import ModelFitter
from understudy.fitting.nuts import Settings
from understudy.models.mixture import Mixture
from understudy.privacy.contract import plain_terms
from understudy.studies.incomes import PREDICTORS, generated_incomes

RSCRIPT = Path(__file__).with_suffix(".R")
STEPS = 1000
STAN_ITERATIONS = 25  # of warm-up, and as many draws


def rstan_is_here() -> bool:
    if shutil.which("Rscript") is None:
        return False
    asked = ["Rscript", "-e", 'cat(requireNamespace("rstan", quietly = TRUE))']
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout == "TRUE"


def our_step(fitter: ModelFitter, start: dict[str, Any]) -> float:
    """Seconds of one density with its gradient, inside a compiled loop as in the sampler."""
    density, arrays = fitter.density, fitter.safe_arrays

    def value(position: jax.Array, given: Any) -> jax.Array:
        log_prior, loglik = density.evaluate(position, given)
        return log_prior + loglik.sum()

    @jax.jit
    def walk(position: jax.Array, given: Any) -> jax.Array:
        def step(at: jax.Array, _: Any) -> tuple[jax.Array, None]:
            return at + 1e-9 * jax.grad(value)(at, given), None

        end: jax.Array = jax.lax.scan(step, position, None, STEPS)[0]
        return end

    given = {name: jnp.asarray(array) for name, array in arrays.items()}
    position = density.unconstrain(start, arrays)
    walk(position, given).block_until_ready()
    began = time.process_time()
    walk(position, given).block_until_ready()
    return (time.process_time() - began) / STEPS


def stan_times(fitter: ModelFitter, start: dict[str, Any]) -> tuple[float, float, int]:
    """Seconds of compiling, seconds of sampling, and how many leapfrog steps that were."""
    arrays = fitter.arrays
    positive = arrays["y"] > 0
    size = np.log(arrays["y"][positive]) - float(arrays["centre"])
    tables = {
        "records": np.c_[arrays["Q"][positive], size],
        "L": arrays["L"],
        "theta": start["theta"],
        "components": np.c_[start["share"], start["sigma"]],
        "spread": start["spread"][:, None],
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, table in tables.items():
            pl.DataFrame(np.asarray(table)).write_csv(Path(folder) / f"{name}.csv")
        limits = [str(fitter.model.deepest_tree), str(STAN_ITERATIONS)]
        asked = ["Rscript", str(RSCRIPT), folder, *limits]
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
    compiling, sampling, steps = (float(x) for x in done.stdout.split()[-3:])
    return compiling, sampling, int(steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("n", 6000), ("components", 10), ("draws", 800), ("warmup", 300)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()
    survey = generated_incomes(chosen.n)
    model = Mixture("income", PREDICTORS, chosen.components, zero_by=("earner",))
    settings = Settings(chosen.draws, 2, chosen.warmup, most_thinning=1)
    missing = np.zeros(survey.n, dtype=bool)
    fitter = ModelFitter(model, survey, model.prepare(survey), missing, settings, 1, (), False)
    terms = plain_terms(fitter)
    first = replace(fitter, settings=Settings(8, 2, 50, most_thinning=1))
    began = time.perf_counter()
    first.fit(terms, "release")  # compiles
    print(f"compile and 50 iterations of warm-up: {time.perf_counter() - began:.1f} s")
    began, cpu = time.perf_counter(), time.process_time()
    fitted = fitter.fit(terms, "release")
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    found = fitted.diagnostics
    print(
        f"n = {chosen.n}, K = {chosen.components}, {fitter.density.dimension} coordinates: "
        f"{wall:.1f} s ({cpu:.1f} CPU-s) for 2 x ({chosen.warmup} + {chosen.draws // 2}); "
        f"largest R-hat {found.largest_rhat:.3f}, least ESS {found.least_ess_bulk:.0f}, "
        f"{cpu / max(found.least_ess_bulk, 1):.3f} CPU-s per effective draw"
    )
    start = model.start(fitter.safe_arrays, terms.alpha)
    ours = our_step(fitter, start)
    print(f"one density with gradient: {1e3 * ours:.2f} ms")
    if not rstan_is_here():
        print("rstan is not installed here; the times above stand alone")
        return
    compiling, sampling, steps = stan_times(fitter, start)
    iteration, theirs = cpu / (2 * chosen.warmup + chosen.draws), sampling / (2 * STAN_ITERATIONS)
    print(
        f"rstan: {compiling:.0f} s to compile; {1e3 * sampling / steps:.1f} ms per leapfrog step "
        f"({steps} steps), {1e3 * theirs:.0f} ms per iteration against {1e3 * iteration:.0f} ms: "
        f"{theirs / iteration:.1f} times ours per iteration, and so per effective draw"
    )


if __name__ == "__main__":
    main()
