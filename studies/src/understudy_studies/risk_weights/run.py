"""`understudy study risk-weights`: paper R's simulation and application, with controls.

Every table and figure of R is written with the published number where there is one, and with the
spread over simulated files, so that a reader sees whether a difference means anything.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import understudy as us
from understudy_studies.framework import open_study, run_replicates, write_study
from understudy_studies.risk_weights import application, simulation
from understudy_studies.risk_weights.application import ApplicationDesign
from understudy_studies.risk_weights.facts import facts
from understudy_studies.risk_weights.figures import draw_figures
from understudy_studies.risk_weights.incomes import consumer_incomes, generated_incomes
from understudy_studies.risk_weights.simulation import SimulationDesign, replicate
from understudy_studies.risk_weights.tables import simulation_rows, study_tables

PUBLISHED_N = 6208  # consumer units in R's sample


def run_study(
    replicates: int | None = None,
    out: Path = Path("study-risk-weights"),
    seed: int = 1,
    data: Path | None = None,
    *,
    quick: bool = False,
    progress: bool | None = None,
    workers: int = 1,
    counts: SimulationDesign | None = None,
    incomes: ApplicationDesign | None = None,
) -> Path:
    """Run or continue the study; returns the page, `out`/study.html.

    `data` is the survey file of incomes (CE interviews, Parquet); without it a file of the
    published shape is generated. Each simulated file and each synthesizer of incomes is one file
    under `out`.
    """
    counts = counts or (simulation.QUICK if quick else SimulationDesign())
    incomes = incomes or (application.QUICK if quick else ApplicationDesign())
    replicates = (2 if quick else 20) if replicates is None else replicates
    survey = _survey(data, incomes, seed)
    parts = {"simulation": asdict(counts), "application": asdict(incomes)}
    named = {"incomes": "generated" if data is None else "CE"}
    out = open_study("risk-weights", out, seed, {**named, **parts})
    compute, folder = partial(replicate, counts, seed), out / "simulation"
    name = "R §2.4, simulated files"
    simulated = run_replicates(folder, replicates, compute, progress, name, workers)
    applied = application.application(incomes, survey, seed, out / "application")
    rows = simulation_rows(simulated)
    tables = study_tables(rows, simulated, applied)
    figures = draw_figures(simulated, rows, applied, tables["application-table-4"])
    known = facts(tables, len(simulated), applied)
    known |= {"units": survey.n, "real": data is not None}
    small = (counts, incomes) != (SimulationDesign(), ApplicationDesign())
    return write_study("risk-weights", out, tables, figures, known, small)


def _survey(data: Path | None, design: ApplicationDesign, seed: int) -> us.Survey:
    if data is None:
        return generated_incomes(design.n or PUBLISHED_N, seed)
    if not data.exists():
        raise us.Refused(f"There is no file `{data}`; leave `data` out to generate incomes.")
    return consumer_incomes(data, design.n, seed)
