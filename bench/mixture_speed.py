"""The mixture synthesizer at the size of paper R's application: time per effective draw.

    python bench/mixture_speed.py [--n 6000] [--components 10] [--draws 800] [--warmup 300]
                                  [--stan-iterations 100] [--stan-seconds 300]

Effective draws are those of the worst predictive quantity (see `Mixture`) over two chains, and
those of the log density within each chain. Where R has rstan, the same posterior is sampled there
from the same start with trees of the same depth, in a process that is stopped after
`--stan-seconds`. What it has said by then is printed: the time of a gradient, of an iteration,
and, if it came to its end, of an effective draw of the log density. The latter is rough: the log
density of a mixture mixes slowly, and its effective number is not well known from so few
iterations. Both are NUTS with a diagonal metric, so the ratio of the times of an iteration is the
steadier figure. It flatters Stan: it sees positive incomes only, ours the zeros too, and our time
holds the start and chains that were begun again.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

from understudy.fitting import fitter as fitter_module
from understudy.fitting.diagnostics import ess_bulk
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.nuts import Settings
from understudy.fitting.posterior import Posterior
from understudy.models.mixture import Mixture
from understudy.privacy.contract import plain_terms
from understudy.studies.incomes import PREDICTORS, generated_incomes

RSCRIPT = Path(__file__).with_suffix(".R")
STEPS = 300
ITERATION = re.compile(r"Iteration:\s*(\d+) /")


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


@contextmanager
def counted_iterations() -> Iterator[list[int]]:
    """Iterations of all chains, restarts too: what the progress bar would be told."""
    done: list[int] = []

    @contextmanager
    def counting(*_: Any) -> Iterator[Any]:
        yield done.append

    usual = fitter_module.fit_progress
    fitter_module.fit_progress = counting
    try:
        yield done
    finally:
        fitter_module.fit_progress = usual


def log_densities(fitter: ModelFitter, fitted: Posterior) -> np.ndarray:
    """log prior + log likelihood of every draw, (chains, draws, 1)."""

    @jax.jit
    def value(positions: jax.Array, given: Any) -> jax.Array:
        def one(position: jax.Array) -> jax.Array:
            log_prior, loglik = fitter.density.evaluate(position, given)
            return log_prior + loglik.sum()

        return jax.lax.map(one, positions)

    found = np.asarray(value(fitted.positions, fitter.safe_arrays))
    return found.reshape((*fitted.chains.shape[:2], 1))


@dataclass(frozen=True)
class StanSaid:
    """What rstan said before its end, or before it was stopped; None where it did not come to it.
    `running` are the seconds since it began its first iteration."""

    compiling: float | None
    gradient: float | None
    iterations: int
    running: float
    sampled: tuple[float, int, float] | None  # seconds, leapfrog steps, bulk ESS of lp


def stan_times(
    fitter: ModelFitter, start: dict[str, Any], iterations: int, limit: float
) -> StanSaid:
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
        asked = ["Rscript", str(RSCRIPT), folder, str(fitter.model.deepest_tree), str(iterations)]
        began = time.perf_counter()
        try:
            done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=limit)
            said = done.stdout
        except subprocess.TimeoutExpired as stopped:
            said = (stopped.stdout or b"").decode()
        return _read(said, time.perf_counter() - began)


def _read(said: str, elapsed: float) -> StanSaid:
    numbers = {}
    for line in said.splitlines():
        match line.split():
            case ["compiled" | "gradient" | "sampled" as what, *rest]:
                numbers[what] = [float(x) for x in rest]
    compiling = numbers.get("compiled", [None])[0]
    gradient = numbers.get("gradient", [None])[0]
    reached = max((int(k) for k in ITERATION.findall(said)), default=0)
    before = (compiling or 0.0) + 20 * (gradient or 0.0)
    sampled = numbers.get("sampled")
    whole = None if sampled is None else (sampled[0], int(sampled[1]), sampled[2])
    return StanSaid(compiling, gradient, reached, elapsed - before, whole)


def report(stan: StanSaid, ours: dict[str, float], warmup: int) -> None:
    """rstan beside ours: per gradient, per iteration, per effective draw of the log density."""
    if stan.compiling is None or stan.gradient is None or not stan.iterations:
        print("rstan did not come to its first iteration in the time it was given")
        return
    print(
        f"rstan: {stan.compiling:.0f} s to compile; {1e3 * stan.gradient:.2f} ms for a density "
        f"with gradient, {stan.gradient / ours['gradient']:.1f} times ours"
    )
    if stan.sampled is None:
        each = stan.running / stan.iterations
        print(
            f"rstan was stopped after {stan.iterations} iterations, {1e3 * each:.0f} ms each; a "
            f"warm-up of {warmup} takes it {warmup * each:.0f} s at that rate"
        )
    else:
        seconds, steps, worth = stan.sampled
        each = seconds / stan.iterations
        print(
            f"rstan: {seconds:.0f} s for {stan.iterations} iterations ({steps} leapfrog steps, "
            f"{1e3 * seconds / steps:.2f} ms each), ESS of lp {worth:.0f}: {seconds / worth:.2f} s "
            f"per effective draw of lp with its warm-up, ours {ours['lp draw']:.2f}: "
            f"{seconds / worth / ours['lp draw']:.1f} times ours"
        )
    print(
        f"an iteration: {1e3 * each:.0f} ms against {1e3 * ours['iteration']:.0f} ms, "
        f"{each / ours['iteration']:.1f} times ours"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    defaults = {"n": 6000, "components": 10, "draws": 800, "warmup": 300}
    for name, default in (defaults | {"stan-iterations": 100, "stan-seconds": 300}).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()
    survey = generated_incomes(chosen.n)
    model = Mixture("income", PREDICTORS, chosen.components, zero_by=("earner",))
    settings = Settings(chosen.draws, 2, chosen.warmup, most_thinning=1)
    missing = np.zeros(survey.n, dtype=bool)
    fitter = ModelFitter(model, survey, model.prepare(survey), missing, settings, 1, (), False)
    terms = plain_terms(fitter)
    began = time.perf_counter()
    replace(fitter, settings=Settings(8, 2, 50, most_thinning=1)).fit(terms, "release")
    print(f"compile and 50 iterations of warm-up: {time.perf_counter() - began:.1f} s", flush=True)
    began, cpu = time.perf_counter(), time.process_time()
    with counted_iterations() as iterations:
        fitted = fitter.fit(terms, "release")
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    found = fitted.diagnostics
    lp = log_densities(fitter, fitted)
    worth = sum(float(ess_bulk(chain[None])[0]) for chain in lp)  # each alone, as rstan's one is
    start = model.start(fitter.safe_arrays, terms.alpha)
    ours = {
        "gradient": our_step(fitter, start),
        "iteration": cpu / sum(iterations),
        "lp draw": cpu / worth,
    }
    print(
        f"n = {chosen.n}, K = {chosen.components}, {fitter.density.dimension} coordinates: "
        f"{wall:.1f} s ({cpu:.1f} CPU-s) with the start, {sum(iterations)} iterations; largest "
        f"R-hat {found.largest_rhat:.3f}, least ESS {found.least_ess_bulk:.0f}, "
        f"{cpu / max(found.least_ess_bulk, 1):.2f} CPU-s per effective draw of the worst "
        f"predictive quantity, {ours['lp draw']:.2f} of lp (ESS {worth:.0f}); "
        f"one density with gradient {1e3 * ours['gradient']:.2f} ms",
        flush=True,
    )
    if not rstan_is_here():
        print("rstan is not installed here; the times above stand alone")
        return
    stan = stan_times(fitter, start, chosen.stan_iterations, chosen.stan_seconds)
    report(stan, ours, chosen.warmup)


if __name__ == "__main__":
    main()
