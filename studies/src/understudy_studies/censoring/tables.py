"""The tables of the study of paper C: the published number, ours, and the difference.

`rows` is the long frame of all replicates: mechanism, epsilon, c1, replicate, bound, count, u_m,
u_a, mean, median, q15, q90. A mechanism whose diagnostics failed has no numbers in that replicate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from scipy import stats

import understudy as us
from understudy_studies.censoring.replicate import (
    DOWNSCALED,
    QUANTILES,
    SHAPES,
    UNREFITTED,
    label,
)
from understudy_studies.framework import (
    Row,
    Tables,
    beside_published,
    in_lines,
    published,
)

KEYS = ["mechanism", "epsilon", "c1"]
STATISTICS = ("mean", *QUANTILES)
COUNT = pl.col("count").cast(pl.Float64)
COUNT_SUMMARY = {
    "min": COUNT.min(),
    "Q1": COUNT.quantile(0.25, "linear"),
    "median": COUNT.median(),
    "mean": COUNT.mean(),
    "Q3": COUNT.quantile(0.75, "linear"),
    "max": COUNT.max(),
    "sd": COUNT.std().fill_null(0.0),
}
TABLE_2_COLUMNS = {
    "Lipschitz": "bound",
    "Privacy epsilon": "privacy",
    "max-ECDF": "u_m",
    "avg-ECDF": "u_a",
    "Mean": "mean",
    "Median": "median",
    "15th Q": "q15",
    "90th Q": "q90",
}
# twice the bound for asymptotic mechanisms, the promise for formal ones (C Table 2)
PRIVACY = (
    pl.when(pl.col("mechanism").str.starts_with("Weighted") & pl.col("bound").is_not_null())
    .then(2 * pl.col("bound"))
    .otherwise("epsilon")
)

# the table and the statistic whose means say what a violin plot of a column shows
SHOWN = {
    "bound": ("bounds", "mean"),
    "u_m": ("utility", "mean U_m"),
    "u_a": ("utility", "mean U_a"),
}

NAMES = {
    "bound": "record bound",
    "u_m": "U_m: largest difference of the ECDFs",
    "u_a": "U_a: mean squared difference of the ECDFs",
    "mean": "mean of the synthetic file",
    "median": "median of the synthetic file",
    "q15": "15th quantile of the synthetic file",
    "q90": "90th quantile of the synthetic file",
}
# C's figures by number: the column, and which of its comparisons. Its Figures 16 to 20 repeat
# 5, 12, 13, 14 and 15.
VIOLINS = {
    "figure-02": ("bound", "epsilons"),
    "figure-03": ("u_m", "epsilons"),
    "figure-04": ("u_a", "epsilons"),
    "figure-05": ("median", "epsilon 5"),
    "figure-06": ("bound", "downscaling"),
    "figure-07": ("u_a", "downscaling"),
    "figure-08": ("q15", "downscaling and Censor_uw"),
    "figure-10": ("bound", "with unweighted"),
    "figure-11": ("q15", "epsilon 5"),
    "figure-12": ("q90", "epsilon 5"),
    "figure-13": ("q15", "epsilons"),
    "figure-14": ("q90", "epsilons"),
    "figure-15": ("median", "epsilons"),
    "figure-21": ("u_m", "downscaling"),
    "figure-22": ("mean", "downscaling"),
    "figure-23": ("median", "downscaling and Censor_uw"),
    "figure-24": ("q90", "downscaling"),
}


def study_tables(rows: pl.DataFrame, draws: pl.DataFrame) -> Tables:
    """Every table of the simulation."""
    long = draws.unpivot(index="density", variable_name="parameter")
    value, bound, u_m, u_a = (pl.col(name) for name in ("value", "bound", "u_m", "u_a"))
    # C §4.2 has ranges of bounds over 100 replicates, and prints no numbers for utility
    bounds = {"min": bound.min(), "mean": bound.mean(), "max": bound.max()}
    ranges = published("censoring", "bounds").with_columns(c1=pl.lit(1.0))
    utility = {
        "mean U_m": u_m.mean(),
        "sd U_m": u_m.std(ddof=0),
        "mean U_a": u_a.mean(),
        "sd U_a": u_a.std(ddof=0),
    }
    means = {name: pl.col(name).mean() for name in STATISTICS}
    truth = rows.select("mechanism").unique().with_columns(**true_statistics())
    return {
        "table-1": table_1(rows),
        "table-3": table_3(rows),
        "bounds": _over_replicates(rows, bounds, ranges),
        "utility": _over_replicates(rows, utility, pl.DataFrame(schema={"mechanism": pl.String})),
        "statistics": _over_replicates(rows, means, truth),
        "figure-1": long.group_by("density", "parameter", maintain_order=True).agg(
            mean=value.mean(), sd=value.std()
        ),
        "replicates": rows,
    }


def true_statistics() -> dict[str, float]:
    """Mean, median and quantiles of Beta(0.5, 3): the dashed lines of C's figures."""
    beta = stats.beta(*SHAPES)
    shares = {name: float(beta.ppf(share)) for name, share in QUANTILES.items()}
    return {"mean": float(beta.mean()), **shares}


def table_1(rows: pl.DataFrame) -> pl.DataFrame:
    """Records truncated (Weighted-e) or censored, at c1 = 1; ReferenceCensored has no paper."""
    shown = rows.filter(pl.col("epsilon").is_not_null(), c1=1.0)
    return _over_replicates(shown, COUNT_SUMMARY, both_readings("table-1"))


def both_readings(name: str) -> pl.DataFrame:
    """A table of C; its line of Weighted-e stands beside both readings of it."""
    printed = published("censoring", name)
    again = printed.filter(mechanism="Weighted-e").with_columns(mechanism=pl.lit(UNREFITTED))
    return pl.concat([printed, again])


def table_2(applied: pl.DataFrame) -> pl.DataFrame:
    """The application. C does not say how many bins its histogram has: it stands beside both."""
    printed = both_readings("table-2")
    histogram = printed.filter(mechanism="PH").with_columns(mechanism=pl.lit("PH ln n"))
    return _beside(applied.select(*KEYS, **TABLE_2_COLUMNS), pl.concat([printed, histogram]))


def table_3(rows: pl.DataFrame) -> pl.DataFrame:
    """The same at epsilon 4, without and with downscaling, and ReferenceCensored."""
    printed = both_readings("table-3")
    downscaled = pl.col("mechanism").is_in(printed["mechanism"].unique().to_list())
    ours = pl.col("mechanism") == "ReferenceCensored"
    shown = rows.filter(ours | (downscaled & (pl.col("epsilon") == DOWNSCALED[0])))
    return _over_replicates(shown, COUNT_SUMMARY, printed)


def _over_replicates(
    rows: pl.DataFrame, summary: Mapping[str, pl.Expr], printed: pl.DataFrame
) -> pl.DataFrame:
    """Summaries of every mechanism that released something, beside the published ones."""
    ours = rows.group_by(KEYS, maintain_order=True).agg(**summary)
    return _beside(ours.drop_nulls(next(iter(summary))), printed)


def _beside(ours: pl.DataFrame, printed: pl.DataFrame) -> pl.DataFrame:
    """A line for each mechanism and statistic, with the published number and the difference."""
    lines = in_lines(ours, KEYS, "statistic", "ours")
    table = beside_published(lines, printed, "statistic")
    return table.with_columns(difference=pl.col("ours") - pl.col("published"))


def by_mechanism(table: pl.DataFrame) -> dict[str, dict[str, tuple[Any, Any]]]:
    """{row label: {statistic: (ours, published)}} for a page."""
    by_label: dict[str, dict[str, tuple[Any, Any]]] = {}
    for line in table.iter_rows(named=True):
        by_label.setdefault(label(line), {})[line["statistic"]] = (line["ours"], line["published"])
    return by_label


def grid(caption: str, table: pl.DataFrame, file: str, style: Mapping[str, str]) -> us.Grid:
    """A row per mechanism, `ours (published)` in each cell; `style` has a format by column."""

    def cell(form: str, pair: tuple[float | None, float | None]) -> str:
        ours, printed = (None if value is None else form.format(value) for value in pair)
        return (ours or "–") + (f" ({printed})" if printed is not None else "")

    rows = tuple(
        (name, *(cell(form, known[column]) for column, form in style.items()))
        for name, known in by_mechanism(table).items()
    )
    return us.Grid(caption, ("", *style), rows, file)


def facts(tables: Tables) -> Row:
    """Everything the template asks for: single numbers, and the means behind each figure."""
    of_page = ("utility", "statistics", "bounds", "table-1", "table-2")
    known = {name: by_mechanism(tables[name]) for name in of_page if name in tables}

    def value(table: str, row: str, statistic: str, published: bool = False) -> float | None:
        pair = known[table].get(row, {}).get(statistic)
        return None if pair is None else pair[published]

    def means(number: int) -> list[tuple[str, float]]:
        """The mean of the figure's quantity under each mechanism."""
        column = VIOLINS[f"figure-{number:02d}"][0]
        table, statistic = SHOWN.get(column, ("statistics", column))
        return [(row, pairs[statistic][0]) for row, pairs in known[table].items()]

    return {
        "value": value,
        "means": means,
        "quantity": lambda number: NAMES[VIOLINS[f"figure-{number:02d}"][0]],
        "ours": lambda caption, name, style: grid(caption, tables[name], f"{name}.csv", style),
    }
