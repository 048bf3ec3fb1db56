"""The figures of the study of paper V: its Figures 1 to 5, influence beside them, and ROCs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import polars as pl

import understudy as us
from understudy_studies import drawing
from understudy_studies.drawing import BLUE, GREEN, GREY, ORANGE, VERMILION, Figure
from understudy_studies.framework import FEWEST, Tables, Vector
from understudy_studies.verification import influence
from understudy_studies.verification.influence import PAPER, sizes_named
from understudy_studies.verification.replicate import VerificationDesign
from understudy_studies.verification.roc import auc, roc, scores_of

BOX = (BLUE, ORANGE, GREEN)
MEASURES = {"influence": (GREEN, "-"), "discrepancy": (BLUE, "-"), "agreement": (VERMILION, "--")}
WIDTH = 5.4
STEP = 4.2  # between groups of n_k


# V's figures by number: (estimand, synthesis, interval).
FIGURES = {
    1: ("total", "faithful", "fixed"),
    2: ("total", "faithful", "adjusted"),
    3: ("total", "biased", "adjusted"),
    4: ("mean", "faithful", "adjusted"),
    5: ("mean", "biased", "adjusted"),
}


def draw_figures(rows: Tables, design: VerificationDesign) -> dict[str, Figure]:
    """V's Figures 1 to 5, the same for influence, and the ROC in the populations."""
    equal = {k: rows[k].filter(partitioning="equal") for k in ("answers", "more", "bounded")}
    figures = {}
    for number, (estimand, synthesis, interval) in FIGURES.items():
        part = equal["answers"].filter(estimand=estimand, synthesis=synthesis, interval=interval)
        figures[f"figure-{number}"] = median_figure(part, design.sizes, design.partitions)
    for name, pairs in (("figure-roc", "more"), ("figure-roc-bounded", "bounded")):
        figures[name] = roc_figure(equal[pairs].filter(interval="adjusted"), scores_of)
    answers = rows["influence"].with_columns(n_k=pl.col("n"), M=pl.lit(1), median=pl.col("within"))
    for number, (estimand, synthesis, _) in list(FIGURES.items())[1:]:
        part = answers.filter(varied="figures", estimand=estimand, synthesis=synthesis)
        figures[f"figure-{number}-influence"] = median_figure(
            part, design.whole_sizes, (1,), "probability within the tolerance", "n"
        )
    for name, population in (("figure-roc-influence", sizes_named(design.roc_smallest)),
                             ("figure-roc-influence-paper", PAPER)):  # fmt: skip
        part = answers.filter(varied="population", population=population)
        figures[name] = roc_figure(part, influence.scores_of)
    figures["figure-auc-influence"] = auc_figure(
        influence.influence_table(rows["influence"]), design
    )
    return figures


def auc_figure(table: pl.DataFrame, design: VerificationDesign) -> Figure:
    """Areas against records, epsilon, the tail of the weights and the tolerance."""
    calm = sizes_named(design.roc_smallest)
    usual = table.filter(varied="population")
    middle = pl.col("alpha") == 1.0
    base = usual.filter(middle, population=calm)
    smallest = pl.col("population").str.extract(r"sizes (\S+)").cast(pl.Float64)
    tails = usual.filter(middle, population=PAPER), table.filter(middle, varied="weights"), base
    shown = {
        "records": (pl.concat([base, table.filter(middle, varied="records")]), pl.col("n")),
        "epsilon": (
            pl.concat([base, table.filter(middle, varied="epsilon")]),
            pl.col("epsilon").cast(pl.Float64),
        ),
        "least size": (pl.concat(tails), smallest),
        "tolerance": (usual.filter(population=calm), pl.col("alpha")),
    }
    estimands = base["estimand"].to_list()
    shape = (len(shown), len(estimands), WIDTH, 0.9 + 1.6 * len(shown))
    with drawing.panels(*shape, sharex="row", sharey=True) as (figure, axes):
        for row, (title, (lines, along)) in zip(axes, shown.items(), strict=True):
            for axis, estimand in zip(row, estimands, strict=True):
                part = lines.filter(estimand=estimand).with_columns(along=along).sort("along")
                for name, (colour, style) in MEASURES.items():
                    marks = {"color": colour, "linestyle": style, "marker": "o", "markersize": 3}
                    axis.plot(range(part.height), part[name], label=name, **marks)
                axis.set_xticks(range(part.height), [f"{value:,g}" for value in part["along"]])
                axis.tick_params(axis="x", labelsize=8)
                axis.set_ylim(0.4, 1.02)
                axis.grid(axis="y")
                axis.set_title(f"{estimand}, by {title}", fontsize=9.5, loc="left")
        drawing.legend_above(figure, axes[0, 0], 3)
        figure.supylabel("AUC", fontsize=9.5)
    return figure


def median_figure(
    rows: pl.DataFrame, sizes: Sequence[int], partitions: Sequence[int],
    named: str = "medians, M = {m}", size: str = "n_k",
) -> Figure:  # fmt: skip
    """V's figures: box plots of posterior medians and r_full, a panel for each alpha."""
    alphas = rows["alpha"].unique(maintain_order=True).to_list()
    height = 0.9 + 1.75 * len(alphas)
    looks = {"widths": 0.7, "patch_artist": True, "medianprops": {"color": "black"},
             "flierprops": {"markersize": 2, "markeredgecolor": "#777777"}}  # fmt: skip
    with drawing.panels(len(alphas), 1, WIDTH, height, sharex=True) as (figure, grid):
        axes = grid[:, 0]
        for axis, alpha in zip(axes, alphas, strict=True):
            axis.grid(axis="y")
            for (group, n_k), (number, m) in product(enumerate(sizes), enumerate(partitions)):
                part = rows.filter(n_k=n_k, M=m, alpha=alpha)
                at, first = STEP * group + number, group == 0 and axis is axes[0]
                box = axis.boxplot([part["median"].to_numpy()], positions=[at], **looks)["boxes"][0]
                label = named.format(m=m) if first else None
                box.set(facecolor=BOX[number % 3], alpha=0.45, label=label)
                axis.plot(at, part["inside"].mean(), "D", color=VERMILION, markersize=5.5,
                          markeredgecolor="white", markeredgewidth=0.8, zorder=5,
                          label="r_full" if first and number == 0 else None,
                          linestyle="none")  # fmt: skip
            axis.set_ylim(-0.03, 1.03)
            axis.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
            axis.set_title(f"α = {alpha:g}", fontsize=10, loc="left")
        middle = (len(partitions) - 1) / 2
        axes[-1].set_xticks(
            [STEP * group + middle for group in range(len(sizes))],
            [f"{size} = {n_k:,}" for n_k in sizes],
        )
        axes[-1].tick_params(axis="x", length=0)
        figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=9)
        repeats, whiskers = rows["replicate"].n_unique(), "whiskers: 1.5 of their distance"
        us.figure_footer(figure, f"{repeats} repeats; box: quartiles, {whiskers}")
    return figure


def roc_figure(rows: pl.DataFrame, scores: Callable[..., dict[str, Vector]]) -> Figure:
    """The measures at equal epsilon: a row per estimand, a column per alpha."""
    estimands = rows["estimand"].unique(maintain_order=True).to_list()
    alphas = rows["alpha"].unique(maintain_order=True).to_list()
    looks = {name: MEASURES[name] for name in MEASURES if name in scores(rows)}
    shape = (len(estimands), len(alphas), WIDTH, 0.9 + 1.95 * len(estimands))
    with drawing.panels(*shape, sharex=True, sharey=True) as (figure, axes):
        for row, estimand in zip(axes, estimands, strict=True):
            for axis, alpha in zip(row, alphas, strict=True):
                part = rows.filter(estimand=estimand, alpha=alpha)
                inside = part["inside"].to_numpy()
                few = min(inside.sum(), (~inside).sum()) < FEWEST
                if few:
                    axis.text(0.5, 0.5, f"fewer than {FEWEST}\ninside or outside", ha="center",
                              va="center", fontsize=8, color="#555555")  # fmt: skip
                else:
                    axis.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=":")
                shown = {} if few else looks
                for position, (name, (colour, style)) in enumerate(shown.items()):
                    score = scores(part)[name]
                    area = auc(score, inside)
                    axis.plot(*roc(score, inside), color=colour, linestyle=style, label=name)
                    height = 0.13 * (len(looks) - position) - 0.09
                    axis.text(0.97, height, f"AUC {area:.2f}", color=colour, ha="right",
                              fontsize=9, transform=axis.transAxes)  # fmt: skip
                axis.set_title(f"{estimand}, α = {alpha:g}", fontsize=9.5, loc="left")
                axis.set_aspect("equal")
                axis.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
                axis.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
        drawn = (axis for axis in axes.flat if axis.get_legend_handles_labels()[0])
        drawing.legend_above(figure, next(drawn, axes[0][0]), len(looks))
        figure.supylabel("inside, called inside", fontsize=9.5)
        us.figure_footer(figure, "share of pairs outside the tolerance that are called inside")
    return figure
