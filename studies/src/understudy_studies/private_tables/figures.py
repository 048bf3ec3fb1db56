"""T's Figures 1 to 17, from the replicates of the private-tables study."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.drawing import Figure, panels
from understudy_studies.framework import Vector, published

STATISTICS = {"count": "counts", "mean(salary)": "mean salaries"}
COLOUR = {"FBS": us.COLOURS[2], "FBP": us.COLOURS[1], "Laplace": us.COLOURS[0]}
Drawn = dict[str, Figure]


def draw_figures(
    rows: pl.DataFrame, cells: pl.DataFrame, pictures: dict[str, Vector], applied: Any
) -> Drawn:
    """All figures that the data allow, in T's order; `applied` is the application, or None."""
    drawn = {} if applied is None else _application(applied)
    drawn["figure03"] = _bounds(pictures)
    drawn |= _weights(pictures)
    drawn |= _ratios(rows.filter(pl.col("replicate") == 0))
    for m, bound, number, *_ in published("private-tables", "interval-lengths").iter_rows():
        drawn |= _coverage(cells, m, bound, number)
    return drawn


def _panels(columns: int) -> AbstractContextManager[tuple[Figure, Any]]:
    return panels(1, columns, 4.2 * columns, 3.6)


def _violins(axis: Any, values: dict[str, Vector]) -> None:
    parts = axis.violinplot(list(values.values()), showmedians=True, widths=0.8)
    for body, name in zip(parts["bodies"], values, strict=True):
        body.set_facecolor(COLOUR.get(name.split()[0], us.COLOURS[3]))
        body.set_alpha(0.6)
    axis.set_xticks(range(1, len(values) + 1), list(values))
    axis.grid(axis="y")


def _bounds(pictures: dict[str, Vector]) -> Figure:
    with _panels(2) as (figure, (axes,)):
        for axis, model in zip(axes, ("FBS", "FBP"), strict=True):
            values = {f"{model} weighted": pictures[f"{model}_bounds"]}
            if f"{model}_unweighted" in pictures:
                values = {f"{model} unweighted": pictures[f"{model}_unweighted"], **values}
            _violins(axis, values)
            axis.set_ylabel("largest |contribution| of a record")
        return figure


def _application(applied: Any) -> Drawn:
    bounds = {name: np.array(values) for name, values in applied["bounds"].items()}
    drawn = {"figure01": _bounds(bounds)}
    rows = pl.DataFrame(applied["rows"])
    sample = rows.filter(pl.col("method") == "Sample").select(
        "field", "gender", "statistic", pl.col("estimate").alias("own")
    )
    joined = rows.join(sample, on=["field", "gender", "statistic"]).with_columns(
        rmse=((pl.col("estimate") - pl.col("own")) ** 2 + pl.col("se") ** 2).sqrt()
    )
    with _panels(2) as (figure, (axes,)):
        for axis, (statistic, title) in zip(axes, STATISTICS.items(), strict=True):
            part = joined.filter(pl.col("statistic") == statistic)
            shown = ("FBS paper", "FBP paper", "FBS", "FBP", "Laplace")
            _violins(axis, {m: _values(part, "method", m, "rmse") for m in shown})
            axis.tick_params(axis="x", labelsize=7)
            axis.set(title=title, ylabel="RMSE against the sample", yscale="log")
        return {**drawn, "figure02": figure}


def _values(rows: pl.DataFrame, column: str, name: str, value: str) -> Vector:
    return rows.filter(pl.col(column) == name)[value].to_numpy()


def _weights(pictures: dict[str, Vector]) -> Drawn:
    drawn = {}
    own = ("confidential_y", "confidential_w", "confidential")
    plans = {
        "figure04": [own, *((f"{m}_y", f"{m}_smoothed", f"{m}, smoothed") for m in ("FBS", "FBP"))],
        "figure08": [own, ("FBS_y", "FBS_synthesized", "FBS, synthesized"),
                     ("FBS_y", "FBS_smoothed", "FBS, smoothed")],
        "figure09": [own, ("FBP_y", "FBP_synthesized", "FBP, synthesized"),
                     ("FBP_y", "FBP_smoothed", "FBP, smoothed")],
    }  # fmt: skip
    for name, plan in plans.items():
        with _panels(3) as (figure, (axes,)):
            for axis, (y, w, title) in zip(axes, plan, strict=True):
                axis.plot(
                    pictures[y], pictures[w], ".", markersize=3, color=us.COLOURS[1], alpha=0.5
                )
                axis.set(title=title, xlabel="salary", ylabel="weight", xscale="log", yscale="log")
                axis.xaxis.set_minor_formatter("")
                axis.yaxis.set_minor_formatter("")
            drawn[name] = figure
    return drawn


def _ratios(first: pl.DataFrame) -> Drawn:
    """Figures 5 to 7: RMSE of one sample's tables over the sample's own, 27 cells."""
    squared = (pl.col("estimate") - pl.col("truth")) ** 2 + pl.col("se") ** 2
    rows = first.filter((pl.col("formulas") == "paper") | (pl.col("model") == "Sample"))
    rows = rows.with_columns(rmse=squared.sqrt())
    key = ["statistic", "field", "gender"]
    own = rows.filter(pl.col("model") == "Sample").select(*key, pl.col("rmse").alias("own"))
    rows = rows.join(own, on=key).with_columns(ratio=pl.col("rmse") / pl.col("own"))
    three = rows.filter((pl.col("m") == 3) & pl.col("epsilon").sub(10.8).abs().lt(1e-6))
    both = pl.concat([three, rows.filter(pl.col("model") == "Laplace")])
    drawn = {"figure05": _ratio_figure({"": both}, list(COLOUR))}
    for name, bound in (("figure06", 1.8), ("figure07", 3.4)):
        parts = {
            f"m = {m}": rows.filter(
                (pl.col("m") == m) & pl.col("epsilon").sub(2 * m * bound).abs().lt(1e-6)
            ).filter(pl.col("mechanism") == "Weighted")
            for m in (1, 3, 5)
        }
        parts = {label: part for label, part in parts.items() if part.height}
        if parts:
            drawn[name] = _ratio_figure(parts, ["FBS", "FBP"])
    return drawn


def _ratio_figure(parts: dict[str, pl.DataFrame], models: list[str]) -> Figure:
    with _panels(2) as (figure, (axes,)):
        for axis, (statistic, title) in zip(axes, STATISTICS.items(), strict=True):
            values = {
                f"{model} {label}".strip(): _values(
                    part.filter(pl.col("statistic") == statistic), "model", model, "ratio"
                )
                for label, part in parts.items()
                for model in models
            }
            _violins(axis, values)
            axis.tick_params(axis="x", labelsize=7)
            axis.axhline(1.0, color=us.COLOURS[6], linestyle="--", linewidth=1)
            axis.set(title=title, ylabel="RMSE over the sample's")
            if "Laplace" in models:
                axis.set_yscale("log")
        return figure


def _coverage(cells: pl.DataFrame, m: int, bound: float, number: int) -> Drawn:
    near = pl.col("epsilon").sub(2 * m * bound).abs().lt(1e-6)
    part = cells.filter(near & (pl.col("field") != "All"), mechanism="Weighted", m=m)
    if not part.height:
        return {}
    with _panels(2) as (figure, (axes,)):
        for axis, (statistic, title) in zip(axes, STATISTICS.items(), strict=True):
            for model in ("FBS", "FBP"):
                for formulas, marker in (("paper", "o"), ("recommended", "+")):
                    chosen = part.filter(model=model, formulas=formulas, statistic=statistic)
                    x, y = chosen["coverage"].to_numpy(), chosen["cv"].to_numpy()
                    name = f"{model}, {formulas}"
                    axis.plot(x, y, marker, color=COLOUR[model], markersize=4, label=name)
            axis.axvline(0.95, color=us.COLOURS[6], linestyle="--", linewidth=1)
            axis.set(title=title, xlabel="coverage", ylabel="CV", xlim=(0, 1.03))
        axes[0].legend(fontsize=7)
        return {f"figure{number}": figure}
