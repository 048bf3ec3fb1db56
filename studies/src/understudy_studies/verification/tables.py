"""From stored answers to tables and facts: posterior medians, r_full, ROC and AUC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import polars as pl

import understudy as us
from understudy_studies.framework import FEWEST, Row, Tables, stacked
from understudy_studies.verification.figures import FIGURES
from understudy_studies.verification.influence import influence_table
from understudy_studies.verification.normal import conditions, normal_table
from understudy_studies.verification.replicate import VerificationDesign
from understudy_studies.verification.roc import measured, scores_of

Noise = Literal["geometric", "laplace"]

KEYS = ["estimand", "synthesis", "partitioning", "interval", "alpha", "n_k", "M"]
NORMAL = 4  # times as many pairs as the ROC of a population has: they cost less
CLOSE = 0.1  # a mean median so near to r_full leads an analyst to the same conclusion
EVEN, BOUNDED, PAPER = "normal errors", "no extreme weights", "the paper's population"
POINTS = 4001  # of the grid on which the median of a posterior (V eq. 4) is found


def study_tables(rows: Tables, design: VerificationDesign, repeats: int) -> Tables:
    """Every table that the study writes."""
    answers = rows["answers"]
    tables = {
        "summary": summary(answers),
        "auc": auc_table(rows["more"]),
        "auc-bounded": auc_table(rows["bounded"]),
        "auc-designs": auc_table(answers.filter(synthesis="faithful", partitioning="equal")),
        "auc-normal": normal_table(
            sorted({*design.partitions, design.roc_partitions}),
            design.epsilon,
            NORMAL * repeats * design.roc_pairs,
        ),
        "influence": influence_table(rows["influence"]),
    }
    populations = {
        BOUNDED: (rows["bounded"], tables["auc-bounded"]),
        PAPER: (rows["more"], tables["auc"]),
    }
    tables["auc-conditions"] = conditions(tables["auc-normal"], design.roc_partitions, populations)
    return tables


def rows_of(results: Sequence[Row], part: str, epsilon: float) -> pl.DataFrame:
    """All repeats' answers with `inside` (Q of V §4) and posterior medians under both noises."""
    noises: tuple[tuple[str, Noise], ...] = (("median", "laplace"), ("own_median", "geometric"))

    def with_medians(some: pl.DataFrame) -> pl.DataFrame:
        for column, noise in noises:
            noisy = some[noise].cast(pl.Float64).to_numpy()
            medians = us.agreement_medians(noisy, some["M"][0], epsilon, noise, POINTS)
            some = some.with_columns(pl.Series(column, medians))
        return some

    rows = stacked(results, part).with_row_index()
    rows = rows.with_columns(inside=pl.col("distance").abs() <= pl.col("alpha"))
    # slices bound the memory
    parts = [some for group in rows.partition_by("M") for some in group.iter_slices(2000)]
    return pl.concat(map(with_medians, parts)).sort("index").drop("index")


def summary(rows: pl.DataFrame) -> pl.DataFrame:
    """r_full and the posterior medians of every setting, over repeats."""
    return rows.group_by(KEYS, maintain_order=True).agg(
        r_full=pl.col("inside").mean(),
        median=pl.col("median").mean(),
        median_sd=pl.col("median").std(),
        q1=pl.col("median").quantile(0.25),
        q3=pl.col("median").quantile(0.75),
        own_median=pl.col("own_median").mean(),
        own_sd=pl.col("own_median").std(),
        share=(pl.col("count") / pl.col("M")).mean(),
        repeats=pl.len(),
    )


def auc_table(rows: pl.DataFrame) -> pl.DataFrame:
    """How well each measure tells whether the confidential estimate is inside the tolerance."""
    lines = []
    for key, part in rows.filter(interval="adjusted").group_by(KEYS, maintain_order=True):
        inside = part["inside"].to_numpy()
        chance = {"pairs": len(part), "inside": float(inside.mean())}
        numbers = measured(scores_of(part), inside)
        lines.append(dict(zip(KEYS, key, strict=True)) | chance | numbers)
    return pl.DataFrame(lines, infer_schema_length=None)


def facts(
    tables: Tables, design: VerificationDesign, results: Sequence[Row], answers: pl.DataFrame
) -> Row:
    """Everything the template asks for: the settings of each figure against r_full, areas under
    the ROC, and tables put together for a grid."""
    biased = answers.filter(partitioning="equal", estimand="total", synthesis="biased")["centre"]
    summary = tables["summary"].filter(partitioning="equal")

    def setting(estimand: str, synthesis: str, interval: str) -> Row:
        """The mean medians of a figure's designs against r_full."""
        rows = summary.filter(estimand=estimand, synthesis=synthesis, interval=interval)
        gaps = rows["median"] - rows["r_full"]
        return {
            "rows": rows,
            "designs": rows.height,
            "gap": gaps.abs().mean(),
            "worst": gaps.abs().max(),
            "near": (gaps.abs() <= CLOSE).sum(),
            "below": (gaps < 0).sum(),
            "above": (gaps > 0).sum(),
        }

    def typical(table: str, measure: str) -> float:
        known = tables[table].filter(partitioning="equal")[measure].drop_nulls().to_numpy()
        return float(known.mean()) if len(known) else float("nan")

    def changes(along: str, within: Sequence[str], column: str) -> pl.Series:
        """Of a column from one value of `along` to the next, all else equal."""
        steps: pl.DataFrame = good["rows"].sort(along).select(pl.col(column).diff().over(within))
        return steps[column].drop_nulls()

    good = setting("total", "faithful", "adjusted")
    median = pl.col("median")
    moves = good["rows"].group_by("alpha", "n_k").agg(move=median.max() - median.min())["move"]
    sizes = changes("n_k", ["alpha", "M"], "median")
    narrows = changes("M", ["alpha", "n_k"], "median_sd")
    even, calm, wild = (
        tables["auc-conditions"].filter(setting=name)["follows"].to_numpy()
        for name in (EVEN, BOUNDED, PAPER)
    )
    return {
        "tau": float(results[0]["tau"]),
        "unweighted": biased.mean(),
        "setting": setting,
        "good": good,
        "all_low": summary.filter(synthesis="biased", interval="adjusted"),
        "figures": FIGURES,
        "typical": typical,
        "area": area,
        "spread": spread,
        "close": CLOSE,
        "falls": (int((sizes <= 0.01).sum()), len(sizes)),
        "moves": moves.max(),
        "narrows": (int((narrows < 0).sum()), len(narrows)),
        "follows": {"even": even, "calm": calm, "wild": wild},
        "weights_decide": wild.max() < calm.min(),
        "ratio_is_not_it": wild.max() < even.min(),
        "clipped": pl.concat(
            tables[name].filter(partitioning="equal").with_columns(population=pl.lit(population))
            for population, name in (("paper", "auc"), (BOUNDED, "auc-bounded"))
        ),
        "clips": [(f"c = {clip:g}", area(f"clip {clip:g}")) for clip in design.clips],
        "choices": choices(tables["summary"]),
    }


def area(name: str) -> Callable[[Row], str]:
    """A column of a grid: the area and its standard error."""
    return lambda row: "–" if row[name] is None else f"{row[name]:.2f} ({row[f'{name}_se']:.2f})"


def spread(sd: str, mean: str = "") -> Callable[[Row], str]:
    """A column of a grid: a standard deviation, where the repeats are enough, after its mean."""

    def cell(row: Row) -> str:
        enough = row["repeats"] >= FEWEST
        if not mean:
            return f"{row[sd]:.2f}" if enough else "–"
        return f"{row[mean]:.2f}" + (f" ({row[sd]:.2f})" if enough else "")

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
