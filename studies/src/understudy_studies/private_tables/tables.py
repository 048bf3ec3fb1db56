"""The tables of the private-tables study: T's, with ours beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars import selectors

from understudy_studies.framework import published, published_rows
from understudy_studies.private_tables.cells import CELLS, INNER, TOTALS
from understudy_studies.private_tables.errors import COVERED, FILE_ORDER, KEYS, monte_carlo_errors

Row = dict[str, Any]
Floats = NDArray[np.float64]


def study_rows(results: Sequence[Row], truth: dict[str, Floats]) -> pl.DataFrame:
    """Every method's estimates of every cell and replicate, with the true values beside them."""
    true = pl.concat(
        pl.DataFrame(
            {
                "field": [f for f, _ in CELLS],
                "gender": [g for _, g in CELLS],
                "statistic": [statistic] * len(CELLS),
                "truth": values,
                "inner": INNER,
                "total": TOTALS,
            }
        )
        for statistic, values in truth.items()
    )
    rows = pl.concat([pl.DataFrame(result["rows"]) for result in results])
    return rows.join(true, on=["field", "gender", "statistic"], how="left", maintain_order="left")


def study_tables(
    rows: pl.DataFrame, cells: pl.DataFrame, results: Sequence[Row], applied: Row | None
) -> dict[str, pl.DataFrame]:
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
    return joined.group_by(KEYS, maintain_order=True).agg(
        pl.col("coverage").filter(pl.col("inner")).mean().alias("coverage_16"),
        pl.col("coverage").filter(pl.col("total")).mean().alias("coverage_fields"),
        pl.col("length").filter(pl.col("inner")).mean().alias("length_16"),
        (pl.col("rmse") / pl.col("sample_rmse"))
        .filter(pl.col("inner"))
        .mean()
        .alias("rmse_ratio_16"),
        (pl.col("rmse") / pl.col("sample_rmse"))
        .filter(pl.col("inner"))
        .median()
        .alias("median_rmse_ratio_16"),
        (pl.col("rmse_with_se") / pl.col("sample_rmse_with_se"))
        .filter(pl.col("inner"))
        .median()
        .alias("median_ratio_with_se_16"),
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
