"""M's Figures 3.1 and 3.2: bias, RMSE, coverage and empty cells against epsilon."""

from __future__ import annotations

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.acs_modips.replicate import RELATIONS
from understudy_studies.drawing import Figure, legend_above, panels
from understudy_studies.framework import Vector

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
PANELS = (
    ("bias", "|bias|, records"),
    ("rmse", "RMSE, records"),
    ("coverage", "coverage of 95 %"),
)


def means_figure(means: pl.DataFrame) -> Figure:
    """Figure 3.1: averages over cells against epsilon, MS and ORI as lines across."""
    with panels(2, 2, 6.4, 5.4, sharex=True) as (figure, axes):
        shown = [*PANELS, ("empty", "cells empty in all sets")]
        for axis, (what, label) in zip(axes.flat, shown, strict=True):
            for relation, colour in zip(RELATIONS, us.COLOURS[1:], strict=False):
                part, name = means.filter(relation=relation), f"MODIPS, {relation}"
                axis.plot(part["epsilon"], part[what], "o-", color=colour, label=name, markersize=4)
            for name, style in (("ORI", ":"), ("MS", "--")):
                level = means.filter(name=name)[what].item()
                axis.axhline(level, color="black", ls=style, label=name)
            if what == "coverage":
                axis.axhline(0.95, color=us.COLOURS[0], lw=0.8, label="95 %")
            axis.set(xscale="log", title=label)
            axis.grid(True)
        figure.supxlabel("epsilon (total)", fontsize=10)
        legend_above(figure, axes[1, 0], 5, fontsize=8.5, columnspacing=1.2, handlelength=1.6)
    return figure


def quantiles_figure(classes: pl.DataFrame) -> Figure:
    """Figure 3.2: 10, 25, 50, 75 and 90 % quantiles over cells, one column per relation."""
    with panels(3, 2, 6.4, 7, sharex=True, sharey="row") as (figure, axes):
        for number, relation in enumerate(RELATIONS):
            parts = classes.filter(relation=relation).partition_by("epsilon", maintain_order=True)
            x = [part["epsilon"][0] for part in parts]
            for axis, (what, label) in zip(axes[:, number], PANELS, strict=True):
                lines = np.array([quantiles(part, what) for part in parts]).T
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


def quantiles(classes: pl.DataFrame, what: str) -> Vector:
    """Of the size of a figure, over the cells of one method."""
    sizes, cells = classes[what].abs().to_numpy(), classes["cells"].to_numpy()
    return np.asarray(np.quantile(sizes, QUANTILES, weights=cells, method="inverted_cdf"))
