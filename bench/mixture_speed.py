"""The mixture synthesizer at the size of paper R's application: time per effective draw.

    python bench/mixture_speed.py [--n 6000] [--components 10] [--draws 400] [--warmup 200]

Effective draws are those of the worst predictive quantity (see `Mixture`), over two chains. Where
R has rstan, the same model can be timed there; where it has not, the time of our warm-up alone
is stated, so that another machine can compare.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import time
from dataclasses import replace

import numpy as np

from understudy.fitting.fitter import ModelFitter
from understudy.fitting.nuts import Settings
from understudy.models.mixture import Mixture
from understudy.privacy.contract import plain_terms
from understudy.studies.incomes import PREDICTORS, generated_incomes


def rstan_is_here() -> bool:
    if shutil.which("Rscript") is None:
        return False
    asked = ["Rscript", "-e", 'cat(requireNamespace("rstan", quietly = TRUE))']
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout == "TRUE"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("n", 6000), ("components", 10), ("draws", 400), ("warmup", 200)):
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
    if not rstan_is_here():
        print("rstan is not installed here; the time above stands alone")


if __name__ == "__main__":
    main()
