"""`understudy utility`: how close synthetic data sets are to the confidential data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def utility(
    confidential: Annotated[Path, typer.Argument(help="The confidential file (Parquet or CSV).")],
    synthetic: Annotated[list[Path], typer.Argument(help="The synthetic data sets.")],
    columns: Annotated[
        str, typer.Option(help="Columns to compare, as a,b: those that were synthesized.")
    ] = "",
    replicates: Annotated[int, typer.Option(help="Bootstrap replicates per data set.")] = 1000,
    classes: Annotated[
        int, typer.Option(help="For pMSE, put numbers into so many classes of equal size.")
    ] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for tables and the figure.")] = Path("utility"),
) -> None:
    """ECDF distances, bootstrap intervals with their overlap, and pMSE.

    Everything is computed from the confidential data: for the internal report only.

    Example: understudy utility ce.parquet out/synthetic/*.parquet --columns income --out utility
    """
    import numpy as np
    import polars as pl
    from rich.console import Console

    from understudy.cli.internal_output import names_in, show_internal, write_internal
    from understudy.errors import Refused
    from understudy.survey.read import read_survey
    from understudy.utility.figure import utility_figure
    from understudy.utility.summary import present, summarise_utility

    names = names_in(columns)
    if not names:
        raise Refused("Name the columns to compare with --columns a,b.")
    with Console(stderr=True).status("Comparing"):
        ours, theirs = read_survey(confidential), [read_survey(path) for path in synthetic]
        summary = summarise_utility(
            ours,
            theirs,
            names,
            rng=np.random.default_rng(seed),
            replicates=replicates,
            classes=classes,
        )
        numeric = summary.distances["column"].to_list()
        figures = {}
        if numeric:
            original, made = ours.frame(numeric), [file.frame(numeric) for file in theirs]
            figures["utility"] = utility_figure(
                {name: present(original[name]) for name in numeric},
                {name: [present(frame[name]) for frame in made] for name in numeric},
                summary.intervals,
            )
    scores = pl.DataFrame(
        [
            {"data_set": number, "pMSE": score.pmse, "ratio": score.ratio, "terms": score.terms}
            for number, score in enumerate(summary.propensity, start=1)
        ]
    )
    tables = {"distances": summary.distances, "intervals": summary.intervals, "pmse": scores}
    written = write_internal(out, tables, figures)
    show_internal("Distance of distribution functions (0 is equal)", summary.distances)
    show_internal("Estimates with 95 % bootstrap intervals", summary.intervals)
    show_internal("pMSE; ratio 1 is a correct synthesis", scores)
    typer.echo(f"Mean pMSE ratio: {summary.mean_pmse_ratio:.3g}")
    typer.echo(f"Written to {out}: {', '.join(path.name for path in written)}")
