"""The figures of the study of paper C: one row per mechanism and epsilon, all on one axis.

The paper draws a panel per epsilon and repeats the mechanisms that have none; here each stands
once, and epsilons lie under each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import gaussian_kde, pareto

import understudy as us

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Vector = NDArray[np.float64]

GREY, BLUE, ORANGE, GREEN, PINK, SKY, VERMILION = us.COLOURS
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
HEIGHT = 0.27  # inches of a row
WIDTH = 5.4


def violin_figure(
    violins: Sequence[tuple[str, str, Vector]],
    axis_label: str,
    line: tuple[float, str] | None = None,
    targets: Sequence[float | None] | None = None,
    digits: int = 3,
) -> Figure:
    """`violins` are (row label, mechanism, values over replicates); `line` is (place, name).

    `targets` marks a place in each row: epsilon/2, which a bound should not exceed. The number at
    the right is the mean.
    """
    from matplotlib.figure import Figure

    replicates = max(len(values) for _, _, values in violins)
    with us.house_style():
        places = _places([mechanism for _, mechanism, _ in violins])
        figure = Figure(figsize=(WIDTH, 1.2 + HEIGHT * places[-1]), layout="constrained")
        axis = figure.subplots()
        axis.grid(axis="x")
        for place, (_, mechanism, values) in zip(places, violins, strict=True):
            _violin(axis, place, values, COLOUR[mechanism])
            axis.text(
                1.02, place, f"{values.mean():.{digits}f}", transform=axis.get_yaxis_transform(),
                va="center", fontsize=9, color="#333333",
            )  # fmt: skip
        axis.text(1.02, 1.005, "mean", transform=axis.transAxes, va="bottom", fontsize=9,
                  color="#555555")  # fmt: skip
        if line is not None:
            axis.axvline(line[0], color="black", linestyle="--", linewidth=1, label=line[1])
        if targets is not None:
            marked = [(t, p) for t, p in zip(targets, places, strict=True) if t is not None]
            axis.plot(*zip(*marked, strict=True), "|", color="black", markersize=14, zorder=1.5,
                      markeredgewidth=1.6, label="ε/2", linestyle="none")  # fmt: skip
        axis.set_yticks(places, [name for name, _, _ in violins])
        axis.set_ylim(places[-1] + 0.8, -0.8)
        axis.tick_params(axis="y", length=0)
        axis.set_xlabel(axis_label)
        if line is not None or targets is not None:
            figure.legend(loc="outside upper center", frameon=False, fontsize=9)
        us.figure_footer(figure, f"{replicates} replicates; dot: median, line: smallest to largest")
    return figure


def density_figure(salaries: pl.DataFrame, epsilons: dict[str, str]) -> Figure:
    """C Figure 9: each synthetic file's density over the confidential one, one panel each."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    names = [name for name in salaries.columns if name != "Data"]
    grid = np.linspace(0, 300_000, 300)
    data = _density(salaries["Data"].to_numpy(), grid)
    with us.house_style():
        rows = -(-len(names) // 2)
        figure = Figure(figsize=(WIDTH, 0.8 + 1.35 * rows), layout="constrained")
        axes = figure.subplots(rows, 2, sharex=True, sharey=True, squeeze=False)
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
    from matplotlib.figure import Figure

    looks = {
        "posterior": (BLUE, "-", "posterior"),
        "censored": (VERMILION, "-", "Censor_uw, ε 1.6"),
        "reference-censored": (GREEN, "--", "ReferenceCensored, ε 1.6"),
    }
    with us.house_style():
        figure = Figure(figsize=(WIDTH, 5.2), layout="constrained")
        axes = figure.subplots(2, 2)
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
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
        us.figure_footer(figure, f"one simulated file, Beta(0.5, 2), n = {n}")
    return figure


def _places(mechanisms: list[str]) -> list[float]:
    """Rows one apart, with a gap where the mechanism changes."""
    places, at = [], 0.0
    for number, mechanism in enumerate(mechanisms):
        changes = number > 0 and mechanism != mechanisms[number - 1]
        at += (1.35 if changes else 1.0) if number else 0.0
        places.append(at)
    return places


def _violin(axis: Any, place: float, values: Vector, colour: str) -> None:
    low, high = float(values.min()), float(values.max())
    spread = high - low
    if len(values) > 2 and spread > 1e-9 * max(abs(high), 1e-300):
        grid = np.linspace(low, high, 120)
        density = gaussian_kde(values)(grid)
        half = 0.42 * density / density.max()
        axis.fill_between(grid, place - half, place + half, color=colour, alpha=0.55, linewidth=0)
    axis.plot([low, high], [place, place], color=colour, linewidth=1.2)
    axis.plot(np.median(values), place, "o", color=colour, markersize=5, markeredgecolor="white",
              markeredgewidth=0.7)  # fmt: skip


def _density(values: Vector, grid: Vector) -> Vector:
    return np.asarray(gaussian_kde(values)(grid), dtype=np.float64)
