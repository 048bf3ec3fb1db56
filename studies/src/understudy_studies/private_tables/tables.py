"""The tables of the private-tables study: T's, with ours beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from polars import selectors

import understudy as us
from understudy_studies.framework import Row, Tables, Vector, published, with_error
from understudy_studies.page import number
from understudy_studies.private_tables.cells import CELL_COLUMNS, INNER, TOTALS
from understudy_studies.private_tables.replicate import METHOD

KEYS = [*METHOD, "statistic"]
COUNT, MEAN = "count", "mean(salary)"
FILE_ORDER = "file order"
# ours beside T's Tables 4 and 5, for m = 3 and bound 1.8: mechanism and formulas
SHOWN = {
    "paper": ("Weighted", "paper"),
    "recommended": ("Weighted", "recommended"),
    "paper_file_order": (f"Weighted, {FILE_ORDER}", "paper"),
}
IN_FILE_ORDER = pl.col("mechanism").str.ends_with(FILE_ORDER)
ROUNDING = 1e-9  # relative: a count whose size is public has an interval of no width
COVERED = (pl.col("lower") <= pl.col("truth") * (1 + ROUNDING)) & (
    pl.col("truth") * (1 - ROUNDING) <= pl.col("upper")
)
ERROR = pl.col("estimate") - pl.col("truth")
WITH_SE = (ERROR**2 + pl.col("se") ** 2).sqrt()


def study_rows(results: Sequence[Row], truth: dict[str, Vector]) -> pl.DataFrame:
    """Every method's estimates of every cell and replicate, with the true values beside them."""
    cells = CELL_COLUMNS.with_columns(inner=INNER, total=TOTALS)
    true = pl.concat(
        cells.with_columns(pl.Series("truth", values), statistic=pl.lit(statistic))
        for statistic, values in truth.items()
    )
    rows = pl.concat([pl.DataFrame(result["rows"]) for result in results])
    rows = rows.with_columns(pl.col("epsilon").round(6))
    return rows.join(true, on=["field", "gender", "statistic"], how="left", maintain_order="left")


def study_tables(
    rows: pl.DataFrame, cells: pl.DataFrame, results: Sequence[Row], applied: pl.DataFrame
) -> Tables:
    """Every table that the study writes."""
    three = cells.filter(epsilon=10.8, m=3)
    simulated = {
        f"{model}_{label}": three.filter(model=model, mechanism=mechanism, formulas=formulas)
        for model in ("FBS", "FBP")
        for label, (mechanism, formulas) in SHOWN.items()
    }
    released = {
        method: applied.filter(method=method).rename({"estimate": "est"})
        for method in ("Sample", "Laplace", "FBS", "FBP", "FBS paper", "FBP paper")
    }
    return {
        "summary": with_errors(rows, cells),
        "table4_counts": _beside(4, COUNT, simulated, ("coverage", "length")),
        "table5_means": _beside(5, MEAN, simulated, ("coverage", "length")),
        "interval_lengths": _length_ratios(cells),
        "bounds": _bounds(results),
        "table2_counts": _beside(2, COUNT, released, ("est", "se")),
        "table3_means": _beside(3, MEAN, released, ("est", "se")),
    }


def with_errors(rows: pl.DataFrame, cells: pl.DataFrame) -> pl.DataFrame:
    """One line per method with its Monte Carlo errors."""
    errors = monte_carlo_errors(rows)
    return summary(cells).join(errors, on=KEYS, how="left", maintain_order="left")


def _beside(
    number: int, statistic: str, ours: Mapping[str, pl.DataFrame], columns: Sequence[str]
) -> pl.DataFrame:
    """T's table with our columns of each method beside it, by cell."""
    table = printed_table(number)
    for name, rows in ours.items():
        shown = pl.col(columns).name.prefix(f"our_{name}_")
        part = rows.filter(statistic=statistic).select("field", "gender", shown)
        table = table.join(part, on=["field", "gender"], how="left", maintain_order="left")
    return table


def printed_table(number: int) -> pl.DataFrame:
    """T's Tables 2 to 5, by cell; numbers are floats, as ours are."""
    table = published("private-tables", f"table-{number}")
    return table.cast({selectors.exclude("field", "gender"): pl.Float64, "field": pl.String})


def of_sample(column: str, *within: str) -> pl.Expr:
    """What the sample itself has of a column in the same cell."""
    own = pl.col(column).filter(pl.col("model") == "Sample").first()
    return own.over(IN_FILE_ORDER, "statistic", "field", "gender", *within)


def by_cell(rows: pl.DataFrame) -> pl.DataFrame:
    """Coverage, mean length, CV, bias and RMSE over the replicates, by method and cell."""
    return rows.group_by([*KEYS, "field", "gender", "inner", "total"], maintain_order=True).agg(
        pl.col("truth").first(),
        coverage=COVERED.mean(),
        length=(pl.col("upper") - pl.col("lower")).mean(),
        cv=(pl.col("se") / pl.col("estimate").abs()).mean(),
        bias=ERROR.mean(),
        rmse=(ERROR**2).mean().sqrt(),
        rmse_with_se=WITH_SE.mean(),
        replicates=pl.len(),
    )


def summary(cells: pl.DataFrame) -> pl.DataFrame:
    """One line per method: the 16 innermost cells and the eight field totals.

    RMSE ratios are over the sample's own. `rmse_with_se` is T's measure in Figures 2 and 5 to 7,
    sqrt(error^2 + se^2) of one table, which holds what the method itself says of its error.
    """
    ratios = {name: pl.col(name) / of_sample(name) for name in ("rmse", "rmse_with_se")}

    def inner(name: str) -> pl.Expr:
        return pl.col(name).filter("inner")

    return (
        cells.with_columns(**ratios)
        .group_by(KEYS, maintain_order=True)
        .agg(
            coverage_16=inner("coverage").mean(),
            coverage_fields=pl.col("coverage").filter("total").mean(),
            length_16=inner("length").mean(),
            rmse_ratio_16=inner("rmse").mean(),
            median_rmse_ratio_16=inner("rmse").median(),
            median_ratio_with_se_16=inner("rmse_with_se").median(),
            replicates=pl.col("replicates").max(),
        )
    )


def monte_carlo_errors(rows: pl.DataFrame) -> pl.DataFrame:
    """Errors of `coverage_16`, `coverage_fields` and `rmse_ratio_16`, one line per method.

    Cells of one replicate depend on each other, so that a replicate is the unit: coverage has the
    standard error of the replicates' mean coverages, and RMSE ratios the jackknife's.
    """
    squared = rows.with_columns(squared=ERROR**2)
    both = squared.with_columns(own=of_sample("squared", "replicate"))
    others, own = (
        pl.col(name).sum().over(*KEYS, "field", "gender") - pl.col(name)
        for name in ("squared", "own")
    )
    left_out = both.with_columns(ratio=(others / own).sqrt())
    replicates = left_out.group_by(*KEYS, "replicate", maintain_order=True).agg(
        coverage_16=COVERED.filter("inner").mean(),
        coverage_fields=COVERED.filter("total").mean(),
        ratio=pl.col("ratio").filter("inner").mean(),
    )
    jackknife = ((pl.len() - 1) * pl.col("ratio").var(ddof=0)).sqrt()
    return replicates.group_by(KEYS, maintain_order=True).agg(
        (pl.col("coverage_16", "coverage_fields").std() / pl.len().sqrt()).name.suffix("_error"),
        rmse_ratio_16_error=pl.when(pl.len() > 2).then(jackknife),
    )


def _length_ratios(cells: pl.DataFrame) -> pl.DataFrame:
    """Mean over cells of FBP's length over FBS's, by (m, bound), beside T's captions."""
    shape = ["m", "epsilon", "formulas", "statistic"]
    weighted = cells.filter(pl.col("field") != "All", mechanism="Weighted")
    wide = weighted.pivot(on="model", index=[*shape, "field", "gender"], values="length")
    ratio = (pl.col("FBP") / pl.col("FBS")).mean()
    captions = published("private-tables", "interval-lengths")
    printed = captions.with_columns(epsilon=(2 * pl.col("m") * pl.col("bound")).round(6)).unpivot(
        [COUNT, MEAN], index=["m", "epsilon"], variable_name="statistic", value_name="T"
    )
    return (
        wide.group_by(shape, maintain_order=True)
        .agg(ours=ratio)
        .join(printed, on=["m", "epsilon", "statistic"], how="left", maintain_order="left")
    )


def _bounds(results: Sequence[Row]) -> pl.DataFrame:
    """Overall bounds over the replicates, and T's of its one sample."""
    printed = published("private-tables", "unweighted-bounds").filter(data="simulation")
    unweighted = {f"{model} unweighted": bound for _, model, bound in printed.iter_rows()}
    fit, bound = pl.col("fit"), pl.col("bound")
    target = fit.str.extract(r"([\d.]+)$").cast(pl.Float64)
    samples = pl.DataFrame([result["facts"] for result in results]).drop("refused")
    lines = samples.unpivot(variable_name="fit", value_name="bound")
    return (
        lines.group_by("fit", maintain_order=True)
        .agg(mean=bound.mean(), least=bound.min(), largest=bound.max())
        .with_columns(T=target.fill_null(fit.replace_strict(unweighted, default=None)))
    )


def facts(tables: Tables, results: Sequence[Row]) -> Row:
    """What the template asks for beside the tables."""
    lengths = tables["interval_lengths"].filter(formulas="paper")
    wide = lengths.pivot("statistic", index=["m", "epsilon"], values=["ours", "T"])
    return {
        "with_error": with_error,
        "error_of": error_of,
        "split": split,
        "cell_grid": lambda name, caption: cell_grid(tables[name], name, caption),
        "lengths": wide.with_columns(bound=pl.col("epsilon") / (2 * pl.col("m"))),
        "refused": [text for result in results for text in result["facts"]["refused"]],
    }


def error_of(lines: pl.DataFrame, model: str, mechanism: str, statistic: str) -> float:
    """The RMSE ratio of one method over the 16 cells."""
    line = lines.filter(model=model, mechanism=mechanism, statistic=statistic)
    return float(line["rmse_ratio_16"].item())


def split(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Three files and the bound 1.8, then everything else."""
    files = pl.when(pl.col("model").is_in(["FBS", "FBP"])).then(3).otherwise(1)
    shown = (pl.col("m") == files) & (pl.col("epsilon") < 11)
    return rows.filter(shown), rows.filter(~shown)


def cell_grid(table: pl.DataFrame, name: str, caption: str) -> us.Grid:
    """T's columns first, then ours, by field and gender."""

    def title(column: str) -> str:
        who = "ours: " if column.startswith("our_") else ""
        return who + column.removeprefix("our_").replace("_", " ").replace(" est", "")

    rows = tuple(
        (
            f"Field {field}, {gender}".replace("Field All", "All fields"),
            *(number(value, 3, 100) for value in values),
        )
        for field, gender, *values in table.iter_rows()
    )
    return us.Grid(caption, ("", *map(title, table.columns[2:])), rows, f"{name}.csv")
