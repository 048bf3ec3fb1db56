"""`understudy study risk-weights`: paper R's simulation and application, with controls.

Every table and figure of R is written with the published number where there is one, and with the
spread over simulated files, so that a reader sees whether a difference means anything. Incomes are
those of the survey file `data` (CE interviews, Parquet), or of a generated file of its shape.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

import understudy as us
from understudy_studies.framework import Run, Study, stacked
from understudy_studies.risk_weights import application, simulation
from understudy_studies.risk_weights.figures import application_figures, simulation_figures
from understudy_studies.risk_weights.incomes import consumer_incomes, generated_incomes
from understudy_studies.risk_weights.tables import facts, study_tables

PUBLISHED_N = 6208  # consumer units in R's sample


@dataclass(frozen=True)
class RiskDesign:
    """Sizes of both parts."""

    counts: simulation.SimulationDesign
    incomes: application.ApplicationDesign


def parts(run: Run) -> Any:
    data, incomes = run.options["data"], run.design.incomes
    if data is None:
        survey = generated_incomes(incomes.n or PUBLISHED_N, run.seed)
    elif not Path(data).exists():
        raise us.Refused(f"There is no file `{data}`; leave `data` out to generate incomes.")
    else:
        survey = consumer_incomes(Path(data), incomes.n, run.seed)
    counts = replace(run, design=run.design.counts)
    simulated = counts.each("R §2.4, simulated files", simulation.replicate, "simulation")
    applied = application.application(incomes, survey, run.seed, run.out / "application")
    rows = stacked(simulated, "rows").select("replicate", pl.exclude("replicate"))
    tables = study_tables(rows, simulated, applied)
    figures = simulation_figures(simulated, rows)
    figures |= application_figures(applied, tables["application-table-4"])
    known = facts(tables, applied)
    return tables, figures, {**known, "units": survey.n, "real": data is not None}


WHOLE = RiskDesign(simulation.SimulationDesign(), application.ApplicationDesign())
QUICK = RiskDesign(simulation.QUICK, application.QUICK)
run_study = Study("risk-weights", WHOLE, QUICK, 20, 2, parts, (("data", None),))
