"""`understudy study censoring`: paper C's simulations and application, beside our own mechanism.

C §4 and §5 are rerun by the definitions that the paper prints, and every table and figure is
written with the published number where there is one. ReferenceCensored stands in every comparison.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import polars as pl

from understudy_studies.censoring.facts import facts
from understudy_studies.censoring.figures import draw_figures
from understudy_studies.censoring.replicate import (
    QUICK,
    CensoringDesign,
    application,
    figure_1_draws,
    replicate,
)
from understudy_studies.censoring.tables import study_tables
from understudy_studies.framework import open_study, run_replicates, stored, write_study


def run_study(
    replicates: int | None = None,
    out: Path = Path("study-censoring"),
    seed: int = 1,
    *,
    quick: bool = False,
    progress: bool | None = None,
    workers: int = 1,
    design: CensoringDesign | None = None,
) -> Path:
    """Run or continue the study; returns the page, `out`/study.html.

    Numbers are the same for the same seed, except those of the perturbed histogram, whose noise
    has no seed.
    """
    design = design or (QUICK if quick else CensoringDesign())
    replicates = (3 if quick else 100) if replicates is None else replicates
    out = open_study("censoring", out, seed, asdict(design))
    compute = partial(replicate, design, seed)
    folder = out / "replicates"
    results = run_replicates(folder, replicates, compute, progress, "C §4, replicates", workers)
    rows = pl.concat(
        [
            pl.DataFrame(result["rows"], infer_schema_length=None).with_columns(
                replicate=pl.lit(result["replicate"])
            )
            for result in results
        ],
        how="diagonal_relaxed",
    )
    applied = stored(out / "application.json", lambda: application(design, seed))
    draws = pl.DataFrame(stored(out / "figure-1.json", lambda: figure_1_draws(design, seed)))
    table_2 = pl.DataFrame(applied["rows"], infer_schema_length=None)
    salaries = pl.DataFrame(applied["salaries"])
    tables = study_tables(rows, table_2, draws)
    figures = draw_figures(rows, table_2, salaries, draws, design.n)
    known, small = facts(tables, rows, design), design != CensoringDesign()
    return write_study("censoring", out, tables, figures, known, small)
