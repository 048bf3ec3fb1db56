"""The figures of the study of paper C: one row per mechanism and epsilon, all on one axis.

The paper draws a panel per epsilon and repeats the mechanisms that have none; here each stands
once, and epsilons lie under each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import gaussian_kde, pareto

import understudy as us
from understudy_studies.censoring.replicate import label
from understudy_studies.censoring.tables import (
    NAMES,
    VIOLINS,
    Key,
    keys,
    true_statistics,
    values,
)
from understudy_studies.drawing import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    SKY,
    VERMILION,
    Figure,
    legend_above,
    panels,
)
from understudy_studies.framework import Row, Vector

COLOUR = {
    "Data": "#222222",
    "Unweighted": GREY,
    "Weighted": BLUE,
    "Weighted-e": SKY,
    "Censor_w": ORANGE,
    "Censor_uw": VERMILION,
    "PH": PINK,
    "PH √n": PINK,
    "PH ln n": PINK,
    "ReferenceCensored": GREEN,
}

MEASURES = {"u_m", "u_a", "bound"}
ORDER = (
    "Data", "Unweighted", "Weighted", "Weighted-e", "Censor_w", "Censor_uw", "PH", "PH ln n",
    "ReferenceCensored",
)  # fmt: skip

HEIGHT = 0.27  # inches of a row
WIDTH = 5.4


def draw_figures(
    rows: pl.DataFrame, applied: pl.DataFrame, salaries: pl.DataFrame, draws: pl.DataFrame, n: int
) -> dict[str, Figure]:
    """Every figure of the paper that this study makes."""
    figures = {"figure-01": parameter_figure(draws, n)}
    for name, (column, comparison) in VIOLINS.items():
        chosen = [key for key in _ordered(rows) if _belongs(key, column, comparison)]
        shown = {key: numbers for key in chosen if len(numbers := values(rows, key, column))}
        measured = column in MEASURES
        figures[name] = violin_figure(
            [(label_of(key), key[0], numbers) for key, numbers in shown.items()],
            NAMES[column],
            None if measured else (true_statistics()[column], "Beta(0.5, 3) itself"),
            [e and e / 2 for _, e, _ in shown] if column == "bound" else None,
            digits=4 if column in ("u_a", "q15") else 2 if column == "bound" else 3,
        )
    epsilons = {label(row): _promise(row) for row in applied.iter_rows(named=True)}
    figures["figure-09"] = density_figure(salaries, epsilons)
    return figures


def _promise(row: Row) -> str:
    if row["mechanism"] in ("Weighted", "Weighted-e") and row["bound"] is not None:
        return f"ε {row['privacy']:.1f}, asymptotic"
    return "no promise" if row["epsilon"] is None else f"ε {row['epsilon']:g}"


def _ordered(rows: pl.DataFrame) -> list[Key]:
    return sorted(keys(rows), key=lambda key: ORDER.index(key[0]))


def _belongs(key: Key, column: str, comparison: str) -> bool:
    mechanism, epsilon, c1 = key
    if mechanism == "Data":
        return column not in MEASURES
    if mechanism == "ReferenceCensored":
        return True
    if comparison.startswith("downscaling"):
        scaled = mechanism in ("Weighted", "Weighted-e", "Censor_w")
        beside = mechanism == "Censor_uw" and "Censor_uw" in comparison
        return (scaled or beside) and epsilon in (None, 4.0)
    if mechanism == "Unweighted":
        return column != "bound" or comparison == "with unweighted"
    return c1 == 1 and (comparison != "epsilon 5" or epsilon in (None, 5.0))


def label_of(key: Key) -> str:
    mechanism, epsilon, c1 = key
    return label({"mechanism": mechanism, "epsilon": epsilon, "c1": c1})


def violin_figure(
    violins: Sequence[tuple[str, str, Vector]],
    axis_label: str,
    line: tuple[float, str] | None = None,
    targets: Sequence[float | None] | None = None,
    digits: int = 3,
) -> Figure:
    """`violins` are (row label, mechanism, values over replicates); `line` is (value, name).

    `targets` marks a place in each row: epsilon/2, which a bound should not exceed. The number at
    the right is the mean.
    """
    replicates = max(len(values) for _, _, values in violins)
    heights = _heights([mechanism for _, mechanism, _ in violins])
    with panels(1, 1, WIDTH, 1.2 + HEIGHT * heights[-1]) as (figure, ((axis,),)):
        axis.grid(axis="x")
        for height, (_, mechanism, values) in zip(heights, violins, strict=True):
            _violin(axis, height, values, COLOUR[mechanism])
            axis.text(
                1.02, height, f"{values.mean():.{digits}f}", transform=axis.get_yaxis_transform(),
                va="center", fontsize=9, color="#333333",
            )  # fmt: skip
        axis.text(1.02, 1.005, "mean", transform=axis.transAxes, va="bottom", fontsize=9,
                  color="#555555")  # fmt: skip
        if line is not None:
            axis.axvline(line[0], color="black", linestyle="--", linewidth=1, label=line[1])
        if targets is not None:
            marked = [(t, p) for t, p in zip(targets, heights, strict=True) if t is not None]
            axis.plot(*zip(*marked, strict=True), "|", color="black", markersize=14, zorder=1.5,
                      markeredgewidth=1.6, label="ε/2", linestyle="none")  # fmt: skip
        axis.set_yticks(heights, [name for name, _, _ in violins])
        axis.set_ylim(heights[-1] + 0.8, -0.8)
        axis.tick_params(axis="y", length=0)
        axis.set_xlabel(axis_label)
        if line is not None or targets is not None:
            figure.legend(loc="outside upper center", frameon=False, fontsize=9)
        us.figure_footer(figure, f"{replicates} replicates; dot: median, line: smallest to largest")
    return figure


def density_figure(salaries: pl.DataFrame, epsilons: dict[str, str]) -> Figure:
    """C Figure 9: each synthetic file's density over the confidential one, one panel each."""
    from matplotlib.ticker import StrMethodFormatter

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
            axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.tick_params(labelbottom=True)
        us.figure_footer(
            figure, "salary in thousands of dollars; grey: the (simulated) confidential file"
        )
    return figure


def parameter_figure(draws: pl.DataFrame, n: int) -> Figure:
    """C Figure 1: prior, posterior and censored posterior, as they are and centred."""
    looks = {
        "posterior": (BLUE, "-", "posterior"),
        "censored": (VERMILION, "-", "Censor_uw, ε 1.6"),
        "reference-censored": (GREEN, "--", "ReferenceCensored, ε 1.6"),
    }
    with panels(2, 2, WIDTH, 5.2) as (figure, axes):
        for (raw, centred), (name, title) in zip(
            axes, (("phi", "φ (mean of y)"), ("lambda", "λ (concentration)")), strict=True
        ):
            ends = float(draws[name].min()), float(draws[name].max())  # type: ignore[arg-type]
            room = 0.15 * (ends[1] - ends[0])
            grid = np.linspace(max(0.0, ends[0] - room), ends[1] + room, 400)
            prior = np.ones_like(grid) if name == "phi" else pareto.pdf(grid, 1.5, scale=0.1)
            raw.plot(grid, prior, color=GREY, linestyle=":", linewidth=1.8, label="prior")
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
        legend_above(figure, axes[0][0], 2)
        us.figure_footer(figure, f"one simulated file, Beta(0.5, 2), n = {n}")
    return figure


def _heights(mechanisms: list[str]) -> list[float]:
    """Rows one apart, with a gap where the mechanism changes."""
    heights, at = [], 0.0
    for number, mechanism in enumerate(mechanisms):
        changes = number > 0 and mechanism != mechanisms[number - 1]
        at += (1.35 if changes else 1.0) if number else 0.0
        heights.append(at)
    return heights


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
