"""The plan as a picture: what would be reported, and how often it would be right."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from understudy.verify.planner import Plan
    from understudy.verify.rehearsal import RehearsedAnswers


def draw_plan(plan: Plan) -> str:
    """Two panels: the reported value against the assumed estimate, with its 5-95 % band, at
    the standard error nearest the synthetic one; and the chance of a right verdict."""
    table = plan.table
    ses = np.unique(table["se"].to_numpy())
    nearest = ses[np.argmin(np.abs(np.log(ses / plan.se)))]
    line = table.filter(pl.col("se") == nearest).sort("estimate")
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    x = line["estimate"].to_numpy()
    left.fill_between(x, line["median_low"], line["median_high"], color="#7aa6c2", alpha=0.4)
    left.plot(x, line["median_mid"], color="#1f4e6b")
    left.axvspan(
        plan.estimate - plan.tolerance, plan.estimate + plan.tolerance, color="0.9", zorder=0
    )
    left.set_xlabel("confidential estimate, if it were")
    left.set_ylabel(f"{plan.measured_by.reports} (middle 90 %)")
    if plan.measured_by.report_reach is not None:
        left.set_ylim(*plan.measured_by.report_reach)
    if plan.measured_by.reports_difference:
        left.plot(x, x - plan.estimate, color="0.5", linestyle=":")
    grid = table.sort("estimate", "se")
    values = grid["says_right"].to_numpy().reshape(-1, len(ses)).T
    estimates = np.unique(table["estimate"].to_numpy())
    mesh = right.pcolormesh(
        estimates, ses / plan.se, values, vmin=0, vmax=1, cmap="viridis", shading="nearest"
    )
    right.set_xlabel("confidential estimate, if it were")
    right.set_ylabel("its standard error / synthetic one")
    figure.colorbar(mesh, ax=right, label="chance that the verdict is right")
    return _svg(figure)


def draw_rehearsal(rehearsal: RehearsedAnswers) -> str:
    """What would be reported, how often; the band of the tolerance, and the file's own result."""
    measure, terms = rehearsal.query.measured_by, rehearsal.terms
    figure = Figure(figsize=(5.5, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.hist(rehearsal.answers["median"].to_numpy(), bins=30, color="#7aa6c2")
    if measure.reports_difference:
        axes.axvspan(-terms.tolerance, terms.tolerance, color="0.9", zorder=0)
        axes.axvline(rehearsal.estimate - terms.estimate, color="#1f4e6b", linestyle=":")
    if measure.report_reach is not None:
        axes.set_xlim(*measure.report_reach)
    axes.set_xlabel(
        f"{measure.reports} (dotted: the file's own)"
        if measure.reports_difference
        else measure.reports
    )
    axes.set_ylabel(f"of {rehearsal.answers.height} answers")
    return _svg(figure)


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "understudy", "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
