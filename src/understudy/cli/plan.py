"""`understudy plan`: what could an answer tell me? Without data and without a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    import polars as pl

    from understudy.verify.rehearsal import RehearsedAnswers


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
    estimate: Annotated[float | None, typer.Option(help="The synthetic estimate.")] = None,
    se: Annotated[float | None, typer.Option(help="Its standard error.")] = None,
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
    rehearse: Annotated[
        Path | None,
        typer.Option(help="A public file, such as last year's, on which to try a question."),
    ] = None,
    question: Annotated[Path | None, typer.Option(help="The question to rehearse (JSON).")] = None,
    design: Annotated[str, typer.Option(help="Of that file, such as weight=w,strata=h.")] = "",
    codebook: Annotated[Path | None, typer.Option(help="Its codebook.")] = None,
    released: Annotated[
        list[Path] | None, typer.Option(help="Synthetic files that the question is about.")
    ] = None,
    times: Annotated[int, typer.Option(help="Answers of a rehearsal.")] = 200,
) -> None:
    """The exact distribution of an answer over assumed confidential results.

    With --rehearse, the server's own code answers a question about a file that you have, such as
    last year's, many times; nothing is spent.

    Example: understudy plan --estimate 116000 --se 800 --epsilon 0.5 --figure plan.svg
    Example: understudy plan --rehearse last.csv --question q.json --design weight=w
    """
    import numpy as np
    import polars as pl

    from understudy.cli.show import show_table
    from understudy.errors import Refused, UnknownName
    from understudy.verify.catalogue import packaged
    from understudy.verify.planner import plan as make_plan

    if unit not in ("se", "percent"):
        raise UnknownName("unit of the tolerance", unit, ("se", "percent"))
    if figure is not None and figure.suffix != ".svg":
        raise Refused(f"The figure is written as .svg, not as `{figure.suffix or figure}`.")
    if rehearse is not None:
        made = _rehearsal(rehearse, question, design, codebook, released or [], times)
        _write(made.answers, out, made.figure, figure)
        return
    if estimate is None or se is None:
        raise Refused("Give --estimate and --se, or a file to --rehearse a question on.")
    planned = make_plan(
        estimate,
        se,
        epsilon=epsilon,
        measure=measure or next(n for n, m in packaged().measures.items() if m.divides),
        tolerance=tolerance,
        tolerance_kind=unit,  # type: ignore[arg-type]
        partitions=partitions,
    )
    ses = np.unique(planned.table["se"].to_numpy())
    nearest = ses[np.argmin(np.abs(np.log(ses / se)))]
    shown = planned.table.filter(pl.col("se") == nearest).select(
        "estimate", "inside", "median_low", "median_mid", "median_high", "says_inside", "says_right"
    )
    show_table(shown, title=f"If the confidential estimate were ... ({planned.measure})")
    _write(planned.table, out, planned.figure, figure)


def _rehearsal(
    path: Path,
    question: Path | None,
    design: str,
    codebook: Path | None,
    released: list[Path],
    times: int,
) -> RehearsedAnswers:
    """Answers on a public file, with a summary on the screen."""
    import polars as pl

    from understudy.cli.options import parse_design
    from understudy.cli.show import show_table
    from understudy.errors import Refused
    from understudy.survey.design import Design
    from understudy.survey.read import read_survey
    from understudy.survey.survey import Survey
    from understudy.verify.catalogue import read_query
    from understudy.verify.rehearsal import rehearse

    if question is None:
        raise Refused("A rehearsal needs a --question, as `understudy verify` takes it.")
    if not question.exists():
        raise Refused(f"There is no file `{question}`; check the path.")
    weights = parse_design(design) if design else Design()
    survey = read_survey(path, weights, codebook=codebook)
    files = []
    for file in released:
        public = read_survey(file, weights)
        files.append(Survey(public.raw, weights, survey.codebook.only(list(public.columns))))
    made = rehearse(read_query(question.read_text(encoding="utf-8")), survey, files, times)
    reported = zip(("5 %", "25 %", "50 %", "75 %", "95 %"), made.quantiles(), strict=True)
    shown = pl.DataFrame([{"quantile": name, "reported": float(q)} for name, q in reported])
    show_table(shown, title=f"{times} answers about {path.name} ({made.query.measure})")
    inside = "inside" if made.inside else "outside"
    typer.echo(
        f"The file's own estimate is {made.estimate:.6g}, {inside} the tolerance; the verdict was "
        f"right in {made.says_right:.0%} of the answers."
    )
    return made


def _write(
    table: pl.DataFrame, out: Path | None, draw: Callable[[], str], figure: Path | None
) -> None:
    from understudy.cli.show import write_table

    if out is not None:
        write_table(table, out)
    if figure is not None:
        figure.write_text(draw(), encoding="utf-8")
    for path in (out, figure):
        if path is not None:
            typer.echo(f"Written to {path}")
