"""`understudy study censoring`: paper C's simulations and application, beside our own mechanism.

C §4 and §5 are rerun by the definitions that the paper prints, and every table and figure is
written with the published number where there is one. ReferenceCensored stands in every comparison.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl

from understudy_studies.censoring.figures import density_figure, draw_figures
from understudy_studies.censoring.replicate import (
    QUICK,
    CensoringDesign,
    application,
    figure_1_draws,
    replicate,
)
from understudy_studies.censoring.tables import PRIVACY, facts, study_tables, table_2
from understudy_studies.framework import Run, Study, stacked


def parts(run: Run) -> Any:
    rows = stacked(run.each("C §4, replicates", replicate), "rows")
    draws = pl.DataFrame(run.once("figure-1", figure_1_draws))
    tables, figures = study_tables(rows, draws), draw_figures(rows, draws, run.design.n)
    if run.application:
        applied = run.once("application", partial(application, **run.options))
        salaries = pl.DataFrame(applied["salaries"])
        table = pl.DataFrame(applied["rows"], infer_schema_length=None)
        table = table.with_columns(privacy=PRIVACY)
        tables |= {"table-2": table_2(table), "declared": pl.DataFrame(applied["declared"])}
        figures["figure-09"] = density_figure(salaries, table)
    return tables, figures, facts(tables) | {"real": run.options["data"] is not None}


OPTIONS = (("data", None), ("columns", None))
run_study = Study("censoring", CensoringDesign(), QUICK, 100, 3, parts, OPTIONS)
