"""The facts of the page: single numbers of the tables, and the means behind each figure."""

from __future__ import annotations

from typing import Any

import polars as pl

from understudy_studies.censoring.figures import NAMES, VIOLINS
from understudy_studies.censoring.replicate import CensoringDesign
from understudy_studies.censoring.tables import by_mechanism, grid

# the table and the statistic whose means say what a violin plot of a column shows
SHOWN = {
    "bound": ("bounds", "mean"),
    "u_m": ("utility", "mean U_m"),
    "u_a": ("utility", "mean U_a"),
}


def facts(
    tables: dict[str, pl.DataFrame], rows: pl.DataFrame, design: CensoringDesign
) -> dict[str, Any]:
    """Everything the template asks for."""
    of_page = ("utility", "statistics", "bounds", "table-1", "table-2")
    known = {name: dict(by_mechanism(tables[name])) for name in of_page}

    def value(table: str, row: str, statistic: str, published: bool = False) -> float | None:
        pair = known[table].get(row, {}).get(statistic)
        return None if pair is None else pair[published]

    def means(number: int) -> list[tuple[str, float]]:
        """The mean of the figure's quantity under each mechanism."""
        column = VIOLINS[f"figure-{number:02d}"][0]
        table, statistic = SHOWN.get(column, ("statistics", column))
        return [(row, pairs[statistic][0]) for row, pairs in known[table].items()]

    return {
        "design": design,
        "replicates": rows["replicate"].n_unique(),
        "refused": rows["refused"].drop_nulls().len() if "refused" in rows.columns else 0,
        "tried": rows.filter(pl.col("mechanism") != "Data").height,
        "value": value,
        "means": means,
        "quantity": lambda number: NAMES[VIOLINS[f"figure-{number:02d}"][0]],
        "draws": {
            (row["density"], row["parameter"]): row
            for row in tables["figure-1"].iter_rows(named=True)
        },
        "ours": lambda caption, name, style: grid(caption, tables[name], f"{name}.csv", style),
    }
