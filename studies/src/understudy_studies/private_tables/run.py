"""`understudy study private-tables`: T's application and simulation; beside them corrected tables,
and noise that is divided better."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from understudy_studies.framework import Run, Study
from understudy_studies.private_tables.application import (
    application,
    application_survey,
    published_survey,
)
from understudy_studies.private_tables.cells import population_truth
from understudy_studies.private_tables.corrections import corrections_repeat
from understudy_studies.private_tables.figures import corrections_figure, draw_figures
from understudy_studies.private_tables.noise import noise_repeat, noise_table
from understudy_studies.private_tables.replicate import QUICK, Plan, replicate, study_population
from understudy_studies.private_tables.tables import (
    PLAIN,
    application_tables,
    by_cell,
    facts,
    study_rows,
    study_tables,
    with_errors,
)


def parts(run: Run) -> Any:
    results = run.each("T §4, samples", replicate)
    applied = None
    if run.application:
        data = run.options["data"]
        survey = (
            application_survey(run.seed, run.design.application_records)
            if data is None
            else published_survey(Path(data), run.options["columns"])
        )
        applied = run.once("application", partial(application, survey=survey))
    truth = population_truth(study_population(run.seed))
    rows = study_rows(results, truth)
    cells = by_cell(rows)
    corrected = study_rows(run.each("corrected tables", corrections_repeat, "corrections"), truth)
    tables = study_tables(rows, cells, results)
    if applied:
        tables |= application_tables(pl.DataFrame(applied["rows"]))
    tables["corrections"] = with_errors(corrected, by_cell(corrected))
    fewer = replace(run, replicates=min(run.replicates, run.design.noise_repeats))
    noisy = study_rows(fewer.each("noise on tables", noise_repeat, "noise"), truth)
    tables["noise"] = noise_table(noisy)
    rows, cells = (frame.filter(PLAIN) for frame in (rows, cells))
    figures = draw_figures(rows, cells, results[0]["pictures"], applied)
    figures["corrections"] = corrections_figure(tables["corrections"])
    return tables, figures, facts(tables, results) | {"real": run.options["data"] is not None}


OPTIONS = (("data", None), ("columns", None))
run_study = Study("private-tables", Plan(), QUICK, 100, 1, parts, OPTIONS)
