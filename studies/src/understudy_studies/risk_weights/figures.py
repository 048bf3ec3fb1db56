"""The figures of the study of paper R: violins, before-after scatter, intervals, weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.risk_weights import application as ce
from understudy_studies.risk_weights import simulation as nb
from understudy_studies.risk_weights.tables import RISE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]
SHORT = {
    "Data": "Data", nb.SYNTHESIZER: "S", nb.AGAIN: "S again", nb.PAIRWISE: "P",
    nb.CONSTANT_PAIRWISE: "const P", nb.CONSTANT_MARGINAL: "const M", nb.marginal(nb.HARD): "M",
    ce.MARGINAL: "M", ce.PAIRWISE: "P", "Topcoding": "T", "Pairwise c=1.5": "P c=1.5",
    "Pairwise g=0.1": "P g=0.1",
}  # fmt: skip


def draw_figures(
    simulated: Sequence[Row], rows: pl.DataFrame, applied: Sequence[Row], intervals: pl.DataFrame
) -> dict[str, Figure]:
    """Every figure of the paper that this study makes."""
    makers = {f"simulation-{k}": v for k, v in simulation_figures(simulated, rows).items()}
    makers |= {f"application-{k}": v for k, v in application_figures(applied, intervals).items()}
    return {name: draw() for name, draw in makers.items()}


def simulation_figures(
    simulated: Sequence[Row], rows: pl.DataFrame
) -> dict[str, Callable[[], Figure]]:
    """R Figures 4 to 7 and supplement Figures 2 to 4; records are those of the first file."""
    first = simulated[0]
    data = pl.DataFrame([row for result in simulated for row in result["table 6"]])
    data = data.filter(pl.col("name") == "Data")
    risks = {name: np.asarray(values) for name, values in first["risks"].items()}
    before = risks[f"{nb.SYNTHESIZER}|{nb.HARD}"]

    def at(name: str, radius: float = nb.HARD) -> Any:
        return risks[f"{name}|{radius}"]

    def panels() -> dict[str, dict[str, Any]]:
        return {
            f"r = {r:.0%}": {"D": at("Data", r), "S": at(nb.SYNTHESIZER, r),
                             "M": at(nb.marginal(r), r)}
            for r in nb.RADII
        }  # fmt: skip

    def scatter(name: str) -> Callable[[], Figure]:
        rises = us.whack_a_mole(before, at(name), nb.RISE)
        return lambda: us.whack_a_mole_figure(before, at(name), rises, (nb.SYNTHESIZER, name))

    def violins(*names: str) -> Callable[[], Figure]:
        shown = {SHORT.get(name, name): at(name) for name in names}
        return lambda: us.distribution_figure({f"r = {nb.HARD:.0%}": shown})

    hard = nb.marginal(nb.HARD)
    marginals = {f"{r:.0%}": at(nb.marginal(r), r) for r in nb.RADII}
    return {
        "figure-04": lambda: density_figure(np.asarray(first["y"])),
        "figure-05a": lambda: us.distribution_figure(panels()),
        "figure-05b": scatter(hard),
        "figure-05c": scatter(nb.AGAIN),
        "figure-06": lambda: us.distribution_figure({"Marginal": marginals}),
        "figure-07": lambda: interval_figure(
            median_intervals(data, rows, [nb.SYNTHESIZER, *map(nb.marginal, nb.RADII)]), 2
        ),
        "supplement-2": violins("Data", nb.SYNTHESIZER, nb.AGAIN, hard, nb.PAIRWISE,
                                nb.CONSTANT_MARGINAL, nb.CONSTANT_PAIRWISE),
        "supplement-3": scatter(nb.PAIRWISE),
        "supplement-4": lambda: interval_figure(
            median_intervals(data, rows, [nb.SYNTHESIZER, hard, nb.PAIRWISE]), 2
        ),
    }  # fmt: skip


def application_figures(
    results: Sequence[Row], intervals: pl.DataFrame
) -> dict[str, Callable[[], Figure]]:
    """R Figures 2, 3, 8 to 10 and supplement Figures 5 to 7."""
    risk = {result["name"]: np.asarray(result["risk"]) for result in results}
    risk["Topcoding"] = np.asarray(results[0]["topcoded"]["risk"])
    weights = {result["name"]: np.asarray(result["weights"]) for result in results[1:]}
    income = np.asarray(results[0]["income"])
    before = risk[ce.SYNTHESIZER]
    adjusted = ("Pairwise c=1.5", "Pairwise g=0.1")

    def violins(*names: str) -> Callable[[], Figure]:
        shown = {SHORT.get(name, name): risk[name] for name in names}
        return lambda: us.distribution_figure({"r = 20%": shown})

    def scatter(name: str) -> Callable[[], Figure]:
        rises = us.whack_a_mole(before, risk[name], RISE)
        return lambda: us.whack_a_mole_figure(before, risk[name], rises, (ce.SYNTHESIZER, name))

    def some(*names: str) -> Callable[[], Figure]:
        return lambda: interval_figure(intervals.filter(pl.col("synthesizer").is_in(names)), 4)

    shown = (ce.SYNTHESIZER, ce.MARGINAL, ce.PAIRWISE)
    return {
        "figure-02": violins("Data", ce.SYNTHESIZER, ce.MARGINAL, "Topcoding"),
        "figure-03": scatter(ce.MARGINAL),
        "figure-08": violins(
            "Data",
            ce.SYNTHESIZER,
            ce.AGAIN,
            ce.MARGINAL,
            ce.PAIRWISE,
            ce.CONSTANT_MARGINAL,
            ce.CONSTANT_PAIRWISE,
        ),
        "figure-09": scatter(ce.PAIRWISE),
        "figure-09-control": scatter(ce.AGAIN),
        "figure-10": some("Data", *shown),
        "supplement-5": lambda: weights_figure(
            income, {name: weights[name] for name in (ce.PAIRWISE, *adjusted)}
        ),
        "supplement-6": some("Data", ce.SYNTHESIZER, ce.PAIRWISE, *adjusted),
        "supplement-7": violins("Data", ce.SYNTHESIZER, ce.PAIRWISE, *adjusted),
    }


def interval_figure(rows: pl.DataFrame, most: int) -> Figure:
    """A panel per statistic: estimates with intervals; lines are the confidential data's."""
    from matplotlib.figure import Figure

    statistics = rows["statistic"].unique(maintain_order=True).to_list()[:most]
    with us.house_style():
        figure = Figure(figsize=(3.6 * min(2, len(statistics)), 3.0 * (1 + (len(statistics) > 2))),
                        layout="constrained")  # fmt: skip
        axes = figure.subplots(1 + (len(statistics) > 2), min(2, len(statistics)), squeeze=False)
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
    from matplotlib.figure import Figure

    with us.house_style():
        figure = Figure(figsize=(5.2, 3.2), layout="constrained")
        axis = figure.subplots()
        axis.hist(values, bins=50, color=us.COLOURS[1], alpha=0.7)
        axis.set_xlabel("Simulated count, first file")
        axis.set_ylabel("Records")
    return figure


def weights_figure(income: Any, weights: Mapping[str, Any]) -> Figure:
    """R supplement Figure 5: pairwise weights against income, a panel per adjustment."""
    from matplotlib.figure import Figure

    with us.house_style():
        figure = Figure(figsize=(3.2 * len(weights), 3.2), layout="constrained")
        axes = figure.subplots(1, len(weights), sharey=True, squeeze=False)[0]
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
    parts = ("estimate", "lower", "upper")
    out: list[Row] = []
    for statistic in ("mean", "median"):
        of_data = data.filter(pl.col("statistic") == statistic)
        line = {p: float(np.median(of_data[p].to_numpy())) for p in parts}
        out.append({"synthesizer": "Data", "statistic": statistic, **line})
    for name in names:
        made = rows.filter(pl.col("name") == name).unique("replicate", maintain_order=True)
        for statistic in ("mean", "median"):
            line = {p: float(np.median(made[f"{statistic} {p}"].to_numpy())) for p in parts}
            out.append({"synthesizer": name, "statistic": statistic, **line})
    return pl.DataFrame(out)


def _short(name: str) -> str:
    """On an axis that may show several radii, a Marginal keeps its own."""
    return f"M {radius}" if (radius := name.removeprefix("Marginal ")) != name else SHORT[name]
