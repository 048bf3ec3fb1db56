"""The facts of the page: the lines of single methods, and the grids of methods and cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

import understudy as us
from understudy_studies.framework import published_rows, with_error
from understudy_studies.page import grid, number

Tables = dict[str, pl.DataFrame]
Row = dict[str, Any]

COUNT, MEAN = "count", "mean(salary)"
METHOD = ["model", "mechanism", "epsilon", "m", "formulas"]


def facts(tables: Tables, figures: Mapping[str, Any], results: Sequence[Row], n: int) -> Row:
    """Everything the template asks for; `figures` are those that were drawn."""
    summary = tables["summary"]
    three = {
        (model, formulas, statistic): _line(summary, model, "Weighted", 10.8, formulas, statistic)
        for model in ("FBS", "FBP")
        for formulas in ("paper", "recommended")
        for statistic in (COUNT, MEAN)
    }
    lengths = published_rows("private-tables", "interval-lengths", 3)
    return {
        "replicates": len(results),
        "n": n,
        "three": three if all(three.values()) else None,
        "best": three["FBS", "recommended", MEAN],
        "laplace": _line(summary, "Laplace", "Laplace", 10.8, "paper", MEAN),
        "formal": _line(summary, "FBS", "ReferenceCensored 3", 3.0, "recommended", MEAN),
        "drawn": list(figures),
        "coverage_figures": {name: (m, bound) for m, bound, name in lengths},
        "summaries": [
            ("Counts", *_split(summary, COUNT)),
            ("Mean salaries", *_split(summary, MEAN)),
        ],
        "methods": methods,
        "cell_grid": lambda name, caption: cell_grid(tables[name], name, caption),
        "lengths": tables["interval_lengths"]
        .filter(formulas="paper")
        .pivot("statistic", index=["m", "epsilon"], values=["ours", "T"])
        .with_columns(bound=pl.col("epsilon") / (2 * pl.col("m"))),
        "refused": [text for result in results for text in result["facts"]["refused"]],
    }


def _line(
    table: pl.DataFrame, model: str, mechanism: str, epsilon: float, formulas: str, statistic: str
) -> dict[str, float] | None:
    """The line of one method at three files (or one, where a method has no files)."""
    rows = table.filter(
        (pl.col("epsilon") - epsilon).abs().lt(1e-6) & pl.col("m").is_in([1, 3]),
        model=model,
        mechanism=mechanism,
        formulas=formulas,
        statistic=statistic,
    )
    return rows.row(0, named=True) if rows.height == 1 else None


def _split(table: pl.DataFrame, statistic: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Three files and the bound 1.8, then everything else."""
    rows = table.filter(statistic=statistic)
    single = (pl.col("m") == 1) & pl.col("model").is_in(["FBS", "FBP"])
    shown = rows.filter(pl.col("m").is_in([1, 3]) & ~single & (pl.col("epsilon") < 11))
    return shown, rows.join(shown, on=METHOD, how="anti", maintain_order="left")


def methods(table: pl.DataFrame, caption: str) -> us.Grid:
    def shown(name: str, digits: int = 3) -> Any:
        return lambda row: with_error(row[name], row[f"{name}_error"], row["replicates"], digits)

    columns = [
        ("", _label),
        ("ε", lambda row: f"{row['epsilon']:g}" if row["epsilon"] else "–"),
        ("coverage, cells", shown("coverage_16")),
        ("RMSE ratio", shown("rmse_ratio_16", 2)),
        ("with se", "{median_ratio_with_se_16:.2f}"),
        ("coverage, fields", shown("coverage_fields")),
        ("length", "{length_16:,.0f}"),
    ]
    return grid(caption, table, columns, "summary.csv")


def _label(row: Row) -> str:
    if row["model"] == "Sample":
        return "Sample itself" + (", file order" if "file order" in row["mechanism"] else "")
    mechanism = row["mechanism"].replace(" drifted", ", drifted")
    for epsilon in ("10.8", "3", "1"):
        mechanism = mechanism.replace(f"ReferenceCensored {epsilon}", "ReferenceCensored")
    name = row["model"] if row["model"] == mechanism else f"{row['model']} {mechanism}"
    files = "" if row["m"] == 3 or row["model"] == "Laplace" else f", {row['m']} files"
    return f"{name}, {row['formulas']}{files}"


def cell_grid(table: pl.DataFrame, name: str, caption: str) -> us.Grid:
    """T's columns first, then ours, by field and gender."""

    def title(column: str) -> str:
        who = "ours: " if column.startswith("our_") else ""
        return who + column.removeprefix("our_").replace("_", " ").replace(" est", "")

    def cell(column: str) -> Any:
        return lambda row: number(row[column], 3, 100)

    def label(row: Row) -> str:
        return f"Field {row['field']}, {row['gender']}".replace("Field All", "All fields")

    columns = [(title(c), cell(c)) for c in table.columns if c not in ("field", "gender")]
    return grid(caption, table, [("", label), *columns], f"{name}.csv")
