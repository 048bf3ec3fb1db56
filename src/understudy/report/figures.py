"""Figures of the internal report: evidence -> SVG text; the same evidence gives the same bytes.

Figures are narrow, so that their words are readable on a phone, and stack what others put side by
side. Figures of estimates with intervals are in `interval_figures.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from understudy.drawing import COLOURS, INTERNAL, footer, house_style, svg_text
from understudy.report.numbers import percent
from understudy.report.plain import finite

WIDTH = 5.0  # inches; a phone shows it at about three quarters
CONFIDENTIAL, SYNTHETIC, LIMIT, CLAIM = COLOURS[0], COLOURS[1], COLOURS[6], COLOURS[3]
MOST_PANELS = 6


def bounds_figure(records: dict[str, Any]) -> str:
    """Violins of the record bounds before and after the mechanism (C Figures 1 and 4)."""
    from matplotlib.figure import Figure

    grid = np.array(records["bounds"]["grid"])
    with house_style():
        figure = Figure(figsize=(WIDTH, 4.4), layout="constrained")
        axis = figure.subplots()
        axis.set_yscale("log")
        names = {"before": "before:\n|log-likelihood|", "after": "after:\n|contribution|"}
        for position, (key, colour) in enumerate((("before", COLOURS[0]), ("after", COLOURS[1]))):
            violin = records["bounds"][key]
            share = _smooth(np.array(violin["share"], dtype=np.float64))
            share[grid > 1.05 * (finite(violin["largest"]) or np.inf)] = 0.0  # no record is there
            if share.max() > 0:
                half = 0.4 * share / share.max()
                seen = half > 0.002
                axis.fill_betweenx(
                    grid,
                    position - half,
                    position + half,
                    where=seen,
                    color=colour,
                    alpha=0.6,
                    lw=0,
                )
            for level, width in ((violin["median"], 0.25), (violin["largest"], 0.12)):
                if (finite(level) or 0) > 0:
                    axis.plot(
                        [position - width, position + width], [level] * 2, color="black", lw=1.8
                    )
            if violin["under"]:
                names[key] += f"\n({percent(violin['under'])} under the axis)"
        limit, per_draw = finite(records["limit"]), finite(records["per_draw"])
        if limit is not None:
            axis.axhline(limit, color=LIMIT, lw=1.6, ls="--", label=f"clipping limit {limit:.4g}")
        if per_draw is not None:
            label = f"epsilon / 2m = {per_draw:.4g}"
            axis.axhline(per_draw, color=CLAIM, lw=1.6, ls=":", label=label)
        axis.set_xticks([0, 1], [names["before"], names["after"]])
        axis.set_xlim(-0.6, 1.6)
        axis.set_ylim(grid[0] * 0.9, max(grid[-1], per_draw or 0.0, limit or 0.0) * 1.3)
        axis.set_ylabel("largest value of a record over the draws")
        _plain_log(axis.yaxis)
        axis.grid(axis="y")
        if limit is not None or per_draw is not None:
            figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
        footer(figure, "wide bar: median; short bar: largest record", INTERNAL)
    return svg_text(figure)


def weights_figure(weights: dict[str, Any]) -> str:
    """Record weights against each numeric outcome: median and spread in classes of the outcome."""
    from matplotlib.figure import Figure

    panels = weights["panels"][:MOST_PANELS]
    with house_style():
        figure = Figure(figsize=(WIDTH, 0.7 + 2.9 * len(panels)), layout="constrained")
        for axis, panel in zip(
            figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True
        ):
            outcome = np.array(panel["outcome"])
            spread = np.array(panel["weight"])  # (classes, 5)
            for low, high, alpha in ((0, 4, 0.2), (1, 3, 0.4)):
                axis.fill_between(
                    outcome, spread[:, low], spread[:, high], color=SYNTHETIC, alpha=alpha, lw=0
                )
            axis.plot(outcome, spread[:, 2], color=SYNTHETIC, lw=2)
            _outcome_axis(axis, panel)
            axis.set_ylim(0, max(1.0, float(spread.max())) * 1.04)
            axis.set_ylabel("record weight")
            axis.grid()
        footer(figure, "line: median; bands: middle 50 % and 90 % of the records", INTERNAL)
    return svg_text(figure)


def distribution_figure(column: dict[str, Any]) -> str:
    """Density above, ECDF below, of one numeric column: confidential and every synthetic file."""
    from matplotlib.figure import Figure

    grid = np.array(column["grid"])
    made = column["synthetic"]
    with house_style():
        figure = Figure(figsize=(WIDTH, 5.4), layout="constrained")
        axes = figure.subplots(2, 1, sharex=True)
        for axis, key in zip(axes, ("density", "ecdf"), strict=True):
            axis.plot(
                grid, column["confidential"][key], color=CONFIDENTIAL, lw=4, label="confidential"
            )
            for number, curves in enumerate(made):
                axis.plot(
                    grid,
                    curves[key],
                    color=SYNTHETIC,
                    lw=1.2,
                    alpha=max(0.35, 1 / len(made)),
                    label=_files(len(made)) if number == 0 else None,
                )
            axis.set_ylim(bottom=0)
            axis.grid()
        axes[1].set_ylim(0, 1.02)
        axes[0].set_ylabel("density" + (" of the logarithm" if column["scale"] == "log" else ""))
        axes[1].set_ylabel("share of records at or below")
        _outcome_axis(axes[1], column)
        axes[1].set_xlim(grid[0], grid[-1])
        figure.legend(
            *axes[0].get_legend_handles_labels(),
            loc="outside upper center",
            ncols=2,
            frameon=False,
            fontsize=9,
        )
        footer(figure, INTERNAL)
    return svg_text(figure)


def levels_figure(column: dict[str, Any]) -> str:
    """Shares of levels: the confidential share as a bar, each synthetic file as a point."""
    from matplotlib.figure import Figure

    names, made = column["levels"], column["synthetic"]
    rows = np.arange(len(names))
    with house_style():
        figure = Figure(figsize=(WIDTH, 1.5 + 0.3 * len(names)), layout="constrained")
        axis = figure.subplots()
        axis.barh(rows, column["confidential"], color=CONFIDENTIAL, alpha=0.5, label="confidential")
        for number, shares in enumerate(made):
            axis.plot(
                shares,
                rows,
                "o",
                color=SYNTHETIC,
                markersize=5,
                alpha=0.7,
                label=_files(len(made)) if number == 0 else None,
            )
        axis.set_yticks(rows, [shortened(name) for name in names])
        axis.set_ylim(len(names) - 0.4, -0.6)
        axis.set_xlim(left=0)
        axis.set_xlabel("share of records")
        axis.grid(axis="x")
        axis.set_ylabel(column["label"])
        figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
        footer(figure, INTERNAL)
    return svg_text(figure)


def risk_figure(risk: dict[str, Any]) -> str:
    """Violins of identification risk: a panel per set of known columns (R Figure 2)."""
    from matplotlib.figure import Figure

    panels = risk["panels"][:MOST_PANELS]
    with house_style():
        figure = Figure(figsize=(WIDTH, 0.5 + 3.1 * len(panels)), layout="constrained")
        axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
        for axis, panel in zip(axes, panels, strict=True):
            grid = np.array(panel["grid"])
            for position, release in enumerate(panel["releases"]):
                density = np.array(release["density"])
                half = 0.42 * density / density.max()
                axis.fill_betweenx(
                    grid,
                    position - half,
                    position + half,
                    where=half > 0.002,
                    color=COLOURS[position],
                    alpha=0.6,
                    lw=0,
                )
                axis.plot(
                    [position - 0.25, position + 0.25], [release["mean"]] * 2, color="black", lw=2
                )
            axis.axhline(risk["threshold"], color=LIMIT, lw=1.2, ls="--")
            ticks = [f"{r['release']}\nmean {r['mean']:.3f}" for r in panel["releases"]]
            axis.set_xticks(range(len(ticks)), ticks)
            axis.set_xlim(-0.6, len(ticks) - 0.4)
            axis.set_ylim(-0.02, 1.02)
            axis.grid(axis="y")
            axis.set_ylabel(risk["title"].lower())
            known = ", ".join(panel["known"]) or "nothing"
            axis.set_title(f"known: {shortened(known, 50)}", loc="left", fontsize=10)
        footer(figure, f"dashed: threshold {risk['threshold']:g}", INTERNAL)
    return svg_text(figure)


def chains_figure(chains: dict[str, Any]) -> str:
    """R-hat and effective sample size of every coordinate, with the limits."""
    from matplotlib.figure import Figure

    each = chains["each"]
    with house_style():
        figure = Figure(figsize=(WIDTH, 4.4), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True)
        rows = np.arange(1, len(each) + 1)
        rhat = [np.nan if finite(entry["rhat"]) is None else entry["rhat"] for entry in each]
        above.plot(rows, rhat, "o", color=SYNTHETIC, markersize=4.5)
        above.axhline(chains["limits"]["rhat"], color=LIMIT, lw=1.4, ls="--", label="limit")
        above.set_ylabel("R-hat")
        above.set_ylim(bottom=min(0.9995, np.nanmin([*rhat, 1.0]) - 0.0005))
        for key, marker, colour in (("ess_bulk", "o", SYNTHETIC), ("ess_tail", "^", COLOURS[2])):
            values = [np.nan if finite(entry[key]) is None else entry[key] for entry in each]
            below.plot(rows, values, marker, color=colour, markersize=4.5, label=key.split("_")[1])
        below.axhline(chains["limits"]["ess"], color=LIMIT, lw=1.4, ls="--")
        below.set_ylabel("effective sample size")
        below.set_ylim(bottom=0)
        below.set_xlabel("coordinate (numbered as in the table)")
        below.set_xlim(0.5, len(each) + 0.5)
        _whole_ticks(below)
        for axis in (above, below):
            axis.grid()
        handles, labels = below.get_legend_handles_labels()
        limit = above.get_legend_handles_labels()
        figure.legend(
            [*handles, *limit[0]],
            [*(f"{label} ESS" for label in labels), *limit[1]],
            loc="outside upper center",
            ncols=3,
            frameon=False,
            fontsize=9,
        )
        footer(figure, INTERNAL)
    return svg_text(figure)


def _files(count: int) -> str:
    return "synthetic file" if count == 1 else f"{count} synthetic files"


def shortened(text: str, most: int = 28) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _outcome_axis(axis: Any, column: dict[str, Any]) -> None:
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    if column["scale"] == "log":
        axis.set_xscale("log")
        _plain_log(axis.xaxis)
    else:
        axis.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_xlabel(column["label"] + (" (log scale)" if column["scale"] == "log" else ""))


def _plain_log(axis: Any) -> None:
    """A few plain numbers on a logarithmic axis: 1, 2 and 5 times powers of ten, or fewer."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval() if axis.axis_name == "x" else (0.0, 0.0)
    decades = np.log10(high / low) if low > 0 else 9.0
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.2 else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def _whole_ticks(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))


def _smooth(share: Any) -> Any:
    """A violin's outline: the histogram under a narrow kernel, mirrored at the ends."""
    kernel = np.exp(-0.5 * (np.arange(-4, 5) / 1.3) ** 2)
    return np.convolve(np.pad(share, 4, mode="symmetric"), kernel / kernel.sum(), mode="valid")
