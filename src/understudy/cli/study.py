"""`understudy study NAME`: rerun a paper's study, with the published numbers beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.study_acs_modips import acs_modips

study = typer.Typer(no_args_is_help=True)

Replicates = Annotated[int, typer.Option(help="How many simulated files.", min=1)]
Out = Annotated[Path, typer.Option(help="Folder for the results; a stopped study goes on there.")]
Seed = Annotated[int, typer.Option(help="Seed of the simulated files and the models.", min=0)]


@study.callback()
def about() -> None:
    """Rerun the papers' studies: figures, tables with the published numbers, and one page."""


study.command("acs-modips")(acs_modips)


@study.command()
def censoring(
    out: Out,
    replicates: Replicates = 100,
    seed: Seed = 1,
) -> None:
    """Weighted, censored and reference-centred synthesizers (Hu, Williams and Savitsky).

    Each replicate is stored as soon as it is done; the same command goes on after a stop.

    Example: understudy study censoring --replicates 20 --out study-censoring
    """
    from understudy.errors import Refused
    from understudy.studies.censoring import run_study

    try:
        page = run_study(replicates, out, seed)
    except Refused as refusal:
        typer.echo(str(refusal), err=True)
        raise typer.Exit(2) from None
    typer.echo(f"The study is in {page}; tables and figures lie beside it.")


@study.command("risk-weights")
def risk_weights(
    out: Out,
    replicates: Replicates = 20,
    seed: Seed = 1,
    data: Annotated[
        Path | None, typer.Option(help="CE interviews (Parquet); without it incomes are generated.")
    ] = None,
) -> None:
    """Synthesizers weighted by identification risk (Hu, Savitsky and Williams).

    Each simulated file and each synthesizer of incomes is stored as soon as it is done; the same
    command goes on after a stop.

    Example: understudy study risk-weights --replicates 20 --out study-risk-weights
    """
    from understudy.errors import Refused
    from understudy.studies.risk_weights import run_study

    try:
        page = run_study(replicates, out, data, seed)
    except Refused as refusal:
        typer.echo(str(refusal), err=True)
        raise typer.Exit(2) from None
    typer.echo(f"The study is in {page}; tables and figures lie beside it.")


@study.command()
def verification(
    out: Out,
    replicates: Replicates = 200,
    seed: Seed = 1,
) -> None:
    """What a private verification tells about a synthetic estimate (Lin and Reiter).

    Each repeat is stored as soon as it is done; the same command goes on after a stop.

    Example: understudy study verification --replicates 50 --out study-verification
    """
    from understudy.errors import Refused
    from understudy.studies.verification import run_study

    try:
        page = run_study(replicates, out, seed)
    except Refused as refusal:
        typer.echo(str(refusal), err=True)
        raise typer.Exit(2) from None
    typer.echo(f"The study is in {page}; tables and figures lie beside it.")


@study.command("private-tables")
def private_tables(
    out: Out,
    replicates: Replicates = 100,
    seed: Seed = 1,
) -> None:
    """Tables of counts and means from synthetic microdata (Hu, Savitsky and Williams).

    Each replicate is stored as soon as it is done; the same command goes on after a stop. All
    processors are used.

    Example: understudy study private-tables --replicates 20 --out study-private-tables
    """
    from understudy.errors import Refused
    from understudy.studies.private_tables_run import run_study

    try:
        page = run_study(replicates, out, seed)
    except Refused as refusal:
        typer.echo(str(refusal), err=True)
        raise typer.Exit(2) from None
    typer.echo(f"The study is in {page}; tables and figures lie beside it.")
