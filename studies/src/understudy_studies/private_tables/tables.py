"""The tables of the private-tables study: T's, with ours beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl
from polars import selectors

import understudy as us
from understudy_studies.framework import Row, Tables, Vector, published, with_error
from understudy_studies.page import number
from understudy_studies.private_tables.cells import CELL_COLUMNS, INNER, TOTALS
from understudy_studies.private_tables.replicate import METHOD, NORMAL, SELECTIONS, STATISTICS

KEYS = [*METHOD, "statistic"]
COUNT, MEAN = STATISTICS
MODELS = ("FBS", "FBP")
# readings of T's Tables 4 and 5, for m = 3 and bound 1.8: mechanism and formulas
READINGS = {
    "linear, t": ("Weighted", "paper"),
    "linear, 1.96": ("Weighted", NORMAL),
    "inverse, t": ("Weighted, inverse map", "paper"),
    "inverse, 1.96": ("Weighted, inverse map", NORMAL),
    **{name: (f"Weighted, {name}", "paper") for name in SELECTIONS},
    "recommended": ("Weighted", "recommended"),
}
PLAIN = ~pl.col("mechanism").str.contains(", ")  # one of T's tables under no other reading
SELECTION = pl.col("mechanism").str.extract(f", ({'|'.join(SELECTIONS)})$").fill_null("")
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
    # a sample without records in a cell says nothing of its mean there, and is left out of it
    rows = rows.with_columns(
        pl.col("epsilon").round(6), pl.col("estimate", "se", "lower", "upper").fill_nan(None)
    )
    return rows.join(true, on=["field", "gender", "statistic"], how="left", maintain_order="left")


def study_tables(rows: pl.DataFrame, cells: pl.DataFrame, results: Sequence[Row]) -> Tables:
    """Every table of the simulation."""
    read = [
        cells.filter(epsilon=10.8, m=3, mechanism=mechanism, formulas=formulas).with_columns(
            reading=pl.lit(reading)
        )
        for reading, (mechanism, formulas) in READINGS.items()
    ]
    simulated = pl.concat(read).filter(pl.col("field") != "All", pl.col("model").is_in(MODELS))
    return {
        "summary": with_errors(rows, cells),
        "table4_counts": _read(4, COUNT, simulated),
        "table5_means": _read(5, MEAN, simulated),
        "readings": pl.concat(readings(n, s, simulated) for n, s in ((4, COUNT), (5, MEAN))),
        "interval_lengths": _length_ratios(cells),
        "bounds": _bounds(results),
    }


def application_tables(applied: pl.DataFrame) -> Tables:
    """T's Tables 2 and 3, with ours beside them."""
    released = {
        method: applied.filter(method=method).rename({"estimate": "est"})
        for method in ("Sample", "Laplace", "FBS", "FBP", "FBS paper", "FBP paper")
    }
    return {
        "table2_counts": _beside(2, COUNT, released, ("est", "se")),
        "table3_means": _beside(3, MEAN, released, ("est", "se")),
    }


def with_errors(rows: pl.DataFrame, cells: pl.DataFrame) -> pl.DataFrame:
    """One line per method with its Monte Carlo errors."""
    errors = monte_carlo_errors(rows)
    return summary(cells).join(errors, on=KEYS, how="left", maintain_order="left")


def _read(number: int, statistic: str, simulated: pl.DataFrame) -> pl.DataFrame:
    """Coverage and mean length of every cell: T's under the reading `T`, then each of ours."""
    keys = ["field", "gender", "model", "reading"]
    printed = printed_table(number)
    theirs = [
        printed.select(
            "field", "gender", model=pl.lit(model), reading=pl.lit("T"),
            coverage=f"{model}_coverage", length=f"{model}_length",
        )
        for model in MODELS
    ]  # fmt: skip
    ours = simulated.filter(statistic=statistic).select(*keys, "coverage", "length")
    return pl.concat([*theirs, ours])


def readings(number: int, statistic: str, simulated: pl.DataFrame) -> pl.DataFrame:
    """One line for T and each reading of it: coverage over the 16 cells and the eight field totals,
    and the length over T's, its mean over all 24."""
    lines = _read(number, statistic, simulated)
    own = pl.col("length").filter(pl.col("reading") == "T").first()
    inner = pl.col("gender") != "All"
    return (
        lines.with_columns(ratio=pl.col("length") / own.over("field", "gender", "model"))
        .group_by("model", "reading", maintain_order=True)
        .agg(
            coverage_16=pl.col("coverage").filter(inner).mean(),
            coverage_fields=pl.col("coverage").filter(~inner).mean(),
            length_over_T=pl.col("ratio").mean(),
        )
        .select(pl.lit(statistic).alias("statistic"), pl.all())
        .sort("model", descending=True, maintain_order=True)
    )


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
    return own.over(SELECTION, "statistic", "field", "gender", *within)


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
        "cells_of": lambda name, methods, caption: cell_grid(
            of_methods(tables[name], methods), list(methods), caption, f"{name}.csv"
        ),
        "read_cells": lambda name, model, names, caption: cell_grid(
            of_readings(tables[name], model, names), names, caption, f"{name}.csv"
        ),
        "split_of": partial(best_split, tables["noise"]),
        "reading": lambda statistic, model, name: (
            tables["readings"]
            .filter(statistic=statistic, model=model, reading=name)
            .row(0, named=True)
        ),
        "lengths": wide.with_columns(bound=pl.col("epsilon") / (2 * pl.col("m"))),
        "refused": [text for result in results for text in result["facts"]["refused"]],
    }


def best_split(noise: pl.DataFrame, statistic: str) -> str:
    """The way to divide epsilon whose intervals have the least score."""
    tried = noise.filter(pl.col("mechanism") != "none", statistic=statistic)
    return str(tried.sort("score_ratio")["mechanism"][0])


def error_of(lines: pl.DataFrame, model: str, mechanism: str, statistic: str) -> float:
    """The RMSE ratio of one method over the 16 cells."""
    line = lines.filter(model=model, mechanism=mechanism, statistic=statistic)
    return float(line["rmse_ratio_16"].item())


def split(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Three files and the bound 1.8, then everything else."""
    files = pl.when(pl.col("model").is_in(["FBS", "FBP"])).then(3).otherwise(1)
    shown = (pl.col("m") == files) & (pl.col("epsilon") < 11)
    return rows.filter(shown), rows.filter(~shown)


def cell_grid(table: pl.DataFrame, pairs: Sequence[str], caption: str, file: str) -> us.Grid:
    """By field and gender; a column for each name of `pairs` shows its two numbers, the second, a
    standard error or a length, in brackets."""

    def shown(first: float | None, second: float | None) -> str:
        return "–" if first is None else f"{number(first, 3, 100)} ({number(second, 3, 100)})"

    body = [
        (
            f"Field {field}, {gender}".replace("Field All", "All fields"),
            *(shown(*values[2 * k : 2 * k + 2]) for k in range(len(pairs))),
        )
        for field, gender, *values in table.iter_rows()
    ]
    return us.Grid(caption, ("", *pairs), tuple(body), file)


def of_methods(table: pl.DataFrame, methods: Mapping[str, str]) -> pl.DataFrame:
    """T's Table 2 or 3, or ours in its place: est and se of each method, by its column's start."""
    columns = [f"{start}_{number}" for start in methods.values() for number in ("est", "se")]
    return table.select("field", "gender", *columns)


def of_readings(lines: pl.DataFrame, model: str, names: Sequence[str]) -> pl.DataFrame:
    """T's Table 4 or 5 of one model: coverage and length under each reading."""
    own = lines.filter(pl.col("reading").is_in(names), model=model)
    wide = own.pivot("reading", index=["field", "gender"], values=["coverage", "length"])
    columns = [f"{value}_{name}" for name in names for value in ("coverage", "length")]
    return wide.select("field", "gender", *columns)
