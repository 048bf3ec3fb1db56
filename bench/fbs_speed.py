"""FBS: effective draws per second against rstan, a whole tuned release, and a million records.

    python bench/fbs_speed.py [--quick]

Figures, in one run: (1) effective draws per second (least bulk ESS over the parameters) of the
exact sampler for n = 1,000 and n = 10,355, and their ratio to rstan's, one chain of 600 + 1,000
iterations, where R has rstan (Debian's r-cran-rstan); with and without both compilers. (2) A
whole tuned release of n = 1,000: record weights, refits to the bound 1.8, three data sets and
their tables. (3) A fit of n = 1,000,000 against n = 10,000, without the pass over the data.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl

import understudy as us
from understudy.demo.doctorates import doctorates
from understudy.fitting.moments import cell_moments, sample_exactly
from understudy.fitting.nuts import Settings
from understudy.mechanisms.weighted import Weighted
from understudy.models.density import density_of
from understudy.models.normal_sample import FBS
from understudy.synthesis import synthesize
from understudy_studies.private_tables.application import application_survey

PREDICTORS = "C(field) + gender"
RSCRIPT = Path(__file__).with_name("fbs_speed.R")


def timed(run: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def effective_draws(survey: us.Survey, repeats: int) -> tuple[float, float, float]:
    """(least bulk ESS, seconds of a fit with its pass, seconds with compilation)."""
    model = FBS("salary", PREDICTORS).for_survey(survey)
    arrays = model.prepare(survey)
    alpha = jnp.ones(survey.n)
    start = time.perf_counter()
    density = density_of(model, arrays)

    def fit() -> object:
        return sample_exactly(density, arrays, alpha, Settings(2000), jax.random.key(1))

    fit()
    with_compiler = time.perf_counter() - start
    posterior = sample_exactly(density, arrays, alpha, Settings(2000), jax.random.key(1))
    if posterior is None:
        raise SystemExit("the exact sampler did not run")
    return posterior.diagnostics.least_ess_bulk, timed(fit, repeats), with_compiler


def rstan(survey: us.Survey) -> tuple[float, float, float] | None:
    """The same three figures by rstan, or None where R has no rstan."""
    try:
        asked = subprocess.run(
            ["Rscript", "-e", "cat(requireNamespace('rstan', quietly = TRUE))"],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    if asked.stdout.strip() != "TRUE":
        return None
    arrays = FBS("salary", PREDICTORS).for_survey(survey).prepare(survey)
    columns = np.c_[arrays["X"], arrays["y0"], arrays["w"]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.csv"
        pl.DataFrame(columns).write_csv(path)
        done = subprocess.run(
            ["Rscript", str(RSCRIPT), str(path)], capture_output=True, text=True, check=True
        )
    compiling, sampling, ess = (float(x) for x in done.stdout.split()[-3:])
    return ess, sampling, sampling + compiling


def release(repeats: int) -> float:
    survey = doctorates(1000, seed=1)

    def run() -> object:
        result = synthesize(
            survey, FBS("salary", PREDICTORS), Weighted(bound=1.8), datasets=3, draws=1000
        )
        by = ["field", "gender"]
        statistics = ["count", "mean(salary)"]
        return us.tabulate(result.datasets, statistics, by=by, margins=True, combine="partial")

    run()
    return timed(run, repeats)


def scaling(n: int, repeats: int) -> tuple[float, float]:
    """(seconds of the pass, seconds of a whole fit) for n records."""
    survey = doctorates(10_000, seed=1)
    model = FBS("salary", PREDICTORS).for_survey(survey)
    small = model.prepare(survey)
    rows = np.arange(n) % survey.n
    arrays = {name: array[rows] for name, array in small.items()}
    density = density_of(model, arrays)
    alpha = jnp.ones(n)

    def moments() -> object:
        return cell_moments(*model.gaussian_cells(arrays), alpha)

    moments()
    one_pass = timed(moments, repeats)

    def fit() -> object:
        return sample_exactly(density, arrays, alpha, Settings(2000), jax.random.key(1))

    fit()
    return one_pass, timed(fit, repeats)


def main() -> None:
    repeats = 2 if "--quick" in sys.argv else 7
    for name, survey in (("1,000", doctorates(1000, seed=1)), ("10,355", application_survey())):
        ess, seconds, compiled = effective_draws(survey, repeats)
        print(
            f"n = {name}: least ESS {ess:.0f} in {seconds:.3f} s: {ess / seconds:,.0f} per second "
            f"({ess / compiled:,.0f} with compilation)"
        )
        theirs = None if "--quick" in sys.argv else rstan(survey)
        if theirs is None:
            print("  rstan: not installed, or not asked")
            continue
        their_ess, their_seconds, their_compiled = theirs
        ratio = (ess / seconds) / (their_ess / their_seconds)
        whole = (ess / compiled) / (their_ess / their_compiled)
        print(
            f"  rstan: least ESS {their_ess:.0f} in {their_seconds:.1f} s; ratio {ratio:,.0f}, "
            f"with both compilers {whole:,.0f}"
        )
    print(f"a whole tuned release, n = 1,000, m = 3, with tables: {release(repeats):.2f} s")
    (small_pass, small), (large_pass, large) = (scaling(n, repeats) for n in (10_000, 1_000_000))
    print(
        f"fit without the pass: n = 10,000 {small - small_pass:.3f} s, n = 1,000,000 "
        f"{large - large_pass:.3f} s (passes {small_pass:.4f} and {large_pass:.3f} s): ratio "
        f"{(large - large_pass) / (small - small_pass):.2f}"
    )


if __name__ == "__main__":
    main()
