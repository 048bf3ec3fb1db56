"""The commands behind `understudy study NAME`; each loads its study when it is called."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

Replicates = Annotated[int, typer.Option(help="How many simulated files.", min=1)]
Out = Annotated[Path, typer.Option(help="Folder for the results; a stopped study goes on there.")]
Seed = Annotated[int, typer.Option(help="Seed of the simulated files and the models.", min=0)]


def acs_modips(
    out: Out = Path("study-acs-modips"),
    replicates: Replicates = 20,
    pums: Annotated[
        list[Path] | None,
        typer.Option(help="ACS person PUMS as Parquet; without it the table is invented."),
    ] = None,
    seed: Seed = 1,
) -> None:
    """Bias, RMSE, coverage and empty cells of ORI, MS and MODIPS (report M).

    Stopped halfway, the same command goes on where it was; more replicates add to those done.

    Example: understudy study acs-modips --replicates 20 --out study
    """
    _run("acs_modips", replicates, out, pums or [], seed, progress=True)


def censoring(
    out: Out = Path("study-censoring"), replicates: Replicates = 100, seed: Seed = 1
) -> None:
    """Weighted, censored and reference-centred synthesizers (Hu, Williams and Savitsky).

    Each replicate is stored as soon as it is done; the same command goes on after a stop.

    Example: understudy study censoring --replicates 20 --out study-censoring
    """
    _run("censoring", replicates, out, seed)


def private_tables(
    out: Out = Path("study-private-tables"), replicates: Replicates = 100, seed: Seed = 1
) -> None:
    """Tables of counts and means from synthetic microdata (Hu, Savitsky and Williams).

    Each replicate is stored as soon as it is done; the same command goes on after a stop. All
    processors are used.

    Example: understudy study private-tables --replicates 20 --out study-private-tables
    """
    _run("private_tables", replicates, out, seed)


def risk_weights(
    out: Out = Path("study-risk-weights"),
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
    _run("risk_weights", replicates, out, data, seed)


def verification(
    out: Out = Path("study-verification"), replicates: Replicates = 200, seed: Seed = 1
) -> None:
    """What a private verification tells about a synthetic estimate (Lin and Reiter).

    Each repeat is stored as soon as it is done; the same command goes on after a stop.

    Example: understudy study verification --replicates 50 --out study-verification
    """
    _run("verification", replicates, out, seed)


def _run(study: str, replicates: int, out: Path, *arguments: Any, **options: Any) -> None:
    from understudy import Refused

    try:
        import_module(f"understudy_studies.{study}.run").run_study(
            replicates, out, *arguments, **options
        )
    except Refused as refusal:
        typer.echo(str(refusal), err=True)
        raise typer.Exit(2) from None
    typer.echo(f"The study is in {out / 'study.html'}; tables and figures lie beside it.")
