"""The radius of the weights, swept: what each buys in risk and costs in utility (R §4 asks for it).

The intruder's radius stays as it is; only that of the weights varies. A weight that looks at risk
is worth something where its points lie below the line of constant weights, which do not look. Runs
of the unweighted synthesizer with other random numbers show how far points lie apart by chance.
"""

from __future__ import annotations

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.drawing import Figure, legend_above, panels
from understudy_studies.framework import Row
from understudy_studies.risk_weights.simulation import (
    HARD,
    SHOWN,
    SimulationDesign,
    most_at_risk,
    risks_at,
    simulated_counts,
    synthetic_counts,
)

UNWEIGHTED, MARGINAL, PAIRWISE, CONSTANT = "Synthesizer", "Marginal", "Pairwise", "Constant"
AGAIN = 3  # runs of the unweighted synthesizer
CONSTANTS = (0.05, 0.1, 0.2, 0.4, 0.7)
RISKS = {"mean risk": "mean risk", "riskiest": "mean risk of the riskiest percent"}


def sweep_repeat(design: SimulationDesign, seed: int, number: int) -> Row:
    """One simulated file: a row for each synthesizer, with its radius or weight as `setting`."""
    rng = np.random.default_rng([seed, 11, number])
    y = simulated_counts(design.n, rng)
    settings: dict[str, tuple[str, float, us.Mechanism]] = {}

    def swept(_: us.ModelFitter) -> dict[str, us.Mechanism]:
        chosen: list[tuple[str, float, us.Mechanism]] = [
            *((UNWEIGHTED, run, us.Unweighted()) for run in range(AGAIN)),
            *((MARGINAL, r, us.MarginalRisk((), r)) for r in design.radii),
            *((PAIRWISE, r, us.PairwiseRisk((), r)) for r in design.radii),
            *((CONSTANT, weight, us.ConstantWeight(weight)) for weight in CONSTANTS),
        ]
        settings.update({f"{name} {setting:g}": (name, setting, m) for name, setting, m in chosen})
        return {label: mechanism for label, (*_, mechanism) in settings.items()}

    made = synthetic_counts(design, y, 1000 * seed + number, swept, SHOWN)
    riskiest = most_at_risk(risks_at(y, None, (HARD,))[HARD])
    rows = []
    for label, sets in made.items():
        name, setting, _ = settings[label]
        risk = risks_at(y, sets, (HARD,))[HARD]
        distance = np.array([us.ecdf_distance(y, values) for values in sets]).mean(axis=0)
        rows.append(
            {
                "synthesizer": name, "setting": float(setting), "U_m": distance[0],
                "U_a": distance[1], "mean risk": risk.mean(), "riskiest": risk[riskiest].mean(),
            }
        )  # fmt: skip
    return {"replicate": number, "rows": rows}


def frontier(rows: pl.DataFrame) -> pl.DataFrame:
    """Means over the files of every setting; `on the frontier` where no other has as little risk
    for the riskiest percent and as small a U_m, and less of one. The unweighted runs are one
    setting."""
    setting = pl.when(pl.col("synthesizer") != UNWEIGHTED).then("setting")
    measures = ("U_m", "U_a", *RISKS)
    table = (
        rows.with_columns(setting=setting)
        .group_by("synthesizer", "setting", maintain_order=True)
        .agg(pl.col(measures).mean(), pl.col("riskiest").std().alias("riskiest sd"))
    )
    points = table.select("U_m", "riskiest").to_numpy()
    beaten = [
        bool(((points <= point).all(axis=1) & (points < point).any(axis=1)).any())
        for point in points
    ]
    return table.with_columns(pl.Series("on the frontier", beaten).not_())


def frontier_figure(table: pl.DataFrame, rows: pl.DataFrame) -> Figure:
    """Risk against U_m, a panel for each measure of risk; the lines join settings in order."""
    looks = {MARGINAL: ("o", 1), PAIRWISE: ("s", 2), CONSTANT: ("x", 0), UNWEIGHTED: ("*", 4)}
    single = (
        rows.filter(synthesizer=UNWEIGHTED).group_by("setting").agg(pl.col("U_m", *RISKS).mean())
    )
    with panels(1, 2, 9.0, 3.9) as (figure, (axes,)):
        for axis, (measure, title) in zip(axes, RISKS.items(), strict=True):
            for name, (marker, colour) in looks.items():
                part = single if name == UNWEIGHTED else table.filter(synthesizer=name)
                line = "none" if name == UNWEIGHTED else "-"
                label = f"{name}, {AGAIN} runs" if name == UNWEIGHTED else name
                axis.plot(
                    part["U_m"], part[measure], marker, linestyle=line, linewidth=0.9,
                    markersize=5, color=us.COLOURS[colour], label=label,
                )  # fmt: skip
                for x, height, setting in part.select("U_m", measure, "setting").iter_rows():
                    if name in (MARGINAL, PAIRWISE):
                        axis.annotate(
                            f"{setting:.0%}", (x, height), fontsize=6, xytext=(3, 3),
                            textcoords="offset points",
                        )  # fmt: skip
            axis.set(xlabel="U_m: largest difference of the ECDFs", ylabel=title)
            axis.grid(visible=True)
        legend_above(figure, axes[0], 4)
    return figure
