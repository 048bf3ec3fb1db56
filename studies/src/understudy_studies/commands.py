"""The commands behind `understudy study NAME`; each loads its study when it is called."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

OPTIONS: dict[str, Any] = {
    "out": Annotated[
        Path, typer.Option(help="Folder for the results; a study that was stopped continues there.")
    ],
    "replicates": Annotated[
        int | None,
        typer.Option(help="Number of simulated files; by default the study's own.", min=1),
    ],
    "seed": Annotated[int, typer.Option(help="Seed of the simulated files and models.", min=0)],
    "quick": Annotated[
        bool, typer.Option("--quick", help="Run every part at a small size, in about two minutes.")
    ],
    "no_application": Annotated[
        bool,
        typer.Option(
            "--no-application", help="Leave the application to one file out, where there is one."
        ),
    ],
    "workers": Annotated[
        int | None,
        typer.Option(help="Number of processes; by default one for each processor.", min=1),
    ],
    "pums": Annotated[
        list[Path] | None,
        typer.Option(help="ACS person PUMS as Parquet; without it the table is made up."),
    ],
    "data": Annotated[
        Path | None,
        typer.Option(help="The application's file; without it a simulated one stands in."),
    ],
    "columns": Annotated[
        Path | None,
        typer.Option(help="Which of its columns is which (TOML; studies/README.md has examples)."),
    ],
    "real": Annotated[
        Path | None,
        typer.Option(help="Folder of real files to draw from; without it they are left out."),
    ],
}
STOPPED = "Results are stored as soon as they are there; the same command continues after a stop."


def _command(name: str, about: str, *own: str) -> Callable[..., None]:
    """The command of a study; `own` are its options beside those that every study has."""

    def run(out: Path, replicates: int | None, seed: int, quick: bool, **options: Any) -> None:
        from understudy import Refused

        run_study = import_module(f"understudy_studies.{name.replace('-', '_')}.run").run_study
        try:
            run_study(replicates, out, seed, quick=quick, **options)
        except Refused as refusal:
            typer.echo(str(refusal), err=True)
            raise typer.Exit(2) from None
        typer.echo(f"The study is in {out / 'study.html'}; the tables and figures are beside it.")

    usual = {
        "out": Path(f"study-{name}"), "replicates": None, "seed": 1, "quick": False,
        "no_application": False,
    }  # fmt: skip
    parameters = [
        Parameter(option, Parameter.KEYWORD_ONLY, default=value, annotation=OPTIONS[option])
        for option, value in {**usual, **dict.fromkeys(own)}.items()
    ]
    example = f"Example: understudy study {name} --replicates 20 --out study-{name}"
    run.__doc__ = f"{about}\n\n{STOPPED}\n\n{example}"
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


acs_modips = _command(
    "acs-modips", "Bias, RMSE, coverage and empty cells of ORI, MS and MODIPS (report M).", "pums"
)
censoring = _command(
    "censoring",
    "Weighted, censored and reference-centred synthesizers (Hu, Williams and Savitsky).",
    *("workers", "data", "columns"),
)
private_tables = _command(
    "private-tables",
    "Tables of counts and means from synthetic microdata (Hu, Savitsky and Williams).",
    *("workers", "data", "columns"),
)
risk_weights = _command(
    "risk-weights",
    "Synthesizers weighted by identification risk (Hu, Savitsky and Williams).",
    *("workers", "data"),
)
verification = _command(
    "verification",
    "What a private verification tells about a synthetic estimate (Lin and Reiter).",
    *("workers", "real"),
)
