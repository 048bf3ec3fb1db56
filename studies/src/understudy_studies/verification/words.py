"""What the page of the verification study says from its numbers: the fields of page.md.j2, the
sentences that hang on a comparison, and the grids that put tables together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

import understudy as us
from understudy_studies.framework import FEWEST, published
from understudy_studies.page import grid
from understudy_studies.verification.figures import FIGURES
from understudy_studies.verification.replicate import VerificationDesign

Tables = dict[str, pl.DataFrame]
Row = dict[str, Any]

CLOSE = 0.1  # a mean median so near to r_full leads an analyst to the same conclusion
NORMAL, BOUNDED, PAPER = "normal errors", "no extreme weights", "the paper's population"


def fields(tables: Tables, design: VerificationDesign, results: Sequence[Row], biased: Any) -> Row:
    """Everything the template asks for; `biased` are the totals of biased synthesis."""
    summary = tables["summary"].filter(partitioning="equal")

    def settings(estimand: str, synthesis: str, interval: str) -> pl.DataFrame:
        return summary.filter(estimand=estimand, synthesis=synthesis, interval=interval)

    def typical(table: str, measure: str) -> float:
        known = tables[table].filter(partitioning="equal")[measure].drop_nulls().to_numpy()
        return float(known.mean()) if len(known) else float("nan")

    good = settings("total", "faithful", "adjusted")
    by_m = good.group_by("alpha", "n_k", maintain_order=True)
    moves = by_m.agg(move=pl.col("median").max() - pl.col("median").min())["move"]
    sizes = steps(good, "n_k", ["alpha", "M"], "median")
    narrows = steps(good, "M", ["alpha", "n_k"], "median_sd")
    return {
        "design": design,
        "repeats": len(results),
        "pairs": len(results) * design.roc_pairs,
        "tau": float(results[0]["tau"]),
        "unweighted": float(np.mean(biased)),
        "paper": dict(published("verification", "totals").iter_rows()),
        "summary": summary,
        "settings": settings,
        "figures": FIGURES,
        "caption": caption,
        "alt": lambda number: alt(settings(*FIGURES[number])),
        "roc_alt": lambda table: roc_alt(tables[table]),
        "typical": typical,
        "areas": lambda table, measure: span(tables[table].filter(partitioning="equal"), measure),
        "area": area,
        "sd": lambda name: lambda row: _spread(row[name], row["repeats"]),
        "span": span,
        "between": between,
        "gap": lambda part: f"{_gaps(part).mean():.2f}",
        "worst": lambda part: f"{_gaps(part).max():.2f}",
        "near": lambda part: int((_gaps(part) <= CLOSE).sum()),
        "below": lambda part: int((part["median"] < part["r_full"]).sum()),
        "above": lambda part: int((part["median"] > part["r_full"]).sum()),
        "close": CLOSE,
        "falls": (int((sizes <= 0.01).sum()), len(sizes)),
        "moves": float(np.max(moves.to_numpy())),
        "narrows": (int((narrows < 0).sum()), len(narrows)),
        "listed": lambda numbers: ", ".join(f"{number:,}" for number in numbers),
        "why": why(tables["auc-conditions"]),
        "beside": _beside(good, design),
        "conditions_grid": _conditions_grid(tables["auc-conditions"]),
        "clip_grid": _clip_grid(tables, design),
        "choice_grid": _choice_grid(tables["summary"]),
        "beyond_grid": _beyond_grid(tables),
    }


def why(conditions: pl.DataFrame) -> str:
    """What the correlations of the clipped answer with the difference say about the conditions."""
    groups = conditions.group_by("setting", maintain_order=True)
    follow = {name: part for (name,), part in groups}
    even, calm, wild = (follow[name]["follows"].to_numpy() for name in (NORMAL, BOUNDED, PAPER))
    text = (
        f"The clipped answer follows the difference by {span(follow[NORMAL], 'follows')} with "
        f"normal errors, by {span(follow[BOUNDED], 'follows')} in the population without extreme "
        f"weights, and by {span(follow[PAPER], 'follows')} in the paper's. "
    )
    if wild.max() < calm.min():
        text += (
            "This is the condition. Where parts err alike, the clip cuts as many of them on either "
            "side, so their mean still moves with the whole difference. Where weights are "
            "heavy-tailed, one part with the heaviest record holds much of the difference; the "
            "clip bounds that part like any other, and what is left hardly follows. "
        )
    if wild.max() < even.min():
        text += (
            "The large SE ratio of the paper's population is not the reason by itself: with "
            "normal errors the largest ratio costs less. "
        )
    return text + (
        "More epsilon does not bring back what the clip cuts: it is what protects the heaviest "
        "record. A fixed limit on weights, set before the file is served, would help, as the "
        "population without extreme weights shows; the estimates are then those with limited "
        "weights."
    )


def caption(number: int) -> str:
    estimand, synthesis, interval = FIGURES[number]
    data = "a simple random sample" if synthesis == "faithful" else "a biased sample"
    return (
        f"Figure {number}. r_full (red) and posterior medians of r, {interval} intervals, "
        f"population {estimand}. Synthetic data are {data}."
    )


def alt(part: pl.DataFrame) -> str:
    texts = [
        f"alpha {alpha:g}: r_full {span(some, 'r_full')}, mean medians {span(some, 'median')}"
        for (alpha,), some in part.group_by("alpha", maintain_order=True)
    ]
    return "Box plots of posterior medians by design. " + "; ".join(texts) + "."


def roc_alt(table: pl.DataFrame) -> str:
    texts = [
        f"{row['estimand']}, alpha {row['alpha']:g}: discrepancy {row['discrepancy']:.2f}, "
        f"agreement {row['agreement']:.2f}"
        for row in table.filter(partitioning="equal").drop_nulls().iter_rows(named=True)
    ]
    return "ROC curves; areas: " + "; ".join(texts) + "."


def steps(part: pl.DataFrame, along: str, within: list[str], column: str) -> pl.Series:
    """Changes of a column from one value of `along` to the next, all else equal."""
    ordered = part.sort(along).with_columns(step=pl.col(column).diff().over(within))
    return ordered["step"].drop_nulls()


def span(table: pl.DataFrame, column: str) -> str:
    """The range of a column, in words."""
    known = table[column].drop_nulls().to_numpy()
    if not len(known):
        return "unknown"
    low, high = f"{known.min():.2f}", f"{known.max():.2f}"
    return low if low == high else f"{low} to {high}"


def between(row: Row, name: str) -> str:
    """The range of an area over the tolerances."""
    ends = [row[f"{name}_min"], row[f"{name}_max"]]
    return span(pl.DataFrame({name: ends}, schema={name: pl.Float64}), name)


def area(name: str) -> Callable[[Row], str]:
    """A column of a grid: the area and its standard error."""
    return lambda row: "–" if row[name] is None else f"{row[name]:.2f} ({row[f'{name}_se']:.2f})"


def _gaps(part: pl.DataFrame) -> Any:
    return np.abs(part["median"].to_numpy() - part["r_full"].to_numpy())


def _spread(value: float | None, repeats: int) -> str:
    return "–" if value is None or repeats < FEWEST else f"{value:.2f}"


def _with_spread(value: float, spread: float | None, repeats: int) -> str:
    return f"{value:.2f}" + ("" if repeats < FEWEST else f" ({_spread(spread, repeats)})")


def _beside(part: pl.DataFrame, design: VerificationDesign) -> us.Grid:
    """r_full and mean medians of Figure 2 by alpha, each with the paper's words."""
    printed = {alpha: words for alpha, *words in published("verification", "figure-2").iter_rows()}
    rows = []
    for alpha in design.alphas:
        some, paper = part.filter(alpha=alpha), printed.get(alpha, ("–", "–"))
        cells = (span(some, "r_full"), paper[0], span(some, "median"), paper[1])
        rows.append((f"α = {alpha:g}", *cells))
    header = ("", "r_full", "paper", "mean median", "paper")
    return us.Grid("Figure 2 in words and numbers: range over the designs", header, tuple(rows))


def _conditions_grid(table: pl.DataFrame) -> us.Grid:
    def name(row: Row) -> str:
        return f"{row['setting']}" + ("" if row["estimand"] == "any" else f", {row['estimand']}")

    return grid(
        "What the areas depend on: range over the tolerances, equal blocks",
        table,
        [
            ("", name),
            ("SE ratio", "{ratio:.1f}"),
            ("follows", "{follows:.2f}"),
            ("AUC discrepancy", lambda row: between(row, "discrepancy")),
            ("AUC agreement", lambda row: between(row, "agreement")),
        ],
        "auc-conditions.csv",
    )


def _clip_grid(tables: Tables, design: VerificationDesign) -> us.Grid:
    populations = (("paper", "auc"), ("no extreme weights", "auc-bounded"))
    table = pl.concat(
        tables[name].filter(partitioning="equal").with_columns(population=pl.lit(population))
        for population, name in populations
    )
    columns = [(f"c = {clip:g}", area(f"clip {clip:g}")) for clip in design.clips]
    title = "AUC of the discrepancy by its clip, equal blocks"
    return grid(
        title, table, [("", "{population}, {estimand}, α = {alpha:g}"), *columns], "auc.csv"
    )


def _choice_grid(table: pl.DataFrame) -> us.Grid:
    part = table.filter(synthesis="faithful", interval="adjusted")
    rows = []
    for key, some in part.group_by("estimand", "alpha", "n_k", maintain_order=True):
        cells = [
            _with_spread(_mean(answers[mean]), _mean(answers[sd]), int(answers["repeats"][0]))
            for answers in (some.filter(partitioning=name) for name in ("equal", "hash"))
            for mean, sd in (("median", "median_sd"), ("own_median", "own_sd"))
        ]
        name = f"{key[0]}, α = {key[1]:g}, n_k = {key[2]:,}"
        rows.append((name, f"{_mean(some['r_full']):.2f}", *cells))
    header = (
        "", "r_full", "equal, Laplace", "equal, geometric", "hash, Laplace", "hash, geometric"
    )  # fmt: skip
    caption = "Mean (sd) of posterior medians, averaged over M"
    return us.Grid(caption, header, tuple(rows), "summary.csv")


def _mean(values: pl.Series) -> float:
    return float(values.to_numpy().mean())


def _beyond_grid(tables: Tables) -> us.Grid:
    at = ["estimand", "alpha", "M"]
    areas = tables["beyond-auc"].drop("synthesis", "partitioning", "interval", "n_k")
    table = tables["beyond"].filter(interval="adjusted").join(areas, on=at, maintain_order="left")
    return grid(
        "Adjusted intervals, faithful synthesis",
        table,
        [
            ("", "{estimand}, α = {alpha:g}, M = {M}"),
            ("r_full", "{r_full:.2f}"),
            ("mean median (sd)",
             lambda row: _with_spread(row["median"], row["median_sd"], row["repeats"])),
            ("AUC discrepancy", area("discrepancy")),
            ("AUC agreement", area("agreement")),
        ],
        "beyond.csv",
    )  # fmt: skip
