"""The page of the MODIPS study: Figures 3.1 and 3.2, the report's conclusions, its errata."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.drawing import COLOURS, house_style, save_figure
from understudy.studies.acs_modips import DATASETS, QUANTILES, Summary
from understudy.studies.acs_pairs import EPSILON, PairDistance
from understudy.studies.acs_population import TWELVE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = (
    ("bias", "mean |bias|, records"),
    ("rmse", "RMSE, records"),
    ("coverage", "coverage of 95 % intervals"),
)
RELATIONS = ("add-remove", "replace")

ERRATA = (
    (
        "RMSE",
        "The report adds the variance of a count to the squared bias of a share (§3.4), so that "
        "the bias all but vanishes from it. Ours has both in records; the report's form is beside.",
    ),
    (
        "Over-coverage",
        "The report finds far more than 95 % for all methods. A cell that is empty in all sets has "
        "an interval of length zero, which does not hold its true share; only if such cells count "
        "as covered does the over-coverage appear (column “empty counts as covered”).",
    ),
    (
        "Prior",
        "Dirichlet(1/2) on every one of K cells adds K/2 records, {share:.0%} of N here. It is "
        "most of the bias of MS and of MODIPS at large epsilon.",
    ),
    (
        "Epsilon",
        "The text divides epsilon by m = 5; its figures for empty cells at given epsilons fit a "
        "whole epsilon for each set. Here epsilon is always the total, each set has epsilon/5.",
    ),
    (
        "Sensitivity",
        "“Global sensitivity 1” is right when a record is added or removed. When it is replaced it "
        "is 2: the second relation below, which at epsilon equals the first at epsilon/2.",
    ),
    (
        "Support",
        "Empty cells stay empty (assumption 3), which shows whose combination occurs. The figures "
        "are therefore no guarantee; see docs/proofs/modips.md.",
    ),
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
    written = save_figure(means_figure(summaries), folder / "figure-3-1")
    written += save_figure(quantiles_figure(summaries), folder / "figure-3-2")
    table = folder / "study.csv"
    table.write_text(_csv(summaries), encoding="utf-8")
    page = folder / "study.html"
    page.write_text(_page(summaries, pairs, source, replicates), encoding="utf-8")
    return [page, table, *written]


def means_figure(summaries: Sequence[Summary]) -> Figure:
    """Figure 3.1: averages over cells against epsilon, MS and ORI as lines across."""
    import matplotlib.pyplot as plt

    with house_style():
        figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
        panels = [*PANELS, ("empty", "cells empty in all sets, share")]
        for axis, (what, label) in zip(axes.flat, panels, strict=True):
            for relation, colour in zip(RELATIONS, COLOURS[1:], strict=False):
                chosen = _private(summaries, relation)
                x = [one.method.epsilon for one in chosen]
                y = [_value(one, what) for one in chosen]
                axis.plot(x, y, "o-", color=colour, label=f"MODIPS, {relation}", markersize=4)
            for one, style in zip(summaries[:2], (":", "--"), strict=True):
                axis.axhline(_value(one, what), color="black", ls=style, label=one.method.name)
            if what == "coverage":
                axis.axhline(0.95, color=COLOURS[0], lw=0.8)
            axis.set(xscale="log", xlabel="epsilon (total)", ylabel=label)
            axis.grid(True)
        axes[0, 0].legend(frameon=False, fontsize=8.5)
        plt.close(figure)
    return figure


def quantiles_figure(summaries: Sequence[Summary]) -> Figure:
    """Figure 3.2: 10, 25, 50, 75 and 90 % quantiles over cells, one row per relation."""
    import matplotlib.pyplot as plt

    with house_style():
        figure, axes = plt.subplots(2, 3, figsize=(11, 6.5), layout="constrained")
        for row, relation in zip(axes, RELATIONS, strict=True):
            chosen = _private(summaries, relation)
            x = [one.method.epsilon for one in chosen]
            for axis, (what, label) in zip(row, PANELS, strict=True):
                lines = np.array([one.quantiles(what) for one in chosen])
                for k, share in enumerate(QUANTILES):
                    # most cells hold one record and share a line: wider ones show below
                    style = {"color": COLOURS[k + 1], "linewidth": 5.5 - k}
                    axis.plot(x, lines[:, k], label=f"{share:.0%}", **style)
                axis.set(xscale="log", xlabel="epsilon (total)", ylabel=label.removeprefix("mean "))
                axis.grid(True)
            row[0].set_title(f"MODIPS, {relation}", loc="left", fontsize=10)
        axes[0, 0].legend(frameon=False, fontsize=8.5)
        plt.close(figure)
    return figure


def conclusions(summaries: Sequence[Summary]) -> list[tuple[str, str]]:
    """(the report's, M §3.6 and §3.7; ours, from these summaries)."""
    ori, ms = summaries[:2]
    private = _private(summaries, "add-remove")
    first, last = private[0], private[-1]
    low, high = (
        min(private, key=lambda one: abs(np.log(one.method.epsilon) - power)) for power in (1, 2)
    )
    return [
        (
            "Epsilon of about 2.7 to 7.4 gives low bias and RMSE with decent coverage; about 4 "
            "should be used.",
            f"RMSE {low.mean('rmse'):.2f} and {high.mean('rmse'):.2f} records at epsilon "
            f"{low.method.epsilon:.1f} and {high.method.epsilon:.1f}, MS {ms.mean('rmse'):.2f}; "
            f"coverage {low.mean('coverage'):.3f} and {high.mean('coverage'):.3f}. Agreed for "
            "the total epsilon under add-remove; under replace the same needs twice as much.",
        ),
        (
            "As epsilon increases, MODIPS approaches MS.",
            f"Agreed: at epsilon {last.method.epsilon:.1f} bias {last.mean('bias'):.2f} and RMSE "
            f"{last.mean('rmse'):.2f}, MS {ms.mean('bias'):.2f} and {ms.mean('rmse'):.2f}.",
        ),
        (
            "ORI, MS and MODIPS have high over-coverage.",
            f"ORI {ori.mean('coverage'):.3f}, MS {ms.mean('coverage'):.3f}: under-coverage. With "
            f"empty cells counted as covered {ori.coverage_report:.3f} and "
            f"{ms.coverage_report:.3f}: over-coverage, as reported.",
        ),
        (
            "25.7 % of the cells are empty in ORI, about 5.2 % in MS; over 30 % in one MS set.",
            f"ORI {ori.empty:.1%}, MS {ms.empty:.1%}, one MS set {ms.empty_sets:.1%}.",
        ),
        (
            "MODIPS has very few empty cells at small epsilon and 5.1 % at large.",
            f"{first.empty:.1%} at epsilon {first.method.epsilon:.4f}, {last.empty:.1%} at "
            f"{last.method.epsilon:.1f}.",
        ),
    ]


def _private(summaries: Sequence[Summary], relation: str) -> list[Summary]:
    return [one for one in summaries if one.method.relation == relation]


def _value(one: Summary, what: str) -> float:
    return one.empty if what == "empty" else one.mean(what)


def _row(one: Summary) -> list[str]:
    method = one.method
    return [
        method.name,
        method.relation,
        f"{method.epsilon:.4g}" if np.isfinite(method.epsilon) else "",
        *(f"{value:.3f}" for value in (one.mean("bias"), one.closed_form, one.mean("rmse"))),
        f"{one.mean('rmse_report'):.3f}",
        f"{one.mean('coverage'):.3f}",
        f"{one.coverage_report:.3f}",
        f"{one.empty:.4f}",
        f"{one.empty_sets:.4f}",
    ]


HEAD = (
    *("method", "relation", "epsilon", "mean |bias|", "closed form", "RMSE", "RMSE as reported"),
    *("coverage", "empty counts as covered", "empty", "empty in one set"),
)


PAIR_HEAD = ("method", "claim", "one data set", "mean of all sets", "worst pair")


def _pair_row(one: PairDistance) -> list[str]:
    distances = (one.one_file, one.mean_file, one.worst)
    return [one.method, one.claim, *(f"{value:.4f}" for value in distances)]


def _csv(summaries: Sequence[Summary]) -> str:
    return "\n".join(",".join(row) for row in [list(HEAD), *map(_row, summaries)]) + "\n"


def _page(
    summaries: Sequence[Summary], pairs: Sequence[PairDistance], source: str, replicates: int
) -> str:
    cells = float(summaries[0].cells.sum())
    size = summaries[0].size
    errata = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(text.format(share=cells / 2 / size))}</dd>"
        for name, text in ERRATA
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>MODIPS at census scale</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem; }}
table {{ border-collapse: collapse; font-size: .85rem; margin: 1rem 0; }}
th, td {{ padding: .2rem .6rem; border-bottom: 1px solid #ddd; text-align: right; }}
th:first-child, td:first-child, .text td, .text th, .words td:nth-child(2),
.words th:nth-child(2) {{ text-align: left; vertical-align: top; }}
img {{ max-width: 100%; }} dt {{ font-weight: 600; }}
</style></head><body>
<h1>MODIPS at census scale</h1>
<p>N = {size:,.0f} records in K = {cells:,.0f} cells ({html.escape(source)}), m = {DATASETS} data
sets, {replicates} replicates. Bias and RMSE are in records per cell. The closed form of the bias
does not come from the simulation.</p>
<h2>Conclusions</h2>
{_table(("The report (§3.6, §3.7)", "Here"), conclusions(summaries), "text")}
<h2>Figure 3.1: averages over cells</h2><img src="figure-3-1.svg" alt="averages by epsilon">
<h2>Figure 3.2: quantiles over cells</h2>
<p>Cells with the same true count are alike, so the quantiles are those of the cells' own bias,
RMSE and coverage, without the Monte Carlo noise of single cells. Most cells hold one record, so
that several quantiles lie on one line.</p>
<img src="figure-3-2.svg" alt="quantiles by epsilon">
<h2>All figures</h2>
{_table(HEAD, [_row(one) for one in summaries], "numbers")}
<h2>Tables of two columns: Marginals beside MODIPS</h2>
<p>Mean total variation distance of the two-way tables of {len(TWELVE)} columns
({len(TWELVE) * (len(TWELVE) - 1) // 2} pairs) from the true ones, at total epsilon {EPSILON:g} for
m = {DATASETS} data sets, add-remove, noise from OpenDP. MODIPS puts noise on every occupied cell of
the full cross and the prior beside it; sums of cells add up both. Marginals puts it on the two-way
tables themselves, and needs no public support.</p>
{_table(PAIR_HEAD, [_pair_row(one) for one in pairs], "words")}
<h2>What differs from the report, and why</h2><dl>{errata}</dl>
</body></html>
"""


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]], kind: str) -> str:
    top = "".join(f"<th>{html.escape(text)}</th>" for text in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    return f'<table class="{kind}"><tr>{top}</tr>{body}</table>'
