"""The figures of the study of paper C: one row per mechanism and epsilon, all on one axis.

The paper draws a panel per epsilon and repeats the mechanisms that have none; here each stands
once, and epsilons lie under each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import gaussian_kde, pareto

import understudy as us
from understudy_studies import drawing
from understudy_studies.censoring.replicate import UNREFITTED, label
from understudy_studies.censoring.tables import KEYS, NAMES, VIOLINS, true_statistics
from understudy_studies.drawing import Figure, panels
from understudy_studies.framework import Row, Vector

# in the order in which mechanisms stand under each other
COLOUR = {
    "Data": "#222222",
    "Unweighted": drawing.GREY,
    "Weighted": drawing.BLUE,
    "Weighted-e": drawing.SKY,
    UNREFITTED: drawing.SKY,
    "Censor_w": drawing.ORANGE,
    "Censor_uw": drawing.VERMILION,
    "PH": drawing.PINK,
    "PH √n": drawing.PINK,
    "PH ln n": drawing.PINK,
    "ReferenceCensored": drawing.GREEN,
}

MEASURES = {"u_m", "u_a", "bound"}
DIGITS = {"u_a": 4, "q15": 4, "bound": 2}
HEIGHT = 0.27  # inches of a row
WIDTH = 5.4


def draw_figures(rows: pl.DataFrame, draws: pl.DataFrame, n: int) -> dict[str, Figure]:
    """Every figure of the paper's simulation."""
    figures = {"figure-01": parameter_figure(draws, n)}
    order = pl.col("mechanism").cast(pl.Enum(list(COLOUR)))
    groups = list(rows.sort(order, maintain_order=True).group_by(KEYS, maintain_order=True))
    for name, (column, comparison) in VIOLINS.items():
        chosen = [(k, part) for k, part in groups if _belongs(k, column, comparison)]
        figures[name] = violin_figure(column, chosen)
    return figures


def _promise(row: Row) -> str:
    if row["mechanism"].startswith("Weighted") and row["bound"] is not None:
        return f"ε {row['privacy']:.1f}, asymptotic"
    return "no promise" if row["epsilon"] is None else f"ε {row['epsilon']:g}"


def _belongs(key: Any, column: str, comparison: str) -> bool:
    mechanism, epsilon, c1 = key
    if mechanism == "Data":
        return column not in MEASURES
    if mechanism == "ReferenceCensored":
        return True
    if comparison.startswith("downscaling"):
        scaled = mechanism in ("Weighted", "Weighted-e", UNREFITTED, "Censor_w")
        beside = mechanism == "Censor_uw" and "Censor_uw" in comparison
        return (scaled or beside) and epsilon in (None, 4.0)
    if mechanism == "Unweighted":
        return column != "bound" or comparison == "with unweighted"
    return c1 == 1 and (comparison != "epsilon 5" or epsilon in (None, 5.0))


def violin_figure(column: str, groups: Sequence[tuple[Any, pl.DataFrame]]) -> Figure:
    """`groups` are (mechanism, epsilon, c1) with the rows of its replicates.

    Statistics have a line at their true value, and bounds a mark in each row: epsilon/2, which they
    should not exceed. The number at the right is the mean.
    """
    violins = {key: part[column].drop_nulls().to_numpy() for key, part in groups}
    violins = {key: values for key, values in violins.items() if len(values)}
    heights = _heights([mechanism for mechanism, *_ in violins])
    truth = true_statistics().get(column)
    with panels(1, 1, WIDTH, 1.2 + HEIGHT * heights[-1]) as (figure, ((axis,),)):
        axis.grid(axis="x")
        for height, ((mechanism, *_), values) in zip(heights, violins.items(), strict=True):
            _violin(axis, height, values, COLOUR[mechanism])
            axis.text(
                1.02, height, f"{values.mean():.{DIGITS.get(column, 3)}f}", va="center", fontsize=9,
                transform=axis.get_yaxis_transform(), color="#333333",
            )  # fmt: skip
        axis.text(1.02, 1.005, "mean", transform=axis.transAxes, va="bottom", fontsize=9,
                  color="#555555")  # fmt: skip
        if truth is not None:
            name = "Beta(0.5, 3) itself"
            axis.axvline(truth, color="black", linestyle="--", linewidth=1, label=name)
        if column == "bound":
            marks = [(e / 2, h) for (_, e, _), h in zip(violins, heights, strict=True) if e]
            axis.plot(*zip(*marks, strict=True), "|", color="black", markersize=14, zorder=1.5,
                      markeredgewidth=1.6, label="ε/2", linestyle="none")  # fmt: skip
        names = [label(dict(zip(KEYS, key, strict=True))) for key in violins]
        axis.set_yticks(heights, names)
        axis.set_ylim(heights[-1] + 0.8, -0.8)
        axis.tick_params(axis="y", length=0)
        axis.set_xlabel(NAMES[column])
        if truth is not None or column == "bound":
            figure.legend(loc="outside upper center", frameon=False, fontsize=9)
        most = max(map(len, violins.values()))
        us.figure_footer(figure, f"{most} replicates; dot: median, line: smallest to largest")
    return figure


def density_figure(salaries: pl.DataFrame, applied: pl.DataFrame) -> Figure:
    """C Figure 9: each synthetic file's density over the confidential one, one panel each."""
    epsilons = {label(row): _promise(row) for row in applied.iter_rows(named=True)}
    names = [name for name in salaries.columns if name != "Data"]
    grid = np.linspace(0, 300_000, 300)
    data = _density(salaries["Data"].to_numpy(), grid)
    rows = -(-len(names) // 2)
    with panels(rows, 2, WIDTH, 0.8 + 1.35 * rows, sharex=True, sharey=True) as (figure, axes):
        for axis, name in zip(axes.ravel(), names, strict=False):
            made = _density(salaries[name].to_numpy(), grid)
            axis.fill_between(grid / 1000, data, color="#d4d4d4", linewidth=0)
            axis.plot(grid / 1000, made, color=COLOUR[name.split(",")[0]], linewidth=1.8)
            axis.set_title(f"{name.split(',')[0]} ({epsilons[name]})", fontsize=9.5, loc="left")
            axis.set_yticks([])
            axis.set_ylim(0, None)
        for axis in axes.ravel()[len(names) :]:
            axis.set_visible(False)
        for axis in (axes[-1][0], axes.ravel()[len(names) - 1]):
            axis.xaxis.set_major_formatter("{x:g}")
            axis.tick_params(labelbottom=True)
        us.figure_footer(
            figure, "salary in thousands of dollars; grey: the (simulated) confidential file"
        )
    return figure


def parameter_figure(draws: pl.DataFrame, n: int) -> Figure:
    """C Figure 1: prior, posterior and censored posterior, as they are and centred."""
    looks = {
        "posterior": (drawing.BLUE, "-", "posterior"),
        "censored": (drawing.VERMILION, "-", "Censor_uw, ε 1.6"),
        "reference-censored": (drawing.GREEN, "--", "ReferenceCensored, ε 1.6"),
    }
    with panels(2, 2, WIDTH, 5.2) as (figure, axes):
        for (raw, centred), (name, title) in zip(
            axes, (("phi", "φ (mean of y)"), ("lambda", "λ (concentration)")), strict=True
        ):
            ends = float(draws[name].min()), float(draws[name].max())  # type: ignore[arg-type]
            room = 0.15 * (ends[1] - ends[0])
            grid = np.linspace(max(0.0, ends[0] - room), ends[1] + room, 400)
            prior = np.ones_like(grid) if name == "phi" else pareto.pdf(grid, 1.5, scale=0.1)
            raw.plot(grid, prior, color=drawing.GREY, linestyle=":", linewidth=1.8, label="prior")
            for which, (colour, style, label) in looks.items():
                values = draws.filter(density=which)[name].to_numpy()
                if not len(values):
                    continue
                raw.plot(grid, _density(values, grid), color=colour, linestyle=style, label=label)
                reach = np.linspace(-0.5, 0.5, 400) * (ends[1] - ends[0]) * 0.6
                centred.plot(
                    reach, _density(values - values.mean(), reach), color=colour, linestyle=style
                )
            raw.set_title(title, fontsize=10, loc="left")
            centred.set_title(f"{title}, centred", fontsize=10, loc="left")
            for axis in (raw, centred):
                axis.locator_params(axis="x", nbins=5)
                axis.set_yticks([])
                axis.set_ylim(0, None)
        drawing.legend_above(figure, axes[0][0], 2)
        us.figure_footer(figure, f"one simulated file, Beta(0.5, 2), n = {n}")
    return figure


def _heights(mechanisms: list[str]) -> list[float]:
    """Rows one apart, with a gap where the mechanism changes."""
    steps = (1.0 if below == above else 1.35 for above, below in pairwise(mechanisms))
    return list(accumulate(steps, initial=0.0))


def _violin(axis: Any, height: float, values: Vector, colour: str) -> None:
    low, high = float(values.min()), float(values.max())
    spread = high - low
    if len(values) > 2 and spread > 1e-9 * max(abs(high), 1e-300):
        grid = np.linspace(low, high, 120)
        density = gaussian_kde(values)(grid)
        half = 0.42 * density / density.max()
        axis.fill_between(grid, height - half, height + half, color=colour, alpha=0.55, linewidth=0)
    axis.plot([low, high], [height, height], color=colour, linewidth=1.2)
    axis.plot(np.median(values), height, "o", color=colour, markersize=5, markeredgecolor="white",
              markeredgewidth=0.7)  # fmt: skip


def _density(values: Vector, grid: Vector) -> Vector:
    return np.asarray(gaussian_kde(values)(grid), dtype=np.float64)
