"""`understudy study acs-modips`: report M's simulation, at its full size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def acs_modips(
    replicates: Annotated[int, typer.Option(help="Replicates in all; the report has 500.")] = 20,
    out: Annotated[Path, typer.Option(help="Folder for the page and the state of the run.")] = Path(
        "study-acs-modips"
    ),
    pums: Annotated[
        list[Path] | None,
        typer.Option(help="ACS person PUMS as Parquet; without it the table is invented."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the whole study.")] = 1,
) -> None:
    """Bias, RMSE, coverage and empty cells of ORI, MS and MODIPS (M chapter 3).

    Stopped halfway, the same command goes on where it was; more replicates add to those done.

    Example: understudy study acs-modips --replicates 20 --out study
    """
    from understudy.studies.acs_modips_run import run_study

    run_study(replicates, out, pums or [], seed, progress=True)
    typer.echo(f"The study is in {out / 'study.html'}.")
