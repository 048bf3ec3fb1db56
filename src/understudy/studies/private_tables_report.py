"""The page of the private-tables study: T's tables and figures with ours beside them."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.studies import private_tables_figures as figures
from understudy.studies.cell_tables import CELLS, INNER, TOTALS
from understudy.studies.private_tables_errors import (
    COVERED,
    FILE_ORDER,
    KEYS,
    monte_carlo_errors,
)
from understudy.studies.published_tables import (
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
    page = _page(tables, drawn, refused, replicates)
    (out / "study.html").write_text(page, encoding="utf-8")
    return out / "study.html"


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
        pl.len().alias("replicates"),
    )


def summary(cells: pl.DataFrame) -> pl.DataFrame:
    """One line per method: the 16 innermost cells and the eight field totals."""
    cells = cells.with_columns(design=pl.col("mechanism").str.ends_with(FILE_ORDER))
    sample = cells.filter(pl.col("model") == "Sample").select(
        "design", "statistic", "field", "gender", pl.col("rmse").alias("sample_rmse")
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
    for method in ("Sample", "Laplace", "FBS", "FBP"):
        part = ours.filter(pl.col("method") == method).select(
            "field",
            "gender",
            pl.col("estimate").alias(f"our_{method}_est"),
            pl.col("se").alias(f"our_{method}_se"),
        )
        table = table.join(part, on=["field", "gender"], how="left", maintain_order="left")
    return table


_TITLES = {
    "summary": "Coverage and RMSE by method",
    "table4_counts": "T Table 4: counts, m = 3, bound 1.8",
    "table5_means": "T Table 5: mean salaries, m = 3, bound 1.8",
    "interval_lengths": "Length of FBP's intervals over FBS's (captions of T Figures 10 to 17)",
    "bounds": "Overall bounds of the record contributions",
    "table2_counts": "T Table 2: counts, a simulated stand-in for the application",
    "table3_means": "T Table 3: mean salaries, a simulated stand-in for the application",
}


def _page(
    tables: dict[str, pl.DataFrame],
    drawn: list[tuple[str, str]],
    refused: list[str],
    replicates: int,
) -> str:
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Private tables</title>",
        "<style>body{font:15px/1.5 sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}"
        "table{border-collapse:collapse;font-size:12px;display:block;overflow-x:auto}"
        "td,th{padding:2px 8px;text-align:right;border-bottom:1px solid #e4e4e4}"
        "img{max-width:100%}</style>",
        f"<h1>Private tables from survey microdata</h1><p>{replicates} samples of one simulated "
        "population. Columns without <code>our_</code> are T's. Everything here comes from "
        "simulated data. Columns <code>_error</code> are Monte Carlo standard errors. "
        "<code>file order</code>: samples that were selected along the file, men before women, "
        "which T's own coverage of counts agrees with.</p>",
    ]
    for name, table in tables.items():
        parts.append(f"<h2>{_TITLES[name]}</h2>{_html(table)}<p>{name}.csv</p>")
    for file, caption in drawn:
        parts.append(
            f"<h2>{html.escape(caption)}</h2><img src='{file}' alt='{html.escape(caption)}'>"
        )
    if refused:
        listed = "".join(f"<li>{html.escape(text)}</li>" for text in refused)
        parts.append(f"<h2>Refused releases</h2><ul>{listed}</ul>")
    return "\n".join([*parts, "</html>"])


def _html(table: pl.DataFrame) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>"
        for row in table.iter_rows()
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"
    return html.escape(str(value))
