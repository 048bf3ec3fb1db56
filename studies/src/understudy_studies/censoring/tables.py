"""The tables of the study of paper C: the published number, ours, and the difference.

`rows` is the long frame of all replicates: mechanism, epsilon, c1, replicate, bound, count, u_m,
u_a, mean, median, q15, q90. A mechanism whose diagnostics failed has no numbers in that replicate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

import understudy as us
from understudy_studies.censoring.replicate import DOWNSCALED, SHAPES, label
from understudy_studies.framework import Row, Tables, Vector, published_rows

Key = tuple[str, float | None, float]  # mechanism, epsilon, c1
Printed = tuple[float | None, ...]

COLUMNS = ("mechanism", "epsilon", "c1", "statistic", "published", "ours", "difference")

STATISTICS = ("mean", "median", "q15", "q90")
COUNT_SUMMARY = ("min", "Q1", "median", "mean", "Q3", "max", "sd")
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

TABLE_1 = published_rows("censoring", "table-1", 2)  # by mechanism and epsilon
TABLE_2 = published_rows("censoring", "table-2")
TABLE_3 = published_rows("censoring", "table-3", 2)  # by mechanism and c1, at epsilon 4
BOUND_RANGES = published_rows("censoring", "bounds")  # §4.2, over 100 replicates (Figure 10)


def study_tables(rows: pl.DataFrame, applied: pl.DataFrame, draws: pl.DataFrame) -> Tables:
    """Every table that the study writes."""
    long = draws.unpivot(index="density", variable_name="parameter")
    return {
        "table-1": table_1(rows),
        "table-2": table_2(applied),
        "table-3": table_3(rows),
        "bounds": bounds_table(rows),
        "utility": utility_table(rows),
        "statistics": statistics_table(rows),
        "figure-1": long.group_by("density", "parameter", maintain_order=True).agg(
            mean=pl.col("value").mean(), sd=pl.col("value").std()
        ),
        "replicates": rows,
    }


def keys(rows: pl.DataFrame) -> list[Key]:
    """Every mechanism of the study, in the order of the computation."""
    methods = rows.select("mechanism", "epsilon", "c1").unique(maintain_order=True)
    return [(str(m), e, float(c)) for m, e, c in methods.iter_rows()]


def values(rows: pl.DataFrame, key: Key, column: str) -> Vector:
    """One number per replicate, without the replicates in which nothing was released."""
    mechanism, epsilon, c1 = key
    mine = rows.filter(
        pl.col("mechanism") == mechanism,
        pl.col("epsilon").eq_missing(pl.lit(epsilon, pl.Float64)),
        pl.col("c1") == c1,
    )
    return mine[column].drop_nulls().cast(pl.Float64).to_numpy()


def true_statistics() -> dict[str, float]:
    """Mean, median and quantiles of Beta(0.5, 3): the dashed lines of C's figures."""
    beta = stats.beta(*SHAPES)
    return {
        "mean": float(beta.mean()),
        "median": float(beta.ppf(0.5)),
        "q15": float(beta.ppf(0.15)),
        "q90": float(beta.ppf(0.9)),
    }


def count_summary(counts: Vector) -> Printed:
    """Min, Q1, median, mean, Q3, max, sd, as in Table 1."""
    low, q1, median, q3, high = np.quantile(counts, (0, 0.25, 0.5, 0.75, 1)).tolist()
    spread = float(counts.std(ddof=1)) if len(counts) > 1 else 0.0
    return low, q1, median, float(counts.mean()), q3, high, spread


def table_1(rows: pl.DataFrame) -> pl.DataFrame:
    """Records truncated (Weighted-e) or censored, at c1 = 1; ReferenceCensored has no paper."""

    def printed(mechanism: str, epsilon: float | None, c1: float) -> Printed | None:
        shown = c1 == 1 and epsilon is not None
        return TABLE_1.get((mechanism, epsilon), (None,) * 7) if shown else None

    return _beside(rows, ["count"], COUNT_SUMMARY, count_summary, printed)


def table_3(rows: pl.DataFrame) -> pl.DataFrame:
    """The same at epsilon 4, without and with downscaling, and ReferenceCensored."""

    def printed(mechanism: str, epsilon: float | None, c1: float) -> Printed | None:
        if (mechanism, c1) in TABLE_3 and epsilon == DOWNSCALED[0]:
            return TABLE_3[mechanism, c1]
        return (None,) * 7 if mechanism == "ReferenceCensored" else None

    return _beside(rows, ["count"], COUNT_SUMMARY, count_summary, printed)


def bounds_table(rows: pl.DataFrame) -> pl.DataFrame:
    """Smallest, mean and largest record bound over replicates (Figures 2, 6 and 10)."""

    def printed(mechanism: str, _: float | None, c1: float) -> Printed:
        low, high = BOUND_RANGES.get(mechanism if c1 == 1 else "", (None, None))
        return low, None, high

    def summary(bounds: Vector) -> Printed:
        return bounds.min(), bounds.mean(), bounds.max()

    return _beside(rows, ["bound"], ("min", "mean", "max"), summary, printed)


def utility_table(rows: pl.DataFrame) -> pl.DataFrame:
    """U_m and U_a, mean and sd over replicates (Figures 3, 4, 7, 21); C prints no numbers."""
    names = ("mean U_m", "sd U_m", "mean U_a", "sd U_a")

    def summary(u_m: Vector, u_a: Vector) -> Printed:
        return u_m.mean(), u_m.std(), u_a.mean(), u_a.std()

    return _beside(rows, ["u_m", "u_a"], names, summary, lambda *_: (None,) * 4)


def statistics_table(rows: pl.DataFrame) -> pl.DataFrame:
    """Means over replicates; `published` is the analytic value, C's dashed line."""
    truth = tuple(true_statistics()[name] for name in STATISTICS)

    def summary(*columns: Vector) -> Printed:
        return tuple(column.mean() for column in columns)

    return _beside(rows, STATISTICS, STATISTICS, summary, lambda *_: truth)


def _beside(
    rows: pl.DataFrame,
    columns: Sequence[str],
    names: Sequence[str],
    summary: Callable[..., Printed],
    printed: Callable[[str, float | None, float], Printed | None],
) -> pl.DataFrame:
    """Summaries over replicates of every mechanism that released something, beside the published
    ones; `printed` is None for a mechanism that is not in the table."""
    lines = []
    for key in keys(rows):
        numbers, paper = [values(rows, key, column) for column in columns], printed(*key)
        if paper is not None and len(numbers[0]):
            lines += _lines(key, names, paper, summary(*numbers))
    return _frame(lines)


def table_2(rows: pl.DataFrame) -> pl.DataFrame:
    """The application. C does not say how many bins its histogram has: it stands beside both."""
    lines = []
    for row in rows.iter_rows(named=True):
        key = (row["mechanism"], row["epsilon"], row["c1"])
        name = "PH" if key[0] == "PH ln n" else key[0]
        printed = TABLE_2.get(name, (None,) * len(TABLE_2_COLUMNS))
        known = {**row, "privacy": privacy(row)}
        ours = tuple(known[column] for column in TABLE_2_COLUMNS.values())
        lines += _lines(key, tuple(TABLE_2_COLUMNS), printed, ours)
    return _frame(lines)


def privacy(row: Row) -> float | None:
    """Twice the bound for asymptotic mechanisms, the promise for formal ones (C Table 2)."""
    if row["mechanism"] in ("Weighted", "Weighted-e") and row["bound"] is not None:
        return 2.0 * float(row["bound"])
    return None if row["epsilon"] is None else float(row["epsilon"])


def _lines(key: Key, names: Sequence[str], published: Printed, ours: Printed) -> list[Row]:
    return [
        dict(zip(COLUMNS, (*key, name, paper, own), strict=False))
        | {"difference": None if paper is None or own is None else own - paper}
        for name, paper, own in zip(names, published, ours, strict=True)
    ]


def _frame(lines: list[Row]) -> pl.DataFrame:
    texts = {"mechanism": pl.String, "statistic": pl.String}
    return pl.DataFrame(lines, {name: texts.get(name, pl.Float64) for name in COLUMNS})


def by_mechanism(table: pl.DataFrame) -> list[tuple[str, dict[str, tuple[Any, Any]]]]:
    """(row label, {statistic: (ours, published)}) for a page."""
    by_label: dict[str, dict[str, tuple[Any, Any]]] = {}
    for line in table.iter_rows(named=True):
        by_label.setdefault(label(line), {})[line["statistic"]] = (line["ours"], line["published"])
    return list(by_label.items())


def grid(caption: str, table: pl.DataFrame, file: str, style: Mapping[str, str]) -> us.Grid:
    """A row per mechanism, `ours (published)` in each cell; `style` has a format by column."""

    def cell(form: str, pair: tuple[float | None, float | None]) -> str:
        ours, printed = (None if value is None else form.format(value) for value in pair)
        return (ours or "–") + (f" ({printed})" if printed is not None else "")

    rows = tuple(
        (name, *(cell(form, known[column]) for column, form in style.items()))
        for name, known in by_mechanism(table)
    )
    return us.Grid(caption, ("", *style), rows, file)


def facts(tables: Tables, rows: pl.DataFrame) -> Row:
    """Everything the template asks for: single numbers, and the means behind each figure."""
    of_page = ("utility", "statistics", "bounds", "table-1", "table-2")
    known = {name: dict(by_mechanism(tables[name])) for name in of_page}

    def value(table: str, row: str, statistic: str, published: bool = False) -> float | None:
        pair = known[table].get(row, {}).get(statistic)
        return None if pair is None else pair[published]

    def means(number: int) -> list[tuple[str, float]]:
        """The mean of the figure's quantity under each mechanism."""
        column = VIOLINS[f"figure-{number:02d}"][0]
        table, statistic = SHOWN.get(column, ("statistics", column))
        return [(row, pairs[statistic][0]) for row, pairs in known[table].items()]

    return {
        "refused": rows["refused"].drop_nulls().len() if "refused" in rows.columns else 0,
        "tried": rows.filter(pl.col("mechanism") != "Data").height,
        "value": value,
        "means": means,
        "quantity": lambda number: NAMES[VIOLINS[f"figure-{number:02d}"][0]],
        "draws": {
            (row["density"], row["parameter"]): row
            for row in tables["figure-1"].iter_rows(named=True)
        },
        "ours": lambda caption, name, style: grid(caption, tables[name], f"{name}.csv", style),
    }
