"""The tables of the private-tables study: T's, with ours beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from polars import selectors

import understudy as us
from understudy_studies.framework import (
    Row,
    Tables,
    Vector,
    published,
    published_rows,
    with_error,
)
from understudy_studies.page import grid, number
from understudy_studies.private_tables.cells import CELL_COLUMNS, INNER, TOTALS

KEYS = ["model", "mechanism", "epsilon", "m", "formulas", "statistic"]
FILE_ORDER = "file order"
ROUNDING = 1e-9  # relative: a count whose size is public has an interval of no width
COVERED = (pl.col("lower") <= pl.col("truth") * (1 + ROUNDING)) & (
    pl.col("truth") * (1 - ROUNDING) <= pl.col("upper")
)
COUNT, MEAN = "count", "mean(salary)"
METHOD = ["model", "mechanism", "epsilon", "m", "formulas"]


def study_rows(results: Sequence[Row], truth: dict[str, Vector]) -> pl.DataFrame:
    """Every method's estimates of every cell and replicate, with the true values beside them."""
    cells = CELL_COLUMNS.with_columns(inner=INNER, total=TOTALS)
    true = pl.concat(
        cells.with_columns(pl.Series("truth", values), statistic=pl.lit(statistic))
        for statistic, values in truth.items()
    )
    rows = pl.concat([pl.DataFrame(result["rows"]) for result in results])
    return rows.join(true, on=["field", "gender", "statistic"], how="left", maintain_order="left")


def study_tables(
    rows: pl.DataFrame, cells: pl.DataFrame, results: Sequence[Row], applied: Row | None
) -> Tables:
    """Every table that the study writes."""
    errors = monte_carlo_errors(rows)
    tables = {
        "summary": summary(cells).join(errors, on=KEYS, how="left", maintain_order="left"),
        "table4_counts": _beside(cells, 4, "count"),
        "table5_means": _beside(cells, 5, "mean(salary)"),
        "interval_lengths": _length_ratios(cells),
        "bounds": _bounds([result["facts"] for result in results]),
    }
    if applied is not None:
        frame = pl.DataFrame(applied["rows"])
        tables["table2_counts"] = _application(frame, 2, "count")
        tables["table3_means"] = _application(frame, 3, "mean(salary)")
    return tables


def by_cell(rows: pl.DataFrame) -> pl.DataFrame:
    """Coverage, mean length, CV, bias and RMSE over the replicates, by method and cell."""
    error = pl.col("estimate") - pl.col("truth")
    return rows.group_by([*KEYS, "field", "gender", "inner", "total"], maintain_order=True).agg(
        pl.col("truth").first(),
        COVERED.mean().alias("coverage"),
        (pl.col("upper") - pl.col("lower")).mean().alias("length"),
        (pl.col("se") / pl.col("estimate").abs()).mean().alias("cv"),
        error.mean().alias("bias"),
        (error**2).mean().sqrt().alias("rmse"),
        (error**2 + pl.col("se") ** 2).sqrt().mean().alias("rmse_with_se"),
        pl.len().alias("replicates"),
    )


def summary(cells: pl.DataFrame) -> pl.DataFrame:
    """One line per method: the 16 innermost cells and the eight field totals.

    RMSE ratios are over the sample's own. `rmse_with_se` is T's measure in Figures 2 and 5 to 7,
    sqrt(error^2 + se^2) of one table, which holds what the method itself says of its error.
    """
    cells = cells.with_columns(design=pl.col("mechanism").str.ends_with(FILE_ORDER))
    sample = cells.filter(pl.col("model") == "Sample").select(
        "design",
        "statistic",
        "field",
        "gender",
        pl.col("rmse").alias("sample_rmse"),
        pl.col("rmse_with_se").alias("sample_rmse_with_se"),
    )
    joined = cells.join(sample, on=["design", "statistic", "field", "gender"], how="left")
    inner = pl.col("inner")
    ratio = (pl.col("rmse") / pl.col("sample_rmse")).filter(inner)
    with_se = (pl.col("rmse_with_se") / pl.col("sample_rmse_with_se")).filter(inner)
    return joined.group_by(KEYS, maintain_order=True).agg(
        pl.col("coverage").filter(pl.col("inner")).mean().alias("coverage_16"),
        pl.col("coverage").filter(pl.col("total")).mean().alias("coverage_fields"),
        pl.col("length").filter(pl.col("inner")).mean().alias("length_16"),
        ratio.mean().alias("rmse_ratio_16"),
        ratio.median().alias("median_rmse_ratio_16"),
        with_se.median().alias("median_ratio_with_se_16"),
        pl.col("replicates").max(),
    )


def _beside(cells: pl.DataFrame, number: int, statistic: str) -> pl.DataFrame:
    """T's Table 4 or 5 with our numbers for m = 3 and bound 1.8 by both sets of formulas."""
    table = printed_table(number)
    shown = {
        "paper": ("Weighted", "paper"),
        "recommended": ("Weighted", "recommended"),
        "paper_file_order": (f"Weighted, {FILE_ORDER}", "paper"),
    }
    near = (pl.col("epsilon") - 10.8).abs().lt(1e-9)
    three = cells.filter(near, m=3, statistic=statistic)
    for model in ("FBS", "FBP"):
        for label, (mechanism, formulas) in shown.items():
            ours = three.filter(model=model, mechanism=mechanism, formulas=formulas)
            table = _joined(table, ours, f"our_{model}_{label}", ("coverage", "length"))
    return table


def _length_ratios(cells: pl.DataFrame) -> pl.DataFrame:
    """Mean over cells of FBP's length over FBS's, by (m, bound), beside T's captions."""
    weighted = cells.filter((pl.col("mechanism") == "Weighted") & (pl.col("field") != "All"))
    shape = ["m", "epsilon", "formulas", "statistic", "field", "gender"]
    wide = weighted.pivot(on="model", index=shape, values="length")
    mean = wide.group_by("m", "epsilon", "formulas", "statistic", maintain_order=True).agg(
        (pl.col("FBP") / pl.col("FBS")).mean().alias("ours")
    )
    printed = (
        published("private-tables", "interval-lengths")
        .with_columns(epsilon=2 * pl.col("m") * pl.col("bound"))
        .unpivot(["count", "mean(salary)"], index=["m", "epsilon"], variable_name="statistic",
                 value_name="T")
    )  # fmt: skip
    rounded = pl.col("epsilon").round(6)
    return mean.with_columns(rounded).join(
        printed.with_columns(rounded),
        on=["m", "epsilon", "statistic"],
        how="left",
        maintain_order="left",
    )


def _bounds(facts: Sequence[Row]) -> pl.DataFrame:
    """Overall bounds over the replicates, and T's of its one sample."""
    printed = published_rows("private-tables", "unweighted-bounds", 2)
    names = [name for name in facts[0] if name != "refused"]
    values = {name: np.array([sample[name] for sample in facts]) for name in names}
    return pl.DataFrame(
        [
            {
                "fit": name,
                "mean": v.mean(),
                "least": v.min(),
                "largest": v.max(),
                "T": printed["simulation", name.split()[0]][0]
                if name.endswith("unweighted")
                else float(name.split()[1]),
            }
            for name, v in values.items()
        ]
    )


def _application(rows: pl.DataFrame, number: int, statistic: str) -> pl.DataFrame:
    table = printed_table(number)
    for method in ("Sample", "Laplace", "FBS", "FBP", "FBS paper", "FBP paper"):
        ours = rows.filter(statistic=statistic, method=method).rename({"estimate": "est"})
        table = _joined(table, ours, f"our_{method}", ("est", "se"))
    return table


def _joined(
    table: pl.DataFrame, ours: pl.DataFrame, prefix: str, columns: Sequence[str]
) -> pl.DataFrame:
    """The table with columns of ours beside it, by cell."""
    part = ours.select("field", "gender", pl.col(columns).name.prefix(f"{prefix}_"))
    return table.join(part, on=["field", "gender"], how="left", maintain_order="left")


def printed_table(number: int) -> pl.DataFrame:
    """T's Tables 2 to 5, by cell; numbers are floats, as ours are."""
    table = published("private-tables", f"table-{number}")
    return table.cast({selectors.exclude("field", "gender"): pl.Float64, "field": pl.String})


def monte_carlo_errors(rows: pl.DataFrame) -> pl.DataFrame:
    """Errors of `coverage_16`, `coverage_fields` and `rmse_ratio_16`, one line per method.

    Cells of one replicate depend on each other, so that a replicate is the unit: coverage has the
    standard error of the replicates' mean coverages, and RMSE ratios the jackknife's.
    """
    rows = rows.with_columns(
        covered=COVERED,
        squared=(pl.col("estimate") - pl.col("truth")) ** 2,
        design=pl.col("mechanism").str.ends_with(FILE_ORDER),
    )
    at = ["design", "statistic", "replicate", "field", "gender"]
    own = rows.filter(pl.col("model") == "Sample").select(*at, pl.col("squared").alias("own"))
    rows = rows.join(own, on=at, how="left", maintain_order="left")
    lines = []
    for key, part in rows.group_by(KEYS, maintain_order=True):
        inner, fields = part.filter(pl.col("inner")), part.filter(pl.col("total"))
        lines.append(
            dict(zip(KEYS, key, strict=True))
            | {
                "coverage_16_error": _error_of_mean(_by_replicate(inner, "covered").mean(axis=1)),
                "coverage_fields_error": _error_of_mean(
                    _by_replicate(fields, "covered").mean(axis=1)
                ),
                "rmse_ratio_16_error": jackknife_error(
                    _by_replicate(inner, "squared"), _by_replicate(inner, "own")
                ),
            }
        )
    return pl.DataFrame(lines, infer_schema_length=None)


def jackknife_error(squared: Vector, own: Vector) -> float | None:
    """Of the mean over cells of sqrt(mean squared / mean own); arrays are (replicates, cells)."""
    count = len(squared)
    if count < 3:
        return None
    left_out = [(a.sum(axis=0) - a) for a in (squared, own)]
    ratios = np.sqrt(left_out[0] / left_out[1]).mean(axis=1)
    return float(np.sqrt((count - 1) * ratios.var()))


def _by_replicate(part: pl.DataFrame, column: str) -> Vector:
    replicates = part["replicate"].n_unique()
    ordered = part.sort("replicate", maintain_order=True)[column].cast(pl.Float64)
    return ordered.to_numpy().reshape(replicates, -1)


def _error_of_mean(values: Vector) -> float | None:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def facts(tables: Tables, figures: Mapping[str, Any], results: Sequence[Row]) -> Row:
    """The lines of single methods, grids of methods and cells; `figures` are those drawn."""
    summary = tables["summary"]
    three = {
        (model, formulas, statistic): _line(summary, model, "Weighted", 10.8, formulas, statistic)
        for model in ("FBS", "FBP")
        for formulas in ("paper", "recommended")
        for statistic in (COUNT, MEAN)
    }
    lengths = published_rows("private-tables", "interval-lengths", 3)
    return {
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
