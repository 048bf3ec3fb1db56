"""`understudy study private-tables`: T's simulation and a file like T's application."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from understudy_studies.framework import open_study, run_replicates, stored, write_study
from understudy_studies.private_tables.application import application
from understudy_studies.private_tables.cells import population_truth
from understudy_studies.private_tables.errors import FILE_ORDER
from understudy_studies.private_tables.facts import facts
from understudy_studies.private_tables.figures import draw_figures
from understudy_studies.private_tables.replicate import QUICK, Plan, replicate, study_population
from understudy_studies.private_tables.tables import by_cell, study_rows, study_tables


def run_study(
    replicates: int | None = None,
    out: Path = Path("study-private-tables"),
    seed: int = 1,
    *,
    quick: bool = False,
    progress: bool | None = None,
    workers: int = 1,
    design: Plan | None = None,
) -> Path:
    """Run or continue the study; returns the page, `out`/study.html."""
    plan = design or (QUICK if quick else Plan())
    replicates = (2 if quick else 100) if replicates is None else replicates
    out = open_study("private-tables", out, seed, asdict(plan))
    compute = partial(replicate, plan, seed)
    folder = out / "replicates"
    results = run_replicates(folder, replicates, compute, progress, "T §4, samples", workers)
    applied = None
    if plan.application_records:
        applied = stored(out / "application.json", lambda: application(plan, seed))
    rows = study_rows(results, population_truth(study_population(seed)))
    cells = by_cell(rows)
    tables = study_tables(rows, cells, results, applied)
    pictures = {name: np.array(values) for name, values in results[0]["pictures"].items()}
    random_order = ~pl.col("mechanism").str.ends_with(FILE_ORDER)
    figures = draw_figures(rows.filter(random_order), cells.filter(random_order), pictures, applied)
    known = facts(tables, figures, results, plan.n)
    return write_study("private-tables", out, tables, figures, known, plan != Plan())
