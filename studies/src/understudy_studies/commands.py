"""The commands behind `understudy study NAME`; each loads its study when it is called."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

Out = Annotated[
    Path, typer.Option(help="Folder for the results; a study that was stopped continues there.")
]
Seed = Annotated[int, typer.Option(help="Seed of the simulated files and the models.", min=0)]
Quick = Annotated[
    bool, typer.Option("--quick", help="Run every part at a small size, in about two minutes.")
]
Workers = Annotated[
    int | None, typer.Option(help="Number of processes; by default one for each processor.", min=1)
]


def _replicates(usual: int) -> Any:
    return typer.Option(
        help=f"Number of simulated files; {usual} by default, fewer with --quick.", min=1
    )


def acs_modips(
    out: Out = Path("study-acs-modips"),
    replicates: Annotated[int | None, _replicates(20)] = None,
    seed: Seed = 1,
    quick: Quick = False,
    pums: Annotated[
        list[Path] | None,
        typer.Option(help="ACS person PUMS as Parquet; without it the table is made up."),
    ] = None,
) -> None:
    """Bias, RMSE, coverage and empty cells of ORI, MS and MODIPS (report M).

    If it is stopped, the same command continues where it left off; more replicates add to those
    already done.

    Example: understudy study acs-modips --replicates 20 --out study
    """
    _run("acs_modips", out, replicates, seed, quick, pums=pums or [])


def censoring(
    out: Out = Path("study-censoring"),
    replicates: Annotated[int | None, _replicates(100)] = None,
    seed: Seed = 1,
    quick: Quick = False,
    workers: Workers = None,
) -> None:
    """Weighted, censored and reference-centred synthesizers (Hu, Williams and Savitsky).

    Each replicate is stored as soon as it is done; the same command continues after a stop.

    Example: understudy study censoring --replicates 20 --out study-censoring
    """
    _run("censoring", out, replicates, seed, quick, workers=_processes(workers))


def private_tables(
    out: Out = Path("study-private-tables"),
    replicates: Annotated[int | None, _replicates(100)] = None,
    seed: Seed = 1,
    quick: Quick = False,
    workers: Workers = None,
) -> None:
    """Tables of counts and means from synthetic microdata (Hu, Savitsky and Williams).

    Each replicate is stored as soon as it is done; the same command continues after a stop.

    Example: understudy study private-tables --replicates 20 --out study-private-tables
    """
    _run("private_tables", out, replicates, seed, quick, workers=_processes(workers))


def risk_weights(
    out: Out = Path("study-risk-weights"),
    replicates: Annotated[int | None, _replicates(20)] = None,
    seed: Seed = 1,
    quick: Quick = False,
    workers: Workers = None,
    data: Annotated[
        Path | None, typer.Option(help="CE interviews (Parquet); without it incomes are generated.")
    ] = None,
) -> None:
    """Synthesizers weighted by identification risk (Hu, Savitsky and Williams).

    Each simulated file and each synthesizer of incomes is stored as soon as it is done; the same
    command continues after a stop.

    Example: understudy study risk-weights --replicates 20 --out study-risk-weights
    """
    _run("risk_weights", out, replicates, seed, quick, workers=_processes(workers), data=data)


def verification(
    out: Out = Path("study-verification"),
    replicates: Annotated[int | None, _replicates(200)] = None,
    seed: Seed = 1,
    quick: Quick = False,
    workers: Workers = None,
) -> None:
    """What a private verification tells about a synthetic estimate (Lin and Reiter).

    Each repeat is stored as soon as it is done; the same command continues after a stop.

    Example: understudy study verification --replicates 50 --out study-verification
    """
    _run("verification", out, replicates, seed, quick, workers=_processes(workers))


def _run(
    study: str, out: Path, replicates: int | None, seed: int, quick: bool, **options: Any
) -> None:
    from understudy import Refused

    run_study = import_module(f"understudy_studies.{study}.run").run_study
    try:
        run_study(replicates, out, seed, quick=quick, **options)
    except Refused as refusal:
        typer.echo(str(refusal), err=True)
        raise typer.Exit(2) from None
    typer.echo(f"The study is in {out / 'study.html'}; the tables and figures are beside it.")


def _processes(workers: int | None) -> int:
    from understudy_studies.framework import processors

    return workers or processors()
