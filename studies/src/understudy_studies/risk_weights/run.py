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
from understudy_studies.risk_weights.sweep import frontier, frontier_figure, sweep_repeat
from understudy_studies.risk_weights.tables import (
    application_facts,
    application_tables,
    facts,
    simulation_tables,
)

PUBLISHED_N = 6208  # consumer units in R's sample


@dataclass(frozen=True)
class RiskDesign:
    """Sizes of both parts."""

    counts: simulation.SimulationDesign
    incomes: application.ApplicationDesign


def parts(run: Run) -> Any:
    counts = replace(run, design=run.design.counts)
    simulated = counts.each("R §2.4, simulated files", simulation.replicate, "simulation")
    rows = stacked(simulated, "rows").select("replicate", pl.exclude("replicate"))
    fewer = replace(counts, replicates=min(run.replicates, run.design.counts.sweeps))
    swept = stacked(fewer.each("radius, swept", sweep_repeat, "sweep"), "rows")
    tables, figures = simulation_tables(rows, simulated), simulation_figures(simulated, rows)
    tables["frontier"] = frontier(swept)
    figures["frontier"] = frontier_figure(tables["frontier"], swept)
    known = {**facts(tables), "sweeps": fewer.replicates, "real": run.options["data"] is not None}
    if run.application:
        survey = incomes_of(run)
        applied = application.application(
            run.design.incomes, survey, run.seed, run.out / "application"
        )
        tables |= application_tables(applied)
        figures |= application_figures(applied, tables["application-table-4"])
        known |= {**application_facts(tables, applied), "units": survey.n}
    return tables, figures, known


def incomes_of(run: Run) -> us.Survey:
    """The file that was given, or a generated one."""
    data, design = run.options["data"], run.design.incomes
    if data is None:
        return generated_incomes(design.n or PUBLISHED_N, run.seed)
    if not Path(data).exists():
        raise us.Refused(f"There is no file `{data}`; leave `data` out to generate incomes.")
    return consumer_incomes(Path(data), design.n, run.seed)


WHOLE = RiskDesign(simulation.SimulationDesign(), application.ApplicationDesign())
QUICK = RiskDesign(simulation.QUICK, application.QUICK)
run_study = Study("risk-weights", WHOLE, QUICK, 20, 2, parts, (("data", None),))
