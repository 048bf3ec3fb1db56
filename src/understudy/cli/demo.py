"""`understudy demo`: the main job on a simulated survey."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("demo-out"),
    seed: Annotated[int, typer.Option(help="Seed of the simulated survey.")] = 1,
) -> None:
    """Simulate a confidential survey of doctorate recipients and tabulate it.

    Example: understudy demo --out demo-out
    """
    from understudy.cli.show import show_table, write_table
    from understudy.studies.doctorates import doctorates
    from understudy.survey.codebook import write_codebook
    from understudy.survey.write import write_survey
    from understudy.tables.tabulate import tabulate as make_table

    out.mkdir(parents=True, exist_ok=True)
    survey = doctorates(seed=seed)
    write_survey(survey, out / "confidential.parquet")
    write_codebook(survey.codebook, out / "codebook.toml")
    table = make_table(survey, ["count", "mean(salary)"], ["field", "gender"], margins=True)
    write_table(table, out / "tables.csv")
    show_table(table, title="Doctorate recipients (simulated confidential sample)")
    typer.echo(f"The survey, its codebook and this table are in {out}/.")
