"""The fields of page.md.j2: the summary in words, and the grids of methods and cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

import understudy as us
from understudy_studies.framework import with_error
from understudy_studies.page import grid, number

Tables = dict[str, pl.DataFrame]
Row = dict[str, Any]

NAMES = {"count": "counts", "mean(salary)": "mean salaries"}
METHOD = ["model", "mechanism", "epsilon", "m", "formulas"]


def fields(tables: Tables, captions: dict[str, str], results: Sequence[Row], n: int) -> Row:
    """Everything the template asks for; `captions` are those of the figures that were drawn."""
    return {
        "summary": summary(tables, len(results), n),
        "captions": captions,
        "summary_grids": summary_grids(tables["summary"]),
        "cells": lambda name, caption: cell_grid(tables[name], name, caption),
        "lengths": length_grid(tables["interval_lengths"]),
        "refused": [text for result in results for text in result["facts"]["refused"]],
    }


def summary(tables: Tables, replicates: int, n: int) -> tuple[str, ...]:
    """What came out, first and plainly."""
    table = tables["summary"]
    texts = [
        f"{replicates} samples of about {n:,} persons from one simulated population of 100,000. "
        "All data are invented; published figures are T's."
    ]
    three = {
        (model, formulas, statistic): pick(table, model, "Weighted", 10.8, formulas, statistic)
        for model in ("FBS", "FBP")
        for formulas in ("paper", "recommended")
        for statistic in NAMES
    }
    if all(three.values()):
        texts.append(
            "At epsilon 10.8 with three files, recommended formulas: intervals of 95 % cover "
            + "; ".join(
                f"{_percent(three[model, 'recommended', 'count'])} (counts) and "
                f"{_percent(three[model, 'recommended', 'mean(salary)'])} (mean salaries) "
                f"with {model}"
                for model in ("FBS", "FBP")
            )
            + "."
        )
        laplace = pick(table, "Laplace", "Laplace", 10.8, "paper", "mean(salary)")
        best = three["FBS", "recommended", "mean(salary)"]
        if laplace and best:
            texts.append(
                f"Mean salaries from a Laplace table at the same epsilon have "
                f"{laplace['rmse_ratio_16']:.1f} times the error of the confidential sample, and "
                f"{laplace['median_ratio_with_se_16']:.0f} times with the standard errors that it "
                f"reports counted in; synthetic files from FBS have {best['rmse_ratio_16']:.2f} "
                "times."
            )
    ours = pick(table, "FBS", "ReferenceCensored 3", 3.0, "recommended", "mean(salary)")
    beside = three["FBS", "recommended", "mean(salary)"]
    if ours and beside:
        texts.append(
            "A formal promise at epsilon 3 (ReferenceCensored, blank) costs "
            f"{round(100 * (ours['rmse_ratio_16'] / beside['rmse_ratio_16'] - 1))} % more error in "
            "mean salaries than the asymptotic one at 10.8, with FBS."
        )
    return tuple(texts)


def pick(
    table: pl.DataFrame, model: str, mechanism: str, epsilon: float, formulas: str, statistic: str
) -> dict[str, float] | None:
    """The line of one method at three files (or one, where a method has no files)."""
    rows = table.filter(
        (pl.col("model") == model)
        & (pl.col("mechanism") == mechanism)
        & (pl.col("epsilon") - epsilon).abs().lt(1e-6)
        & (pl.col("formulas") == formulas)
        & (pl.col("statistic") == statistic)
        & pl.col("m").is_in([1, 3])
    )
    return rows.row(0, named=True) if rows.height == 1 else None


def _percent(row: dict[str, float] | None) -> str:
    return "" if row is None else f"{100 * row['coverage_16']:.0f} %"


def summary_grids(table: pl.DataFrame) -> list[us.Part]:
    """Counts and means: three files and the bound 1.8 in sight, everything else in a fold."""
    parts: list[us.Part] = []
    for statistic, name in NAMES.items():
        rows = table.filter(pl.col("statistic") == statistic)
        main = pl.col("m").is_in([1, 3]) & ~(
            (pl.col("m") == 1) & (pl.col("model").is_in(["FBS", "FBP"]))
        )
        shown = rows.filter(main & (pl.col("epsilon") < 11))
        rest = rows.join(shown, on=METHOD, how="anti", maintain_order="left")
        title = name.capitalize()
        parts.append(_methods(shown, f"{title}, three files"))
        if rest.height:
            others = (_methods(rest, f"{title}, all others"),)
            parts.append(us.Fold(f"{title}: other numbers of files and bounds", others))
    return parts


def _methods(table: pl.DataFrame, caption: str) -> us.Grid:
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
    caption = f"{caption}. T's columns first, then ours."
    return grid(caption, table, [("", label), *columns], f"{name}.csv")


def length_grid(table: pl.DataFrame) -> us.Grid:
    """By the paper's formulas, which T's captions are about."""
    paper = table.filter(pl.col("formulas") == "paper")
    rows = []
    for (m, epsilon), part in paper.group_by("m", "epsilon", maintain_order=True):
        known = {row["statistic"]: row for row in part.iter_rows(named=True)}
        pairs = [(known[name]["ours"], known[name]["T"]) for name in NAMES]
        name = f"m = {m}, bound {epsilon / (2 * m):g}"
        rows.append((name, *(f"{value:.2f}" for pair in pairs for value in pair)))
    header = ("", "counts, ours", "T", "means, ours", "T")
    caption = "Length of FBP's intervals over FBS's, paper's formulas (captions of Figures 10-17)"
    return us.Grid(caption, header, tuple(rows), "interval_lengths.csv")
