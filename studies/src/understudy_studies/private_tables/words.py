"""The sentences of the page about paper T. They put numbers into words and compute none."""

from __future__ import annotations

import polars as pl

Tables = dict[str, pl.DataFrame]
NAMES = {"count": "counts", "mean(salary)": "mean salaries"}

METHODS = (
    "FBS and FBP: one model for the sample and one for the population it came from; both make "
    "synthetic records with weights, and tables are made from these.",
    "Weighted (T's): risky records count less, until twice the largest record bound times the "
    "number of files is epsilon. Its promise is asymptotic: it holds as surveys grow large.",
    "Laplace (T's): noise on the table itself, scaled to what one record of this sample could "
    "change. Its promise is local: it holds for this one sample.",
    "Censored and ReferenceCensored (ours): contributions of records are cut off, so that the "
    "promise is formal. The reference is another sample of the same size; `drifted` has salaries "
    "that are 10 % too high.",
    "Formulas: `paper` are T's, section 2.3. `recommended` are plain weighted estimation from "
    "files whose weights meet the public sizes of the fields, the same for both models, as "
    "`tabulate` does it (docs/decisions/010).",
    "`file order`: the sample was drawn along a file that lists men before women in every field; "
    "everywhere else it was drawn in random order.",
)

COVERAGE = (
    "Coverage is the share of 95 % intervals that hold the population's value, over the 16 cells "
    "of field by gender. RMSE is over the sample's own: 1 means no more error than the "
    "confidential sample has. The number after ± is the Monte Carlo standard error: another set "
    "of replicates would give figures that differ by as much. The column `with se` is T's RMSE "
    "of Figures 2 and 5 to 7, which adds what the method says of its own error, "
    "sqrt(error² + se²)."
)

BOUNDS = (
    "The record bound is the largest log-likelihood contribution of any record at any draw. T "
    "prints the bounds of one sample; ours are over all samples. Bounds that were tuned lie "
    "within .03 below their target by construction."
)

WEIGHTS = (
    "Weights given the synthetic salaries, one file each. Synthesized weights are drawn from the "
    "model and vary like the confidential ones; smoothed weights are their mean given salary and "
    "predictors (FBS), or by T's rule of the salary alone (FBP)."
)

APPLICATION = (
    "T's public use file of 10,355 doctorate holders is not part of this project. Here is a "
    "simulated file with the published cell sizes and mean salaries and weights that hardly depend "
    "on salary. It is one file, so that differences of a standard error are chance."
)

DIFFERENCES = (
    "Counts by gender: T's FBS covers .98 on average. With samples in random order our intervals, "
    "as long as T's, cover less; with samples in file order they cover T's .98 and more. T's "
    "footnote 2 says that its sample was drawn with replacement, in which order does not matter; "
    "at these fractions that is close to our random order.",
    "FBP's mean salaries: T covers .86 on average by its own formulas, ours cover more. We have "
    "found no reading of T's section 2.3 that gives T's figures, and show both.",
    "Unweighted bounds are larger here than T's, which are of one sample; the table shows the "
    "range over samples.",
)


def summary(tables: Tables, replicates: int) -> tuple[str, ...]:
    """What came out, first and plainly."""
    table = tables["summary"]
    found = [
        f"{replicates} samples of about 1,000 persons from one simulated population of 100,000. "
        "All data are invented; published figures are T's."
    ]
    three = {
        (model, formulas, statistic): pick(table, model, "Weighted", 10.8, formulas, statistic)
        for model in ("FBS", "FBP")
        for formulas in ("paper", "recommended")
        for statistic in NAMES
    }
    if all(three.values()):
        found.append(
            "At epsilon 10.8 with three files, recommended formulas: intervals of 95 % cover "
            + "; ".join(
                f"{_percent(three[model, 'recommended', 'count'])} (counts) and "
                f"{_percent(three[model, 'recommended', 'mean(salary)'])} (mean salaries) "
                f"with {model}"
                for model in ("FBS", "FBP")
            )
            + "."
        )
        laplace = pick(table, "Laplace", "Laplace", 10.8, "paper", "mean(salary)")
        best = three["FBS", "recommended", "mean(salary)"]
        if laplace and best:
            found.append(
                f"Mean salaries from a Laplace table at the same epsilon have "
                f"{laplace['rmse_ratio_16']:.1f} times the error of the confidential sample, and "
                f"{laplace['median_ratio_with_se_16']:.0f} times with the standard errors that it "
                f"reports counted in; synthetic files from FBS have {best['rmse_ratio_16']:.2f} "
                "times."
            )
    ours = pick(table, "FBS", "ReferenceCensored 3", 3.0, "recommended", "mean(salary)")
    beside = three["FBS", "recommended", "mean(salary)"]
    if ours and beside:
        found.append(
            "A formal promise at epsilon 3 (ReferenceCensored, blank) costs "
            f"{100 * (ours['rmse_ratio_16'] / beside['rmse_ratio_16'] - 1):.0f} % more error in "
            "mean salaries than the asymptotic one at 10.8, with FBS."
        )
    return tuple(found)


def pick(
    table: pl.DataFrame, model: str, mechanism: str, epsilon: float, formulas: str, statistic: str
) -> dict[str, float] | None:
    """The line of one method at three files (or one, where a method has no files)."""
    rows = table.filter(
        (pl.col("model") == model)
        & (pl.col("mechanism") == mechanism)
        & (pl.col("epsilon") - epsilon).abs().lt(1e-6)
        & (pl.col("formulas") == formulas)
        & (pl.col("statistic") == statistic)
        & pl.col("m").is_in([1, 3])
    )
    return rows.row(0, named=True) if rows.height == 1 else None


def _percent(row: dict[str, float] | None) -> str:
    return "" if row is None else f"{100 * row['coverage_16']:.0f} %"
