"""`understudy plan`: what could an answer tell me? Without data and without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def plan(
    estimate: Annotated[float, typer.Option(help="The synthetic estimate.")],
    se: Annotated[float, typer.Option(help="Its standard error.")],
    epsilon: Annotated[str, typer.Option(help="Epsilon that you would spend.")] = "1",
    measure: Annotated[str, typer.Option(help="discrepancy or agreement.")] = "discrepancy",
    tolerance: Annotated[float, typer.Option(help="How near is near enough.")] = 2.0,
    unit: Annotated[str, typer.Option(help="Of the tolerance: se or percent.")] = "se",
    partitions: Annotated[
        int | None, typer.Option(help="Parts of the file; 50 (discrepancy) or 25 (agreement).")
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Write the figure here (SVG).")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the whole table (csv, parquet).")] = None,
) -> None:
    """The exact distribution of an answer over assumed confidential results.

    Example: understudy plan --estimate 116000 --se 800 --epsilon 0.5 --figure plan.svg
    """
    import numpy as np
    import polars as pl

    from understudy.cli.show import show_table, write_table
    from understudy.errors import Refused, UnknownName
    from understudy.verify.planner import plan as make_plan

    if unit not in ("se", "percent"):
        raise UnknownName("unit of the tolerance", unit, ("se", "percent"))
    if figure is not None and figure.suffix != ".svg":
        raise Refused(f"The figure is written as .svg, not as `{figure.suffix or figure}`.")
    made = make_plan(
        estimate,
        se,
        epsilon=epsilon,
        measure=measure,
        tolerance=tolerance,
        tolerance_kind=unit,  # type: ignore[arg-type]
        partitions=partitions,
    )
    ses = np.unique(made.table["se"].to_numpy())
    nearest = ses[np.argmin(np.abs(np.log(ses / se)))]
    shown = made.table.filter(pl.col("se") == nearest).select(
        "estimate", "inside", "median_low", "median_mid", "median_high", "says_inside", "says_right"
    )
    show_table(shown, title=f"If the confidential estimate were ... ({made.measure})")
    if out is not None:
        write_table(made.table, out)
    if figure is not None:
        figure.write_text(made.figure(), encoding="utf-8")
    for path in (out, figure):
        if path is not None:
            typer.echo(f"Written to {path}")
