"""`understudy study censoring`: paper C's simulations and application, beside our own mechanism.

C §4 and §5 are rerun by the definitions that the paper prints, and every table and figure is
written with the published number where there is one. ReferenceCensored stands in every comparison.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from understudy_studies.censoring.figures import draw_figures
from understudy_studies.censoring.replicate import (
    QUICK,
    CensoringDesign,
    application,
    figure_1_draws,
    replicate,
)
from understudy_studies.censoring.tables import PRIVACY, facts, study_tables
from understudy_studies.framework import Run, Study, stacked


def parts(run: Run) -> Any:
    rows = stacked(run.each("C §4, replicates", replicate), "rows")
    applied = run.once("application", application)
    draws = pl.DataFrame(run.once("figure-1", figure_1_draws))
    table_2 = pl.DataFrame(applied["rows"], infer_schema_length=None).with_columns(privacy=PRIVACY)
    tables = study_tables(rows, table_2, draws)
    figures = draw_figures(rows, table_2, pl.DataFrame(applied["salaries"]), draws, run.design.n)
    return tables, figures, facts(tables)


run_study = Study("censoring", CensoringDesign(), QUICK, 100, 3, parts)
