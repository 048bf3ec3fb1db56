"""`understudy demo`: the main job on a simulated survey."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import polars as pl


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("demo-out"),
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the whole release.")] = 3.0,
    datasets: Annotated[int, typer.Option(help="Number of synthetic data sets.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of the simulated survey and of the model.")] = 1,
) -> None:
    """Publish a simulated confidential survey: synthetic data, a table, and a claim.

    Example: understudy demo --out demo-out --epsilon 3
    """
    import understudy as us
    from understudy.cli.show import show_table, write_table
    from understudy.studies.doctorates import doctorates

    statistics, by = ["count", "mean(salary)"], ["field", "gender"]
    confidential, last_cycle = doctorates(seed=seed), doctorates(seed=seed + 1)
    mechanism = us.ReferenceCensored(epsilon=epsilon, reference=last_cycle, prior_scale=0.5)
    typer.echo(
        f"A survey of {confidential.n:,} doctorate recipients (simulated), with last cycle's file "
        "as the reference; fitting ..."
    )
    result = us.synthesize(
        confidential, us.FBS("salary", "field + gender"), mechanism, datasets=datasets, seed=seed
    )
    released = us.tabulate(result.datasets, statistics, by, margins=True, combine="partial")
    hidden = us.tabulate(confidential, statistics, by, margins=True)

    for folder in (out / "public" / "synthetic", out / "internal"):
        folder.mkdir(parents=True, exist_ok=True)
    for number, dataset in enumerate(result.datasets, start=1):
        us.write_survey(dataset, out / "public" / "synthetic" / f"{number}.parquet")
    us.write_codebook(result.datasets[0].codebook, out / "public" / "codebook.toml")
    write_table(released, out / "public" / "tables.csv")
    (out / "public" / "claim.json").write_text(result.claim.to_json() + "\n", encoding="utf-8")
    us.write_survey(confidential, out / "internal" / "confidential.parquet")
    both = side_by_side(hidden, released, by)
    write_table(both, out / "internal" / "comparison.csv")

    show_table(both.filter(by_field_or_gender(both)), title="Confidential and released, by margin")
    typer.echo(f"\n{result.claim}\n")
    typer.echo(
        f"{out}/public: what may be published: {datasets} synthetic data sets, their codebook, "
        "the table with standard errors, and the claim.\n"
        f"{out}/internal: what may not: the confidential file and the comparison with it.\n"
        "Next: understudy tabulate, risk, utility and audit; --help shows an example of each."
    )


def side_by_side(hidden: pl.DataFrame, released: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Confidential and released estimates with their standard errors, cell by cell."""
    keys = [*by, "statistic"]
    columns = [*keys, "estimate", "se"]
    return hidden.select(columns).join(
        released.select(columns), on=keys, how="left", suffix="_released", maintain_order="left"
    )


def by_field_or_gender(table: pl.DataFrame) -> pl.Series:
    """The rows of one-way margins and the total: few enough for a screen."""
    return (table["field"] == "All") | (table["gender"] == "All")
