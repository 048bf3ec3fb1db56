"""The facts of the page: the settings of each figure against r_full, areas under the ROC, and
tables put together for a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from understudy_studies.framework import FEWEST, published
from understudy_studies.verification.figures import FIGURES
from understudy_studies.verification.replicate import VerificationDesign

Tables = dict[str, pl.DataFrame]
Row = dict[str, Any]

CLOSE = 0.1  # a mean median so near to r_full leads an analyst to the same conclusion
NORMAL, BOUNDED, PAPER = "normal errors", "no extreme weights", "the paper's population"


def facts(tables: Tables, design: VerificationDesign, results: Sequence[Row], biased: Any) -> Row:
    """Everything the template asks for; `biased` are the totals of biased synthesis."""
    summary = tables["summary"].filter(partitioning="equal")

    def setting(estimand: str, synthesis: str, interval: str) -> Row:
        """The mean medians of a figure's designs against r_full."""
        rows = summary.filter(estimand=estimand, synthesis=synthesis, interval=interval)
        gaps = np.abs(rows["median"].to_numpy() - rows["r_full"].to_numpy())
        return {
            "rows": rows,
            "designs": rows.height,
            "gap": gaps.mean(),
            "worst": gaps.max(),
            "near": int((gaps <= CLOSE).sum()),
            "below": int((rows["median"] < rows["r_full"]).sum()),
            "above": int((rows["median"] > rows["r_full"]).sum()),
        }

    def typical(table: str, measure: str) -> float:
        known = tables[table].filter(partitioning="equal")[measure].drop_nulls().to_numpy()
        return float(known.mean()) if len(known) else float("nan")

    good = setting("total", "faithful", "adjusted")
    by_m = good["rows"].group_by("alpha", "n_k", maintain_order=True)
    moves = by_m.agg(move=pl.col("median").max() - pl.col("median").min())["move"]
    sizes = steps(good["rows"], "n_k", ["alpha", "M"], "median")
    narrows = steps(good["rows"], "M", ["alpha", "n_k"], "median_sd")
    even, calm, wild = (
        tables["auc-conditions"].filter(setting=name)["follows"]
        for name in (NORMAL, BOUNDED, PAPER)
    )
    return {
        "design": design,
        "repeats": len(results),
        "pairs": len(results) * design.roc_pairs,
        "tau": float(results[0]["tau"]),
        "unweighted": float(np.mean(biased)),
        "paper": dict(published("verification", "totals").iter_rows()),
        "setting": setting,
        "good": good,
        "all_low": summary.filter(synthesis="biased", interval="adjusted"),
        "figures": FIGURES,
        "typical": typical,
        "area": area,
        "spread": spread,
        "close": CLOSE,
        "falls": (int((sizes <= 0.01).sum()), len(sizes)),
        "moves": float(np.max(moves.to_numpy())),
        "narrows": (int((narrows < 0).sum()), len(narrows)),
        "follows": {"even": even, "calm": calm, "wild": wild},
        "weights_decide": wild.to_numpy().max() < calm.to_numpy().min(),
        "ratio_is_not_it": wild.to_numpy().max() < even.to_numpy().min(),
        "printed": pl.DataFrame({"alpha": design.alphas})
        .join(published("verification", "figure-2"), on="alpha", how="left", maintain_order="left")
        .fill_null("–"),
        "clipped": pl.concat(
            tables[name].filter(partitioning="equal").with_columns(population=pl.lit(population))
            for population, name in (("paper", "auc"), (BOUNDED, "auc-bounded"))
        ),
        "clips": [(f"c = {clip:g}", area(f"clip {clip:g}")) for clip in design.clips],
        "choices": choices(tables["summary"]),
        "beyond": tables["beyond"]
        .filter(interval="adjusted")
        .join(
            tables["beyond-auc"].drop("synthesis", "partitioning", "interval", "n_k"),
            on=["estimand", "alpha", "M"],
            maintain_order="left",
        ),
    }


def steps(part: pl.DataFrame, along: str, within: list[str], column: str) -> pl.Series:
    """Changes of a column from one value of `along` to the next, all else equal."""
    ordered = part.sort(along).with_columns(step=pl.col(column).diff().over(within))
    return ordered["step"].drop_nulls()


def area(name: str) -> Callable[[Row], str]:
    """A column of a grid: the area and its standard error."""
    return lambda row: "–" if row[name] is None else f"{row[name]:.2f} ({row[f'{name}_se']:.2f})"


def spread(sd: str, mean: str = "") -> Callable[[Row], str]:
    """A column of a grid: a standard deviation, where the repeats are enough, after its mean."""

    def cell(row: Row) -> str:
        known = row[sd] is not None and row["repeats"] >= FEWEST
        text = f"{row[sd]:.2f}" if known else "–"
        if not mean:
            return text
        return f"{row[mean]:.2f}" + (f" ({text})" if row["repeats"] >= FEWEST else "")

    return cell


def choices(table: pl.DataFrame) -> pl.DataFrame:
    """Means over M of r_full, and of each partitioning's medians under both noises."""
    part = table.filter(synthesis="faithful", interval="adjusted")
    means = {
        f"{name}_{column}": pl.col(column).filter(pl.col("partitioning") == name).mean()
        for name in ("equal", "hash")
        for column in ("median", "median_sd", "own_median", "own_sd")
    }
    groups = part.group_by("estimand", "alpha", "n_k", maintain_order=True)
    return groups.agg(pl.col("r_full").mean(), pl.col("repeats").first(), **means)
