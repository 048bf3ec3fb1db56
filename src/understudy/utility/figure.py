"""Figure of utility: distribution functions on the left, intervals on the right (R Figure 10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from understudy.drawing import COLOURS, INTERNAL, footer, house_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]


def utility_figure(
    original: dict[str, Floats], made: dict[str, list[Floats]], intervals: pl.DataFrame
) -> Figure:
    """A row per column: the ECDFs, and synthetic intervals against the confidential ones.

    Intervals are drawn on one scale for all statistics: 0 is the confidential estimate, -1
    and 1 the limits of its interval.
    """
    from matplotlib.figure import Figure

    names = list(original)
    with house_style():
        figure = Figure(figsize=(9.0, 0.8 + 2.9 * len(names)), layout="constrained")
        axes = figure.subplots(len(names), 2, squeeze=False)
        for (left, right), name in zip(axes, names, strict=True):
            _ecdfs(left, name, original[name], made[name])
            _intervals(right, intervals.filter(pl.col("column") == name))
        axes[-1][1].set_xlabel(
            "distance from the confidential estimate\n(1 = half-length of its 95 % interval)"
        )
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
        footer(figure, INTERNAL)
    return figure


def _ecdfs(axis: Any, name: str, original: Floats, made: Sequence[Floats]) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    pooled = np.concatenate([original, *made])
    low, high = np.quantile(pooled, [0.005, 0.995])
    grid = np.linspace(low, high, 500)
    plural = "s" if len(made) > 1 else ""
    axis.plot(
        grid,
        _ecdf(original, grid),
        color="black",
        alpha=0.35,
        linewidth=4,
        label="confidential data",
    )
    for number, values in enumerate(made):
        axis.plot(
            grid,
            _ecdf(values, grid),
            color=COLOURS[1],
            alpha=max(0.3, 1 / len(made)),
            linewidth=1.1,
            label=f"{len(made)} synthetic data set{plural}" if number == 0 else None,
        )
    axis.set_title(name, loc="left", fontsize=11)
    axis.set_ylabel("share at or below")
    axis.set_xlim(low, high)
    axis.set_ylim(0, 1)
    axis.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.grid()


def _intervals(axis: Any, rows: pl.DataFrame) -> None:
    beside = axis.get_yaxis_transform()  # x in shares of the axis, y in rows
    axis.axvspan(-1, 1, color="#dddddd", linewidth=0)
    axis.axvline(0, color="black", linewidth=1)
    for position, row in enumerate(rows.iter_rows(named=True)):
        centre, half = row["confidential"], (row["upper"] - row["lower"]) / 2
        half = half if half > 0 else 1.0
        low, middle, high = (
            (row[key] - centre) / half
            for key in ("synthetic_lower", "synthetic", "synthetic_upper")
        )
        axis.plot([low, high], [position] * 2, color=COLOURS[1], linewidth=3, solid_capstyle="butt")
        axis.plot(middle, position, "o", color=COLOURS[1], markersize=6)
        axis.text(1.02, position, f"{row['overlap']:.2f}", transform=beside, va="center")
    axis.text(1.02, 1.02, "overlap", transform=axis.transAxes, va="bottom", color="#555555")
    axis.set_yticks(range(rows.height), rows["statistic"].to_list())
    axis.set_ylim(rows.height - 0.4, -0.6)
    low, high = axis.get_xlim()
    axis.set_xlim(min(low, -1.5), max(high, 1.5))


def _ecdf(values: Floats, grid: Floats) -> Floats:
    below: Floats = np.searchsorted(np.sort(values), grid, side="right") / len(values)
    return below
