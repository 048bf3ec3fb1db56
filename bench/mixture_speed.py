"""The mixture synthesizer at the size of paper R's application: time per effective draw.

    python bench/mixture_speed.py [--n 6000] [--components 10] [--draws 2000] [--warmup 400]
        [--chains 4] [--stan-chains 2] [--stan-warmup 300] [--stan-draws 700] [--stan-folder DIR]

Effective draws are bulk ESS of the predictive quantities on which chains are judged (see
`Mixture`), computed by the same function from both samplers' draws over all chains: the
distribution function of synthetic incomes at seven places, and its regression on the predictors.
Ours is the model's Gibbs sampler; Stan's is NUTS on the same density in the same coordinates, from
the same starting points, with trees of at most the depth that gave it most effective draws per
gradient. Both times are CPU time with warm-up, without compilation, which is told apart. It
flatters Stan a little: it sees positive incomes only, ours the zeros too, and our time holds the
search for starting points.

A chain of Stan takes about .4 s an iteration, so that 2 x 1,000 take seven minutes on two cores.
With `--stan-folder` its chains are kept, and those that are there are not run again.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import polars as pl

from understudy.fitting.diagnostics import ess_bulk, rhat
from understudy.fitting.fitter import ModelFitter
from understudy.fitting.nuts import Settings
from understudy.mechanisms.contract import plain_terms
from understudy.models.mixture.judged import generating_quantities
from understudy.models.mixture.mixture import Mixture
from understudy_studies.risk_weights.incomes import PREDICTORS, generated_incomes

RSCRIPT = Path(__file__).with_suffix(".R")
LEAST_RATIO = 10.0  # asked for, per effective draw


def rstan_is_here() -> bool:
    if shutil.which("Rscript") is None:
        return False
    asked = ["Rscript", "-e", 'cat(requireNamespace("rstan", quietly = TRUE))']
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout == "TRUE"


def stan_chain(
    folder: Path, fitter: ModelFitter, chain: int, warmup: int, draws: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, int]:
    """theta, sigma and share of every draw, CPU seconds, and iterations; run unless it is there."""
    if not (folder / "cost.csv").exists():
        folder.mkdir(parents=True, exist_ok=True)
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
        sizes = [str(k) for k in (model.deepest_tree, warmup, draws, chain + 1)]
        asked = ["Rscript", str(RSCRIPT), str(folder), *sizes]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"rstan failed: {done.stderr[-500:]}")
    cost, frame = pl.read_csv(folder / "cost.csv"), pl.read_csv(folder / "draws.csv")
    K = sum(name.startswith("sigma[") for name in frame.columns)
    R = sum(name.startswith("spread[") for name in frame.columns)
    theta = [f"theta[{k},{r}]" for k in range(1, K + 1) for r in range(1, R + 1)]
    sigma, share = ([f"{name}[{k}]" for k in range(1, K + 1)] for name in ("sigma", "share"))
    return (
        frame.select(theta).to_numpy().reshape(-1, K, R),
        frame.select(sigma).to_numpy(),
        frame.select(share).to_numpy(),
        float(cost["seconds"][0]),
        int(cost["iterations"][0]),
    )


def quantities(fitter: ModelFitter, parameters: dict[str, np.ndarray]) -> np.ndarray:
    """(draws, quantities) of parameters whose first axis is the draw."""
    arrays = {name: fitter.safe_arrays[name] for name in ("Q", "confidential", "centre")}

    @jax.jit
    def every(draws: Any) -> Any:
        return jax.lax.map(lambda draw: generating_quantities(draw, arrays), draws)

    return np.stack([np.asarray(value) for value in every(parameters).values()], axis=-1)


def printed_worth(name: str, numbers: np.ndarray, seconds: float, iterations: int) -> np.ndarray:
    """Print a sampler's line; its CPU seconds per effective draw, (quantities,)."""
    worth = ess_bulk(numbers)
    print(
        f"{name}: {len(numbers)} chains, {iterations} iterations with warm-up, {seconds:.0f} CPU-s;"
        f" largest R-hat {rhat(numbers).max():.3f}; bulk ESS of {len(worth)} quantities: least "
        f"{worth.min():.0f}, median {np.median(worth):.0f}; CPU-s per effective draw: "
        f"{seconds / worth.min():.3f} of the worst, {np.median(seconds / worth):.4f} median",
        flush=True,
    )
    return seconds / worth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = {"n": 6000, "components": 10, "draws": 2000, "warmup": 400, "chains": 4,
             "stan-chains": 2, "stan-warmup": 300, "stan-draws": 700}  # fmt: skip
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--stan-folder", type=Path)
    chosen = parser.parse_args()
    survey = generated_incomes(chosen.n)
    model = Mixture("income", PREDICTORS, chosen.components, zero_by=("earner",))
    settings = Settings(chosen.draws * chosen.chains, chosen.chains, chosen.warmup, most_thinning=1)
    missing = np.zeros(survey.n, dtype=bool)
    fitter = ModelFitter(model, survey, model.prepare(survey), missing, settings, 1, (), False)
    terms = plain_terms(fitter)
    began = time.process_time()
    replace(fitter, settings=Settings(100, chosen.chains, 25, most_thinning=1)).fit(terms, "warm")
    print(f"ours: the first fit, compiled and short: {time.process_time() - began:.0f} CPU-s")
    began = time.process_time()
    fitted = fitter.fit(terms, "release")
    seconds = time.process_time() - began
    flat = fitted.chains.reshape(-1, fitted.chains.shape[-1])
    constrain = jax.jit(
        lambda all_of_them: jax.lax.map(
            lambda q: fitter.density.constrain(q, fitter.safe_arrays), all_of_them
        )
    )
    values = {name: np.asarray(v) for name, v in constrain(flat).items()}
    numbers = quantities(fitter, {name: values[name] for name in ("theta", "sigma", "share")})
    numbers = numbers.reshape(*fitted.chains.shape[:2], -1)
    ours = printed_worth("ours", numbers, seconds, chosen.chains * (chosen.warmup + chosen.draws))
    if not rstan_is_here() and chosen.stan_folder is None:
        print("rstan is not installed here; the times above stand alone")
        return
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(2) as two:
        folder = chosen.stan_folder or Path(temporary)
        chains = list(
            two.map(
                lambda chain: stan_chain(
                    folder / f"chain-{chain}", fitter, chain, chosen.stan_warmup, chosen.stan_draws
                ),
                range(chosen.stan_chains),
            )
        )
    names = ("theta", "sigma", "share")
    theirs = printed_worth(
        "rstan",
        np.stack(
            [quantities(fitter, dict(zip(names, chain[:3], strict=True))) for chain in chains]
        ),
        sum(chain[3] for chain in chains),
        sum(chain[4] for chain in chains),
    )
    ratio = theirs / ours
    print(
        f"per effective draw rstan takes {ratio.min():.0f} to {ratio.max():.0f} times our time "
        f"(median {np.median(ratio):.0f} over {len(ratio)} quantities); each one's worst quantity: "
        f"{theirs.max() / ours.max():.0f} times"
    )
    if min(ratio.min(), theirs.max() / ours.max()) < LEAST_RATIO:
        sys.exit(f"slower than {LEAST_RATIO:.0f} times rstan per effective draw")


if __name__ == "__main__":
    main()
