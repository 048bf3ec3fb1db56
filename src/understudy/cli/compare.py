"""`understudy compare`: several releases of one file beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compare(
    releases: Annotated[list[Path], typer.Argument(help="Folders of releases, two or more.")],
    out: Annotated[
        Path | None, typer.Option(help="Write comparison.csv, .svg and .png into this folder.")
    ] = None,
) -> None:
    """What each release promises, keeps and reveals, so that a steward can choose.

    Example: understudy compare releases/weighted releases/censored --out comparison
    """
    from understudy.cli.show import show_table, write_table
    from understudy.report.comparison import compare_releases

    table = compare_releases(releases)
    show_table(table, title="Releases compared (internal)")
    if out is not None:
        from understudy.drawing import save_figure
        from understudy.errors import Refused
        from understudy.report.comparison import comparison_figure

        try:
            out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refused(f"`{out}` cannot be made: {error.strerror}.") from None
        write_table(table, out / "comparison.csv")
        save_figure(comparison_figure(table), out / "comparison")
        typer.echo(f"Written to {out}: comparison.csv, comparison.svg, comparison.png")
