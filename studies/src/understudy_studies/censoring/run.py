"""`understudy study censoring`: paper C's simulations and application, beside our own mechanism.

C §4 and §5 are rerun by the definitions that the paper prints, and every table and figure is
written with the published number where there is one. ReferenceCensored stands in every comparison.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

import understudy as us
from understudy_studies.censoring.mechanisms import (
    CensoringDesign,
    application,
    figure_1_draws,
    replicate,
    settings_of,
)
from understudy_studies.censoring.page import write_results
from understudy_studies.replicates import open_study, run_replicates, stored


def run_study(
    replicates: int = 100,
    out: Path = Path("study-censoring"),
    seed: int = 1,
    progress: bool | None = None,
    design: CensoringDesign | None = None,
) -> Path:
    """Run or go on with the study; returns the page, `out`/study.html.

    Each replicate is one file under `out`/replicates. The same command after an interruption, or
    with more replicates, computes only what is missing. Numbers are the same for the same seed,
    except those of the perturbed histogram, whose noise has no seed.
    """
    design = design or CensoringDesign()
    open_study(out, settings_of(design, seed, us.__version__))
    found = run_replicates(
        out / "replicates",
        replicates,
        lambda number: replicate(design, seed, number),
        progress,
        "C §4, replicates",
    )
    rows = pl.concat(
        [
            pl.DataFrame(one["rows"], infer_schema_length=None).with_columns(
                replicate=pl.lit(one["replicate"])
            )
            for one in found
        ],
        how="diagonal_relaxed",
    )
    applied = stored(out / "application.json", lambda: _apply(design, seed, out))
    shown = out / "figure-1.parquet"
    if not shown.exists():
        figure_1_draws(design, seed).write_parquet(shown)
    table_2 = pl.DataFrame(applied["rows"], infer_schema_length=None)
    salaries = pl.read_parquet(out / "application.parquet")
    return write_results(out, rows, table_2, salaries, pl.read_parquet(shown), design)


def _apply(design: CensoringDesign, seed: int, out: Path) -> dict[str, object]:
    rows, salaries = application(design, seed)
    salaries.write_parquet(out / "application.parquet")  # before the rows that say it is there
    return rows
