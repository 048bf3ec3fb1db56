"""`understudy plan`: what could an answer tell me? Without data and without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand


class PlanCommand(TyperCommand):
    """Help that says what the measures declare; they are loaded when it is shown, not before."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.fill_in_help()
        super().format_help(ctx, formatter)

    def fill_in_help(self) -> None:
        from understudy.verify.catalogue import packaged

        measures = {n: m for n, m in packaged().measures.items() if m.divides}
        usual, *others = measures
        facts = {
            "measures": ", ".join([f"{usual} (the default)", *others]),
            "partitions": " or ".join(f"{m.partitions} ({n})" for n, m in measures.items()),
        }
        for parameter in self.params:
            text = getattr(parameter, "help", None)
            if text:
                parameter.help = text.format(**facts)  # type: ignore[attr-defined]


def plan(
    estimate: Annotated[float, typer.Option(help="The synthetic estimate.")],
    se: Annotated[float, typer.Option(help="Its standard error.")],
    epsilon: Annotated[str, typer.Option(help="Epsilon that you would spend.")] = "1",
    measure: Annotated[
        str, typer.Option(help="{measures}, or one of your own as mine.py:Mine.")
    ] = "",
    tolerance: Annotated[float, typer.Option(help="How near is near enough.")] = 2.0,
    unit: Annotated[str, typer.Option(help="Of the tolerance: se or percent.")] = "se",
    partitions: Annotated[
        int | None, typer.Option(help="Parts of the file; by default {partitions}.")
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
    from understudy.verify.catalogue import packaged
    from understudy.verify.planner import plan as make_plan

    if unit not in ("se", "percent"):
        raise UnknownName("unit of the tolerance", unit, ("se", "percent"))
    if figure is not None and figure.suffix != ".svg":
        raise Refused(f"The figure is written as .svg, not as `{figure.suffix or figure}`.")
    made = make_plan(
        estimate,
        se,
        epsilon=epsilon,
        measure=measure or next(n for n, m in packaged().measures.items() if m.divides),
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
