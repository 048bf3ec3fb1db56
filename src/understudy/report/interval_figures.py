"""Estimates with their intervals, one row per cell: confidential and released, or released alone.

At most 40 rows are drawn; beyond that the rows with the largest differences, and for the public
figure the first rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.drawing import INTERNAL, footer, house_style, svg_text
from understudy.report.figures import CONFIDENTIAL, SYNTHETIC, WIDTH
from understudy.report.plain import finite
from understudy.tables.tabulate import ALL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 40

Row = dict[str, Any]  # label, confidential (or None) and released: estimate, lower, upper


def chosen_rows(
    cells: list[dict[str, Any]], statistic: str, adds_up: bool = False
) -> list[dict[str, Any]]:
    """The cells of a statistic that are drawn, in the table's order.

    Margins of what adds up (counts, totals) are left out, for beside them the cells would be too
    small to see; so is a regression's intercept.
    """
    rows = [
        cell
        for cell in cells
        if cell["statistic"] == statistic and finite(cell["released"]["estimate"]) is not None
    ]
    if adds_up:
        rows = [cell for cell in rows if not is_margin(cell["cell"])] or rows
    if statistic == "coefficient":
        rows = [cell for cell in rows if cell["cell"] != "Intercept"] or rows
    if len(rows) <= MOST_ROWS:
        return rows
    worst = sorted(rows, key=lambda cell: -abs(finite(cell["difference"]) or 0.0))[:MOST_ROWS]
    kept = {id(cell) for cell in worst}
    return [cell for cell in rows if id(cell) in kept]


def is_margin(label: str) -> bool:
    return ALL in label.split(", ")


def comparison_figure(rows: list[dict[str, Any]], axis_label: str) -> str:
    """Confidential and released estimates with 95 % intervals, one row per cell."""
    figure = _figure(
        [
            {"label": r["cell"], "confidential": r["confidential"], "released": r["released"]}
            for r in rows
        ],
        axis_label,
    )
    with house_style():
        footer(figure, INTERNAL)
    return svg_text(figure)


def released_figure(rows: list[Row], axis_label: str) -> str:
    """Released estimates with 95 % intervals alone: for the public page."""
    return svg_text(_figure(rows[:MOST_ROWS], axis_label))


def _figure(rows: list[Row], axis_label: str) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    both = any(row["confidential"] is not None for row in rows)
    with house_style():
        figure = Figure(figsize=(WIDTH, 1.3 + (0.34 if both else 0.27) * len(rows)))
        figure.set_layout_engine("constrained")
        axis = figure.subplots()
        shown = _range(rows)
        for position, row in enumerate(rows):
            if position % 2:
                axis.axhspan(position - 0.5, position + 0.5, color="#f2f2f2", lw=0, zorder=0)
            sides = [("confidential", CONFIDENTIAL, "s", -0.17), ("released", SYNTHETIC, "o", 0.17)]
            for key, colour, marker, shift in sides:
                numbers = row[key]
                if numbers is None or finite(numbers["estimate"]) is None:
                    continue
                at = position + (shift if both else 0.0)
                low, high = finite(numbers["lower"]), finite(numbers["upper"])
                if low is not None and high is not None:
                    axis.plot([low, high], [at, at], color=colour, lw=2.2, solid_capstyle="butt")
                axis.plot(numbers["estimate"], at, marker, color=colour, markersize=4.5)
        axis.set_xlim(*shown)
        if shown[0] < 0 < shown[1]:
            axis.axvline(0, color="black", lw=0.8)
        axis.set_yticks(range(len(rows)), [_label(row["label"]) for row in rows])
        axis.tick_params(axis="y", length=0)
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.set_xlabel(axis_label)
        axis.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        axis.grid(axis="x")
        if both:
            for colour, marker, name in (
                (CONFIDENTIAL, "s", "confidential"),
                (SYNTHETIC, "o", "released"),
            ):
                axis.plot([], [], marker, ls="-", color=colour, lw=2.2, label=name)
            figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    return figure


def _range(rows: list[Row]) -> tuple[float, float]:
    """What the axis spans: all estimates, and all intervals but those ten times as wide as most.

    The combining rule for full synthesis can leave next to no degrees of freedom, and intervals
    that would make all others invisible; those run out of the picture.
    """
    sides = [row[key] for row in rows for key in ("confidential", "released") if row[key]]
    points = [value for side in sides if (value := finite(side["estimate"])) is not None]
    spans = [(finite(side["lower"]), finite(side["upper"])) for side in sides]
    whole = [(low, high) for low, high in spans if low is not None and high is not None]
    usual = float(np.median([high - low for low, high in whole])) if whole else 0.0
    for low, high in whole:
        if high - low <= 10 * usual:
            points += [low, high]
    low, high = min(points, default=0.0), max(points, default=1.0)
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin


def _label(text: str, most: int = 26) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
