"""The page of the MODIPS study: Figures 3.1 and 3.2, the report's conclusions, its errata."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import understudy as us
from understudy_studies.acs_modips.pairs import EPSILON, PairDistance
from understudy_studies.acs_modips.population import TWELVE
from understudy_studies.acs_modips.replicate import DATASETS, QUANTILES, RELATIONS, Summary
from understudy_studies.acs_modips.words import (
    conclusions,
    errata,
    of_relation,
    summary_words,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = (
    ("bias", "|bias|, records"),
    ("rmse", "RMSE, records"),
    ("coverage", "coverage of 95 %"),
)
HEAD = (
    *("method", "relation", "epsilon", "mean |bias|", "closed form", "away", "RMSE"),
    *("report's RMSE", "coverage", "empty = covered", "empty", "empty in one set"),
)
BIAS, EMPTY = slice(3, 8), slice(8, 12)  # columns of the two tables of each relation
PAIR_HEAD = ("method", "claim", "one set", "mean of sets", "worst pair")
# over the simulated values: how a column of the tables is to be read
COLUMNS = (
    "“closed form”: the mean |bias| of methods §8, not simulated; “away”: the distance of the "
    "simulated bias from it, in Monte Carlo errors (an upper bound of them; mean |bias| itself is "
    "a little above the closed form where the errors of single cells add up, as in ORI, "
    "whose bias is 0); “empty”: share of the cells that are empty in all sets."
)


def write_page(
    summaries: Sequence[Summary],
    pairs: Sequence[PairDistance],
    folder: Path,
    source: str,
    replicates: int,
) -> list[Path]:
    """study.html with its figures and study.csv in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    written = us.save_figure(means_figure(summaries), folder / "figure-3-1")
    written += us.save_figure(quantiles_figure(summaries), folder / "figure-3-2")
    table = folder / "study.csv"
    table.write_text(_csv(summaries), encoding="utf-8")
    page = us.write_page(
        folder / "study.html",
        "MODIPS at census scale (report M)",
        summary_words(summaries, source, replicates),
        _parts(summaries, pairs, folder),
        f"Understudy {us.__version__}, `understudy study acs-modips`. Report M: Bowen, NSF GRIP "
        "Report: American Community Survey Simulation Study, 2016.",
    )
    return [page, table, *written]


def means_figure(summaries: Sequence[Summary]) -> Figure:
    """Figure 3.1: averages over cells against epsilon, MS and ORI as lines across."""
    import matplotlib.pyplot as plt

    with us.house_style():
        figure, axes = plt.subplots(2, 2, figsize=(6.4, 5.4), sharex=True, layout="constrained")
        panels = [*PANELS, ("empty", "cells empty in all sets")]
        for axis, (what, label) in zip(axes.flat, panels, strict=True):
            for relation, colour in zip(RELATIONS, us.COLOURS[1:], strict=False):
                chosen = of_relation(summaries, relation)
                x = [one.method.epsilon for one in chosen]
                y = [_value(one, what) for one in chosen]
                axis.plot(x, y, "o-", color=colour, label=f"MODIPS, {relation}", markersize=4)
            for one, style in zip(summaries[:2], (":", "--"), strict=True):
                axis.axhline(_value(one, what), color="black", ls=style, label=one.method.name)
            if what == "coverage":
                axis.axhline(0.95, color=us.COLOURS[0], lw=0.8, label="95 %")
            axis.set(xscale="log", title=label)
            axis.grid(True)
        figure.supxlabel("epsilon (total)", fontsize=10)
        lines, labels = axes[1, 0].get_legend_handles_labels()
        figure.legend(lines, labels, loc="outside upper center", ncols=5, frameon=False,
                      fontsize=8.5, columnspacing=1.2, handlelength=1.6)  # fmt: skip
        plt.close(figure)
    return figure


def quantiles_figure(summaries: Sequence[Summary]) -> Figure:
    """Figure 3.2: 10, 25, 50, 75 and 90 % quantiles over cells, one column per relation."""
    import matplotlib.pyplot as plt

    with us.house_style():
        figure, axes = plt.subplots(
            3, 2, figsize=(6.4, 7), sharex=True, sharey="row", layout="constrained"
        )
        for number, relation in enumerate(RELATIONS):
            chosen = of_relation(summaries, relation)
            x = [one.method.epsilon for one in chosen]
            for axis, (what, label) in zip(axes[:, number], PANELS, strict=True):
                lines = np.array([one.quantiles(what) for one in chosen]).T
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
        lines, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(lines, labels, loc="outside upper center", ncols=3, frameon=False,
                      fontsize=8.5)  # fmt: skip
        plt.close(figure)
    return figure


def _value(one: Summary, what: str) -> float:
    return one.empty if what == "empty" else one.mean(what)


def _row(one: Summary) -> tuple[str, ...]:
    method = one.method
    return (
        method.name,
        method.relation,
        f"{method.epsilon:.4g}" if np.isfinite(method.epsilon) else "",
        *(f"{value:.3f}" for value in (one.mean("bias"), one.closed_form)),
        f"{round(one.away, 1) + 0.0:.1f}",  # without a minus before 0
        *(f"{one.mean(what):.3f}" for what in ("rmse", "rmse_report", "coverage")),
        f"{one.coverage_report:.3f}",
        f"{one.empty:.4f}",
        f"{one.empty_sets:.4f}",
    )


def _pair_row(one: PairDistance) -> tuple[str, ...]:
    distances = (one.one_file, one.mean_file, one.worst)
    return (one.method, one.claim, *(f"{value:.4f}" for value in distances))


def _csv(summaries: Sequence[Summary]) -> str:
    return "\n".join(",".join(row) for row in [HEAD, *map(_row, summaries)]) + "\n"


def _figures(summaries: Sequence[Summary], relation: str) -> list[us.Grid]:
    """One relation's tables; ORI and MS stand in each, to compare with."""
    chosen = [*summaries[:2], *of_relation(summaries, relation)]
    every = [_row(one) for one in chosen]
    names = [f"epsilon {row[2]}" if row[2] else row[0] for row in every]
    return [
        us.Grid(
            f"MODIPS under {relation} by epsilon (total), ORI and MS: {what}.",
            (relation, *HEAD[part]),
            tuple((name, *row[part]) for name, row in zip(names, every, strict=True)),
            file="study.csv",
        )
        for part, what in ((BIAS, "bias and RMSE in records"), (EMPTY, "coverage and empty cells"))
    ]


def _parts(
    summaries: Sequence[Summary], pairs: Sequence[PairDistance], folder: Path
) -> list[us.Part]:
    pairs_words = (
        f"Mean total variation distance of the two-way tables of {len(TWELVE)} columns "
        f"({len(TWELVE) * (len(TWELVE) - 1) // 2} pairs) from the true ones, at total epsilon "
        f"{EPSILON:g} for m = {DATASETS} data sets, add-remove, noise from OpenDP. MODIPS puts "
        "noise on every occupied cell of the full cross, and the prior beside it; sums of cells "
        "add up both. Marginals puts it on the two-way tables themselves, and needs no public "
        "support: its claim is formal, that of MODIPS only `local`."
    )
    return [
        us.Heading("The report's conclusions beside ours"),
        us.Grid(
            "Left: the report (§3.7, then §3.6). Right: this run, under both relations.",
            ("The report", "Here, add-remove", "Here, replace"),
            tuple(conclusions(summaries)),
            words=True,
        ),
        us.Heading("What differs from the report, and why"),
        us.Points(errata(summaries)),
        us.Heading("Averages over cells"),
        us.Picture(
            folder / "figure-3-1.svg",
            "bias, RMSE, coverage and empty cells against epsilon",
            "M Figure 3.1: means over all cells. Dotted: the original data; dashed: MS.",
        ),
        us.Heading("Quantiles over cells"),
        us.Picture(
            folder / "figure-3-2.svg",
            "bands of quantiles of bias, RMSE and coverage against epsilon",
            "M Figure 3.2: 10, 25, 50, 75 and 90 % quantiles over cells. Cells with the same true "
            "count are alike, so these are the cells' own bias, RMSE and coverage, without the "
            "Monte Carlo noise of single cells. Most cells hold one record, so that several "
            "quantiles coincide: the median is often the edge of both bands.",
        ),
        us.Heading("All figures"),
        us.Words(COLUMNS),
        *(grid for relation in RELATIONS for grid in _figures(summaries, relation)),
        us.Heading("Tables of two columns: Marginals beside MODIPS"),
        us.Words(pairs_words),
        us.Grid(
            "Total variation over pairs: single data sets, their average, the worst pair.",
            PAIR_HEAD,
            tuple(_pair_row(one) for one in pairs),
        ),
    ]
