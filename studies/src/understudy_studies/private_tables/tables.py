"""The files of the private-tables study: T's tables and figures with ours beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy_studies.private_tables import figures as figures
from understudy_studies.private_tables.cells import CELLS, INNER, TOTALS
from understudy_studies.private_tables.errors import (
    COVERED,
    FILE_ORDER,
    KEYS,
    monte_carlo_errors,
)
from understudy_studies.private_tables.page import write_study_page
from understudy_studies.private_tables.published import (
    INTERVAL_RATIOS,
    UNWEIGHTED_BOUNDS,
    application_table,
    coverage_table,
)

Floats = NDArray[np.float64]


def write_report(out: Path, truth: dict[str, Floats], replicates: int) -> Path:
    """CSV files, figures and study.html from the replicates that are there."""
    rows = _rows(out, truth, replicates)
    cells = by_cell(rows)
    tables = {
        "summary": summary(cells).join(
            monte_carlo_errors(rows), on=KEYS, how="left", maintain_order="left"
        ),
        "table4_counts": _beside(cells, 4, "count"),
        "table5_means": _beside(cells, 5, "mean(salary)"),
        "interval_lengths": _length_ratios(cells),
        "bounds": _bounds(out, replicates),
    }
    if (out / "application.parquet").exists():
        tables["table2_counts"] = _application(out, 2, "count")
        tables["table3_means"] = _application(out, 3, "mean(salary)")
    for name, table in tables.items():
        table.write_csv(out / f"{name}.csv")
    tables["summary"].write_json(out / "summary.json")
    pictures = dict(np.load(out / "replicates" / "pictures.npz"))
    random_order = ~pl.col("mechanism").str.ends_with(FILE_ORDER)
    drawn = figures.draw_all(out, rows.filter(random_order), cells.filter(random_order), pictures)
    refused = [text for facts in _facts(out, replicates) for text in facts["refused"]]
    return write_study_page(out, tables, drawn, refused, replicates)


def _rows(out: Path, truth: dict[str, Floats], replicates: int) -> pl.DataFrame:
    files = [out / "replicates" / f"{number:04d}.parquet" for number in range(replicates)]
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
    rows = pl.concat([pl.read_parquet(file) for file in files])
    return rows.join(true, on=["field", "gender", "statistic"], how="left", maintain_order="left")


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
    table = coverage_table(number)
    shown = {
        "paper": ("Weighted", "paper"),
        "recommended": ("Weighted", "recommended"),
        "paper_file_order": (f"Weighted, {FILE_ORDER}", "paper"),
    }
    for model in ("FBS", "FBP"):
        for label, (mechanism, formulas) in shown.items():
            ours = cells.filter(
                (pl.col("model") == model)
                & (pl.col("mechanism") == mechanism)
                & (pl.col("m") == 3)
                & (pl.col("epsilon") - 10.8).abs().lt(1e-9)
                & (pl.col("formulas") == formulas)
                & (pl.col("statistic") == statistic)
            ).select(
                "field",
                "gender",
                pl.col("coverage").alias(f"our_{model}_{label}_coverage"),
                pl.col("length").alias(f"our_{model}_{label}_length"),
            )
            table = table.join(ours, on=["field", "gender"], how="left", maintain_order="left")
    return table


def _length_ratios(cells: pl.DataFrame) -> pl.DataFrame:
    """Mean over cells of FBP's length over FBS's, by (m, bound), beside T's captions."""
    weighted = cells.filter((pl.col("mechanism") == "Weighted") & (pl.col("field") != "All"))
    shape = ["m", "epsilon", "formulas", "statistic", "field", "gender"]
    wide = weighted.pivot(on="model", index=shape, values="length")
    mean = wide.group_by("m", "epsilon", "formulas", "statistic", maintain_order=True).agg(
        (pl.col("FBP") / pl.col("FBS")).mean().alias("ours")
    )
    published = pl.DataFrame(
        [
            {"m": m, "epsilon": 2 * m * bound, "statistic": statistic, "T": ratios[k]}
            for (m, bound), ratios in INTERVAL_RATIOS.items()
            for k, statistic in enumerate(("count", "mean(salary)"))
        ]
    )
    rounded = pl.col("epsilon").round(6)
    return mean.with_columns(rounded).join(
        published.with_columns(rounded),
        on=["m", "epsilon", "statistic"],
        how="left",
        maintain_order="left",
    )


def _bounds(out: Path, replicates: int) -> pl.DataFrame:
    """Overall bounds over the replicates, and T's of its one sample."""
    facts = _facts(out, replicates)
    names = [name for name in facts[0] if name != "refused"]
    values = {name: np.array([one[name] for one in facts]) for name in names}
    return pl.DataFrame(
        [
            {
                "fit": name,
                "mean": v.mean(),
                "least": v.min(),
                "largest": v.max(),
                "T": UNWEIGHTED_BOUNDS.get(("simulation", name.split()[0]))
                if name.endswith("unweighted")
                else float(name.split()[1]),
            }
            for name, v in values.items()
        ]
    )


def _facts(out: Path, replicates: int) -> list[dict[str, Any]]:
    files = [out / "replicates" / f"{number:04d}.json" for number in range(replicates)]
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def _application(out: Path, number: int, statistic: str) -> pl.DataFrame:
    ours = pl.read_parquet(out / "application.parquet").filter(pl.col("statistic") == statistic)
    table = application_table(number)
    for method in ("Sample", "Laplace", "FBS", "FBP", "FBS paper", "FBP paper"):
        part = ours.filter(pl.col("method") == method).select(
            "field",
            "gender",
            pl.col("estimate").alias(f"our_{method}_est"),
            pl.col("se").alias(f"our_{method}_se"),
        )
        table = table.join(part, on=["field", "gender"], how="left", maintain_order="left")
    return table
