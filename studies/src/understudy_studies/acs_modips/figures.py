"""M's Figures 3.1 and 3.2: bias, RMSE, coverage and empty cells against epsilon."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import understudy as us
from understudy_studies.acs_modips.replicate import QUANTILES, RELATIONS, Summary, of_relation
from understudy_studies.drawing import Figure, legend_above, panels

PANELS = (
    ("bias", "|bias|, records"),
    ("rmse", "RMSE, records"),
    ("coverage", "coverage of 95 %"),
)


def means_figure(summaries: Sequence[Summary]) -> Figure:
    """Figure 3.1: averages over cells against epsilon, MS and ORI as lines across."""
    with panels(2, 2, 6.4, 5.4, sharex=True) as (figure, axes):
        shown = [*PANELS, ("empty", "cells empty in all sets")]
        for axis, (what, label) in zip(axes.flat, shown, strict=True):
            for relation, colour in zip(RELATIONS, us.COLOURS[1:], strict=False):
                chosen = of_relation(summaries, relation)
                x = [summary.method.epsilon for summary in chosen]
                y = [summary.mean(what) for summary in chosen]
                axis.plot(x, y, "o-", color=colour, label=f"MODIPS, {relation}", markersize=4)
            for summary, style in zip(summaries[:2], (":", "--"), strict=True):
                axis.axhline(summary.mean(what), color="black", ls=style, label=summary.method.name)
            if what == "coverage":
                axis.axhline(0.95, color=us.COLOURS[0], lw=0.8, label="95 %")
            axis.set(xscale="log", title=label)
            axis.grid(True)
        figure.supxlabel("epsilon (total)", fontsize=10)
        legend_above(figure, axes[1, 0], 5, fontsize=8.5, columnspacing=1.2, handlelength=1.6)
    return figure


def quantiles_figure(summaries: Sequence[Summary]) -> Figure:
    """Figure 3.2: 10, 25, 50, 75 and 90 % quantiles over cells, one column per relation."""
    with panels(3, 2, 6.4, 7, sharex=True, sharey="row") as (figure, axes):
        for number, relation in enumerate(RELATIONS):
            chosen = of_relation(summaries, relation)
            x = [summary.method.epsilon for summary in chosen]
            for axis, (what, label) in zip(axes[:, number], PANELS, strict=True):
                lines = np.array([summary.quantiles(what) for summary in chosen]).T
                for low, high, strength in ((0, 4, 0.25), (1, 3, 0.55)):
                    name = f"{QUANTILES[low]:.0%} to {QUANTILES[high]:.0%} of the cells"
                    # a line round each band: where quantiles coincide it is all that is seen
                    style = {"color": us.COLOURS[5 if low == 0 else 1], "alpha": strength}
                    axis.fill_between(x, lines[low], lines[high], label=name, lw=1.2, **style)
                axis.plot(x, lines[2], color="black", lw=1.4, label="median")
                axis.set(xscale="log")
                axis.grid(True)
                if number == 0:
                    axis.set_ylabel(label)
            axes[0, number].set_title(f"MODIPS, {relation}")
        figure.supxlabel("epsilon (total)", fontsize=10)
        legend_above(figure, axes[0, 0], 3, fontsize=8.5)
    return figure
