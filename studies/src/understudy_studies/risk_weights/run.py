"""`understudy study risk-weights`: paper R's simulation and application, with controls.

Every table and figure of R is written with the published number where there is one, and with the
spread over simulated files, so that a reader sees whether a difference means anything.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import understudy as us
from understudy_studies.replicates import open_study, run_replicates
from understudy_studies.risk_weights.application import ApplicationDesign, application, settings_of
from understudy_studies.risk_weights.incomes import consumer_incomes, generated_incomes
from understudy_studies.risk_weights.page import write_results
from understudy_studies.risk_weights.simulation import SimulationDesign, replicate

PUBLISHED_N = 6208  # consumer units in R's sample


def run_study(
    replicates: int = 20,
    out: Path = Path("study-risk-weights"),
    data: Path | None = None,
    seed: int = 1,
    progress: bool | None = None,
    simulation: SimulationDesign | None = None,
    incomes: ApplicationDesign | None = None,
) -> Path:
    """Run or go on with the study; returns the page, `out`/study.html.

    `data` is the survey file of incomes (CE interviews, Parquet); without it a file of the
    published shape is generated. Each simulated file and each synthesizer of incomes is one file
    under `out`; the same command after an interruption computes only what is missing.
    """
    simulation, incomes = simulation or SimulationDesign(), incomes or ApplicationDesign()
    survey, source = _survey(data, incomes, seed)
    given = {f"simulation {name}": value for name, value in asdict(simulation).items()}
    named = {
        "seed": seed,
        "version": us.__version__,
        "incomes": "generated" if data is None else "CE",
    }
    open_study(out, {**named, **given, **settings_of(incomes)})
    simulated = run_replicates(
        out / "simulation",
        replicates,
        lambda number: replicate(simulation, seed, number),
        progress,
        "R §2.4, simulated files",
    )
    applied = application(incomes, survey, seed, out / "application")
    return write_results(out, simulated, applied, source, data is not None)


def _survey(data: Path | None, design: ApplicationDesign, seed: int) -> tuple[us.Survey, str]:
    if data is None:
        survey = generated_incomes(design.n or PUBLISHED_N, seed)
        return survey, f"{survey.n:,} generated consumer units of the published shape."
    if not data.exists():
        raise us.Refused(f"There is no file `{data}`; leave `data` out to generate incomes.")
    survey = consumer_incomes(data, design.n, seed)
    return survey, f"{survey.n:,} consumer units of the given survey file, each once."
