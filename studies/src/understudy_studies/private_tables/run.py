"""`understudy study private-tables`: T's simulation, corrected tables beside it, and a file
like T's application."""

from __future__ import annotations

from typing import Any

import polars as pl

from understudy_studies.framework import Run, Study
from understudy_studies.private_tables.application import application
from understudy_studies.private_tables.cells import population_truth
from understudy_studies.private_tables.corrections import corrections_repeat
from understudy_studies.private_tables.figures import corrections_figure, draw_figures
from understudy_studies.private_tables.replicate import QUICK, Plan, replicate, study_population
from understudy_studies.private_tables.tables import (
    IN_FILE_ORDER,
    by_cell,
    facts,
    study_rows,
    study_tables,
    with_errors,
)


def parts(run: Run) -> Any:
    results = run.each("T §4, samples", replicate)
    applied = run.once("application", application)
    truth = population_truth(study_population(run.seed))
    rows = study_rows(results, truth)
    cells = by_cell(rows)
    corrected = study_rows(run.each("corrected tables", corrections_repeat, "corrections"), truth)
    tables = study_tables(rows, cells, results, pl.DataFrame(applied["rows"]))
    tables["corrections"] = with_errors(corrected, by_cell(corrected))
    rows, cells = (frame.filter(~IN_FILE_ORDER) for frame in (rows, cells))
    figures = draw_figures(rows, cells, results[0]["pictures"], applied)
    figures["corrections"] = corrections_figure(tables["corrections"])
    return tables, figures, facts(tables, results)


run_study = Study("private-tables", Plan(), QUICK, 100, 2, parts)
