"""T's Figures 1 to 17, from the replicates of the private-tables study."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.drawing import Figure, legend_above, panels
from understudy_studies.framework import Vector, published
from understudy_studies.private_tables.tables import WITH_SE, of_sample

STATISTICS = {"count": "counts", "mean(salary)": "mean salaries"}
COLOUR = {"FBS": us.COLOURS[2], "FBP": us.COLOURS[1], "Laplace": us.COLOURS[0]}
TICKS = (0.5, 1, 2, 5, 10, 20, 50)
Drawn = dict[str, Figure]


def draw_figures(
    rows: pl.DataFrame, cells: pl.DataFrame, pictures: dict[str, Any], applied: Any
) -> Drawn:
    """All figures that the data allow, in T's order; `applied` is the application, or None."""
    drawn = {}
    if applied:
        drawn["figure01"] = _bounds(applied["bounds"])
        drawn["figure02"] = _application(pl.DataFrame(applied["rows"]))
    drawn |= {
        "figure03": _bounds(pictures),
        **_weights(pictures),
        **_ratios(rows.filter(replicate=0)),
    }
    for m, bound, number, *_ in published("private-tables", "interval-lengths").iter_rows():
        part = cells.filter(
            pl.col("field") != "All", mechanism="Weighted", m=m, epsilon=round(2 * m * bound, 6)
        )
        if part.height:
            drawn[f"figure{number}"] = _coverage(part)
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


def _bounds(bounds: dict[str, Any]) -> Figure:
    with _panels(2) as (figure, (axes,)):
        for axis, model in zip(axes, ("FBS", "FBP"), strict=True):
            fits = {"unweighted": f"{model}_unweighted", "weighted": f"{model}_bounds"}
            _violins(axis, {f"{model} {fit}": np.array(bounds[key]) for fit, key in fits.items()})
            axis.set_ylabel("largest |contribution| of a record")
        return figure


def _application(rows: pl.DataFrame) -> Figure:
    own = pl.col("estimate").filter(pl.col("method") == "Sample").first()
    error = pl.col("estimate") - own.over("field", "gender", "statistic")
    joined = rows.with_columns(rmse=(error**2 + pl.col("se") ** 2).sqrt())
    with _panels(2) as (figure, (axes,)):
        for axis, (statistic, title) in zip(axes, STATISTICS.items(), strict=True):
            shown = ("FBS paper", "FBP paper", "FBS", "FBP", "Laplace")
            parts = {method: joined.filter(statistic=statistic, method=method) for method in shown}
            _violins(axis, {method: part["rmse"].to_numpy() for method, part in parts.items()})
            axis.tick_params(axis="x", labelsize=7)
            axis.set(title=title, ylabel="RMSE against the sample", yscale="log")
        return figure


def _weights(pictures: dict[str, Any]) -> Drawn:
    drawn = {}
    shown = {
        "figure04": ("FBS, smoothed", "FBP, smoothed"),
        "figure08": ("FBS, synthesized", "FBS, smoothed"),
        "figure09": ("FBP, synthesized", "FBP, smoothed"),
    }
    for name, titles in shown.items():
        with _panels(3) as (figure, (axes,)):
            for axis, title in zip(axes, ("confidential", *titles), strict=True):
                model, _, weights = title.partition(", ")
                y, w = pictures[f"{model}_y"], pictures[f"{model}_{weights or 'w'}"]
                axis.plot(y, w, ".", markersize=3, color=us.COLOURS[1], alpha=0.5)
                axis.set(title=title, xlabel="salary", ylabel="weight", xscale="log", yscale="log")
                axis.xaxis.set_minor_formatter("")
                axis.yaxis.set_minor_formatter("")
            drawn[name] = figure
    return drawn


def _ratios(first: pl.DataFrame) -> Drawn:
    """Figures 5 to 7: RMSE of one sample's tables over the sample's own, 27 cells."""
    rows = first.with_columns(rmse=WITH_SE).with_columns(ratio=pl.col("rmse") / of_sample("rmse"))
    rows = rows.filter(formulas="paper")
    drawn = {"figure05": _ratio_figure({"": rows.filter(epsilon=10.8)}, list(COLOUR))}
    for name, bound in (("figure06", 1.8), ("figure07", 3.4)):
        parts = {f"m = {m}": rows.filter(m=m, epsilon=round(2 * m * bound, 6)) for m in (1, 3, 5)}
        parts = {label: part for label, part in parts.items() if part.height}
        if parts:
            drawn[name] = _ratio_figure(parts, ["FBS", "FBP"])
    return drawn


def _ratio_figure(parts: dict[str, pl.DataFrame], models: list[str]) -> Figure:
    with _panels(2) as (figure, (axes,)):
        for axis, (statistic, title) in zip(axes, STATISTICS.items(), strict=True):
            values = {
                f"{model} {label}".strip(): part.filter(statistic=statistic, model=model)["ratio"]
                for label, part in parts.items()
                for model in models
            }
            _violins(axis, {name: ratios.to_numpy() for name, ratios in values.items()})
            axis.tick_params(axis="x", labelsize=7)
            axis.axhline(1.0, color=us.COLOURS[6], linestyle="--", linewidth=1)
            axis.set(title=title, ylabel="RMSE over the sample's")
            if "Laplace" in models:
                axis.set_yscale("log")
        return figure


def _coverage(cells: pl.DataFrame) -> Figure:
    with _panels(2) as (figure, (axes,)):
        for axis, (statistic, title) in zip(axes, STATISTICS.items(), strict=True):
            for model in ("FBS", "FBP"):
                for formulas, marker in (("paper", "o"), ("recommended", "+")):
                    part = cells.filter(model=model, formulas=formulas, statistic=statistic)
                    look = {
                        "color": COLOUR[model],
                        "markersize": 4,
                        "label": f"{model}, {formulas}",
                    }
                    axis.plot(part["coverage"], part["cv"], marker, **look)
            axis.axvline(0.95, color=us.COLOURS[6], linestyle="--", linewidth=1)
            axis.set(title=title, xlabel="coverage", ylabel="CV", xlim=(0, 1.03))
        axes[0].legend(fontsize=7)
        return figure


def corrections_figure(table: pl.DataFrame) -> Figure:
    """RMSE over the sample's for each model and epsilon: Laplace, files alone, and corrected."""
    files = table.filter(mechanism="Weighted", statistic="count")
    groups = files.select("model", "epsilon").sort("epsilon", descending=True).rows()
    looks = {
        "Laplace table": ("Laplace", "s", COLOUR["Laplace"]),
        "files alone": ("Weighted", "o", COLOUR["FBP"]),
        "files, corrected": ("corrected", "D", COLOUR["FBS"]),
    }
    with panels(2, 1, 5.4, 2.0 + len(groups), sharex=True) as (figure, grid):
        axes = grid[:, 0]
        for axis, (statistic, title) in zip(axes, STATISTICS.items(), strict=True):
            for step, (label, (mechanism, marker, colour)) in enumerate(looks.items()):
                for at, (model, epsilon) in enumerate(groups):
                    own = "Laplace" if mechanism == "Laplace" else model
                    row = table.filter(
                        statistic=statistic, mechanism=mechanism, model=own, epsilon=epsilon
                    ).row(0, named=True)
                    axis.errorbar(
                        row["rmse_ratio_16"], at + 0.2 * (step - 1), fmt=marker, color=colour,
                        xerr=2 * (row["rmse_ratio_16_error"] or 0.0), markersize=5,
                        label=label if at == 0 else None,
                    )  # fmt: skip
            axis.set_yticks(range(len(groups)), [f"{name},\nε = {e:g}" for name, e in groups])
            axis.axvline(1.0, color=us.COLOURS[6], linestyle="--", linewidth=1)
            axis.set(title=title, xscale="log")
            axis.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
            axis.xaxis.set_minor_formatter("")
            axis.set_ylim(len(groups) - 0.5, -0.5)  # the first on top
            axis.grid(axis="x")
        axes[-1].set_xlabel("RMSE over the confidential sample's")
        legend_above(figure, axes[0], 3)
        return figure
