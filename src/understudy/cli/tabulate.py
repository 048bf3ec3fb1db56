"""`understudy tabulate`: a table with standard errors from a survey file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from understudy.survey.file_format import endings_read, listed


def tabulate(
    file: Annotated[Path, typer.Argument(help=f"Survey file ({listed(endings_read())}).")],
    statistic: Annotated[
        list[str], typer.Option("--statistic", "-s", help='Such as count or "mean(y)"; repeatable.')
    ],
    design: Annotated[
        str, typer.Option(help="weight=w,strata=h,psu=p,fpc=f,nest=true,replicates=PREFIX:kind")
    ] = "",
    by: Annotated[str, typer.Option(help="Variables to classify by: a,b")] = "",
    where: Annotated[str, typer.Option(help='A domain: "age > 65"; the design stays whole.')] = "",
    margins: Annotated[bool, typer.Option("--margins", help="Add all margins.")] = False,
    implicates: Annotated[
        str, typer.Option(help="The column that numbers implicates: Rubin's rule.")
    ] = "",
    codebook: Annotated[Path | None, typer.Option(help="Codebook (TOML).")] = None,
    level: Annotated[float, typer.Option(help="Confidence level of the limits.")] = 0.95,
    interval: Annotated[
        list[str],
        typer.Option(help="Another kind of interval: proportion=beta, count=t; or t, for all."),
    ] = [],  # noqa: B006
    precision: Annotated[
        str, typer.Option(help="Flag estimates of low precision: nchs, or records=30,cv=0.3")
    ] = "",
    n: Annotated[bool, typer.Option("--n", help="Show the records behind each estimate.")] = False,
    labels: Annotated[
        bool, typer.Option("--labels", help="Show labels and the codebook's order of levels.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the table here (csv or parquet).")] = None,
) -> None:
    """Estimates with design-based standard errors.

    Example: understudy tabulate sdr.parquet --design weight=w,strata=field
    --by field,gender --statistic count --statistic "mean(salary)" --margins
    """
    from understudy.cli.options import parse_design, parse_pairs, parse_precision
    from understudy.cli.show import show_table, write_table
    from understudy.survey.implicates import implicates as split
    from understudy.survey.read import read_survey
    from understudy.tables.tabulate import tabulate as make_table

    survey = read_survey(file, parse_design(design), codebook=codebook)
    surveys = split(survey, implicates) if implicates else survey
    names = [name.strip() for name in by.split(",") if name.strip()]
    table = make_table(
        surveys,
        statistic,
        names,
        margins,
        where or None,
        level=level,
        intervals="t" if interval == ["t"] else parse_pairs(interval, "--interval"),
        precision=parse_precision(precision),
        n=n,
        labels=labels,
    )
    if out is not None:
        write_table(table, out)
    show_table(table, title=file.name)
    if out is not None:
        typer.echo(f"Written to {out}")
