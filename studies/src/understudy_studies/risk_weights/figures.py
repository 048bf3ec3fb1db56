"""The figures of the study of paper R: violins, before-after scatter, intervals, weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.drawing import Figure, panels
from understudy_studies.framework import Row
from understudy_studies.risk_weights import application as ce
from understudy_studies.risk_weights import simulation as nb
from understudy_studies.risk_weights.tables import RISE, risks_of

SHORT = {
    "Data": "Data", nb.SYNTHESIZER: "S", nb.AGAIN: "S again", nb.PAIRWISE: "P",
    nb.CONSTANT_PAIRWISE: "const P", nb.CONSTANT_MARGINAL: "const M", nb.marginal(nb.HARD): "M",
    ce.MARGINAL: "M", ce.PAIRWISE: "P", "Topcoding": "T", "Pairwise c=1.5": "P c=1.5",
    "Pairwise g=0.1": "P g=0.1",
}  # fmt: skip


@dataclass(frozen=True)
class Risks:
    """Each record's risk under every synthesizer, and what is drawn of it."""

    of: dict[str, Any]
    rise: float  # what is highlighted
    title: str

    def violins(self, *names: str) -> Figure:
        return us.distribution_figure({self.title: {SHORT.get(n, n): self.of[n] for n in names}})

    def scatter(self, name: str) -> Figure:
        before, after = self.of[nb.SYNTHESIZER], self.of[name]
        rises = us.whack_a_mole(before, after, self.rise)
        return us.whack_a_mole_figure(before, after, rises, (nb.SYNTHESIZER, name))


def simulation_figures(simulated: Sequence[Row], rows: pl.DataFrame) -> dict[str, Figure]:
    """R Figures 4 to 7 and supplement Figures 2 to 4; records are those of the first file."""
    first = simulated[0]
    data = pl.DataFrame([row for result in simulated for row in result["table 6"]])
    data = data.filter(pl.col("name") == "Data")
    by_radius = {name: np.asarray(values) for name, values in first["risks"].items()}
    end = f"|{nb.HARD}"
    hard = {n.removesuffix(end): risk for n, risk in by_radius.items() if n.endswith(end)}
    risks = Risks(hard, nb.RISE, f"r = {nb.HARD:.0%}")
    marginal, controls = nb.marginal(nb.HARD), (nb.CONSTANT_MARGINAL, nb.CONSTANT_PAIRWISE)

    def at(radius: float) -> dict[str, Any]:
        shown = {"D": "Data", "S": nb.SYNTHESIZER, "M": nb.marginal(radius)}
        return {short: by_radius[f"{name}|{radius}"] for short, name in shown.items()}

    def medians(*names: str) -> Figure:
        return interval_figure(median_intervals(data, rows, [nb.SYNTHESIZER, *names]), 2)

    return {
        "simulation-figure-04": density_figure(np.asarray(first["y"])),
        "simulation-figure-05a": us.distribution_figure({f"r = {r:.0%}": at(r) for r in nb.RADII}),
        "simulation-figure-05b": risks.scatter(marginal),
        "simulation-figure-05c": risks.scatter(nb.AGAIN),
        "simulation-figure-06": us.distribution_figure(
            {"Marginal": {f"{r:.0%}": at(r)["M"] for r in nb.RADII}}
        ),
        "simulation-figure-07": medians(*map(nb.marginal, nb.RADII)),
        "simulation-supplement-2": risks.violins(
            "Data", nb.SYNTHESIZER, nb.AGAIN, marginal, nb.PAIRWISE, *controls
        ),
        "simulation-supplement-3": risks.scatter(nb.PAIRWISE),
        "simulation-supplement-4": medians(marginal, nb.PAIRWISE),
    }


def application_figures(results: Sequence[Row], intervals: pl.DataFrame) -> dict[str, Figure]:
    """R Figures 2, 3, 8 to 10 and supplement Figures 5 to 7."""
    weights = {result["name"]: np.asarray(result["weights"]) for result in results[2:]}
    risks = Risks(risks_of(results), RISE, "r = 20%")
    plain, pairwise = ("Data", nb.SYNTHESIZER), (ce.PAIRWISE, "Pairwise c=1.5", "Pairwise g=0.1")
    controls = (nb.CONSTANT_MARGINAL, nb.CONSTANT_PAIRWISE)

    def some(*names: str) -> Figure:
        return interval_figure(intervals.filter(pl.col("synthesizer").is_in(names)), 4)

    return {
        "application-figure-02": risks.violins(*plain, ce.MARGINAL, "Topcoding"),
        "application-figure-03": risks.scatter(ce.MARGINAL),
        "application-figure-08": risks.violins(
            *plain, nb.AGAIN, ce.MARGINAL, ce.PAIRWISE, ce.THREE_WAY, ce.FOUR_WAY, *controls
        ),
        "application-figure-09": risks.scatter(ce.PAIRWISE),
        "application-figure-09-control": risks.scatter(nb.AGAIN),
        "application-figure-10": some(*plain, ce.MARGINAL, ce.PAIRWISE),
        "application-supplement-5": weights_figure(
            np.asarray(results[0]["income"]), {name: weights[name] for name in pairwise}
        ),
        "application-supplement-6": some(*plain, *pairwise),
        "application-supplement-7": risks.violins(*plain, *pairwise),
    }


def interval_figure(rows: pl.DataFrame, most: int) -> Figure:
    """A panel per statistic: estimates with intervals; lines are the confidential data's."""
    statistics = rows["statistic"].unique(maintain_order=True).to_list()[:most]
    down, across = 1 + (len(statistics) > 2), min(2, len(statistics))
    with panels(down, across, 3.6 * across, 3.0 * down) as (figure, axes):
        for axis, statistic in zip(axes.ravel(), statistics, strict=False):
            part = rows.filter(pl.col("statistic") == statistic)
            data = part.filter(pl.col("synthesizer") == "Data")
            for style, name in (("-", "estimate"), ("--", "lower"), ("--", "upper")):
                if data.height:
                    axis.axhline(data[name][0], color=us.COLOURS[0], linestyle=style, linewidth=0.9)
            made = part.filter(pl.col("synthesizer") != "Data")
            for position, row in enumerate(made.iter_rows(named=True)):
                colour = us.COLOURS[1 + position % (len(us.COLOURS) - 1)]
                axis.plot(
                    [position, position], [row["lower"], row["upper"]], color=colour, linewidth=2
                )
                axis.plot(position, row["estimate"], "s", color=colour)
            names = [_short(name) for name in made["synthesizer"]]
            axis.set_xticks(range(len(names)), names, fontsize=8)
            axis.set_xlim(-0.6, len(names) - 0.4)
            axis.set_title(statistic, fontsize=10)
            axis.yaxis.set_major_formatter("{x:,g}")
            axis.grid(axis="y")
    return figure


def density_figure(values: Any) -> Figure:
    """R Figure 4: the simulated counts."""
    with panels(1, 1, 5.2, 3.2) as (figure, ((axis,),)):
        axis.hist(values, bins=50, color=us.COLOURS[1], alpha=0.7)
        axis.set_xlabel("Simulated count, first file")
        axis.set_ylabel("Records")
    return figure


def weights_figure(income: Any, weights: Mapping[str, Any]) -> Figure:
    """R supplement Figure 5: pairwise weights against income, a panel per adjustment."""
    with panels(1, len(weights), 3.2 * len(weights), 3.2, sharey=True) as (figure, (axes,)):
        for axis, (name, alpha) in zip(axes, weights.items(), strict=True):
            axis.scatter(income / 1000, alpha, s=5, linewidths=0, alpha=0.3, color=us.COLOURS[1],
                         rasterized=True)  # fmt: skip
            axis.set_title(name, fontsize=10)
            axis.set_xlabel("Income, thousands")
            axis.set_ylim(0, 1.02)
            axis.grid()
        axes[0].set_ylabel("Record weight")
    return figure


def median_intervals(data: pl.DataFrame, rows: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Median estimate and limits over the simulated files: of the data, then by synthesizer."""
    limits = ("estimate", "lower", "upper")
    out: list[Row] = []
    for name in ("Data", *names):
        made = rows.filter(pl.col("name") == name).unique("replicate", maintain_order=True)
        for statistic in ("mean", "median"):
            values = {part: made[f"{statistic} {part}"] for part in limits}
            if name == "Data":
                values = dict(data.filter(statistic=statistic).select(limits).to_dict())
            line = {part: float(np.median(column.to_numpy())) for part, column in values.items()}
            out.append({"synthesizer": name, "statistic": statistic, **line})
    return pl.DataFrame(out)


def _short(name: str) -> str:
    """On an axis that may show several radii, a Marginal keeps its own."""
    return f"M {radius}" if (radius := name.removeprefix("Marginal ")) != name else SHORT[name]
