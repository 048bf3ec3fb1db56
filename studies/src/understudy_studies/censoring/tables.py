"""The tables of the study of paper C: the published number, ours, and the difference.

`rows` is the long frame of all replicates: mechanism, epsilon, c1, replicate, bound, count, u_m,
u_a, mean, median, q15, q90. A mechanism whose diagnostics failed has no numbers in that replicate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

import understudy as us
from understudy_studies.censoring.replicate import DOWNSCALED, SHAPES, label
from understudy_studies.framework import published_rows

Vector = NDArray[np.float64]
Key = tuple[str, float | None, float]  # mechanism, epsilon, c1

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
TABLE_2_ROWS = tuple(TABLE_2_COLUMNS)

TABLE_1 = published_rows("censoring", "table-1", 2)  # by mechanism and epsilon
TABLE_2 = published_rows("censoring", "table-2")
TABLE_3 = published_rows("censoring", "table-3", 2)  # by mechanism and c1, at epsilon 4
BOUND_RANGES = published_rows("censoring", "bounds")  # §4.2, over 100 replicates (Figure 10)


def study_tables(
    rows: pl.DataFrame, applied: pl.DataFrame, draws: pl.DataFrame
) -> dict[str, pl.DataFrame]:
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


def count_summary(counts: Vector) -> tuple[float, ...]:
    """Min, Q1, median, mean, Q3, max, sd, as in Table 1."""
    low, q1, median, q3, high = np.quantile(counts, (0, 0.25, 0.5, 0.75, 1))
    spread = float(counts.std(ddof=1)) if len(counts) > 1 else 0.0
    return low, q1, median, float(counts.mean()), q3, high, spread


def table_1(rows: pl.DataFrame) -> pl.DataFrame:
    """Records truncated (Weighted-e) or censored, at c1 = 1; ReferenceCensored has no paper."""
    lines = []
    for key in keys(rows):
        mechanism, epsilon, c1 = key
        counts = values(rows, key, "count")
        if not len(counts) or c1 != 1 or epsilon is None:
            continue
        printed = TABLE_1.get((mechanism, epsilon), (None,) * len(COUNT_SUMMARY))
        lines += _lines(key, COUNT_SUMMARY, printed, count_summary(counts))
    return _frame(lines)


def table_3(rows: pl.DataFrame) -> pl.DataFrame:
    """The same at epsilon 4, without and with downscaling, and ReferenceCensored."""
    lines = []
    for key in keys(rows):
        mechanism, epsilon, c1 = key
        counts = values(rows, key, "count")
        compared = (mechanism, c1) in TABLE_3 and epsilon == DOWNSCALED[0]
        if not len(counts) or not (compared or mechanism == "ReferenceCensored"):
            continue
        printed = TABLE_3[mechanism, c1] if compared else (None,) * len(COUNT_SUMMARY)
        lines += _lines(key, COUNT_SUMMARY, printed, count_summary(counts))
    return _frame(lines)


def bounds_table(rows: pl.DataFrame) -> pl.DataFrame:
    """Smallest, mean and largest record bound over replicates (Figures 2, 6 and 10)."""
    lines = []
    for key in keys(rows):
        numbers = values(rows, key, "bound")
        if len(numbers):
            low, high = BOUND_RANGES.get(key[0], (None, None)) if key[2] == 1 else (None, None)
            ours = (float(numbers.min()), float(numbers.mean()), float(numbers.max()))
            lines += _lines(key, ("min", "mean", "max"), (low, None, high), ours)
    return _frame(lines)


def utility_table(rows: pl.DataFrame) -> pl.DataFrame:
    """U_m and U_a, mean and sd over replicates (Figures 3, 4, 7, 21); C prints no numbers."""
    lines = []
    for key in keys(rows):
        for column, name in (("u_m", "U_m"), ("u_a", "U_a")):
            numbers = values(rows, key, column)
            if len(numbers):
                ours = (float(numbers.mean()), float(numbers.std()))
                lines += _lines(key, (f"mean {name}", f"sd {name}"), (None, None), ours)
    return _frame(lines)


def statistics_table(rows: pl.DataFrame) -> pl.DataFrame:
    """Means over replicates; `published` is the analytic value, C's dashed line."""
    truth = true_statistics()
    lines = []
    for key in keys(rows):
        numbers = {name: values(rows, key, name) for name in STATISTICS}
        if len(numbers["mean"]):
            ours = tuple(float(numbers[name].mean()) for name in STATISTICS)
            lines += _lines(key, STATISTICS, tuple(truth[name] for name in STATISTICS), ours)
    return _frame(lines)


def table_2(rows: pl.DataFrame) -> pl.DataFrame:
    """The application. C does not say how many bins its histogram has: it stands beside both."""
    lines = []
    for row in rows.iter_rows(named=True):
        key = (row["mechanism"], row["epsilon"], row["c1"])
        name = "PH" if key[0] == "PH ln n" else key[0]
        printed = TABLE_2.get(name, (None,) * len(TABLE_2_ROWS))
        known = {**row, "privacy": _privacy(row)}
        ours = tuple(known[column] for column in TABLE_2_COLUMNS.values())
        lines += _lines(key, TABLE_2_ROWS, printed, ours)
    return _frame(lines)


def _privacy(row: dict[str, Any]) -> float | None:
    """Twice the bound for asymptotic mechanisms, the promise for formal ones (C Table 2)."""
    if row["mechanism"] in ("Weighted", "Weighted-e") and row["bound"] is not None:
        return 2.0 * float(row["bound"])
    return None if row["epsilon"] is None else float(row["epsilon"])


def _lines(
    key: Key,
    names: Sequence[str],
    published: Sequence[float | None],
    ours: Sequence[float | None],
) -> list[dict[str, Any]]:
    mechanism, epsilon, c1 = key
    return [
        {
            "mechanism": mechanism,
            "epsilon": epsilon,
            "c1": c1,
            "statistic": name,
            "published": paper,
            "ours": own,
            "difference": None if paper is None or own is None else own - paper,
        }
        for name, paper, own in zip(names, published, ours, strict=True)
    ]


def _frame(lines: list[dict[str, Any]]) -> pl.DataFrame:
    numbers = dict.fromkeys(("epsilon", "c1", "published", "ours", "difference"), pl.Float64)
    schema = {"mechanism": pl.String, **numbers, "statistic": pl.String}
    order = ["mechanism", "epsilon", "c1", "statistic", "published", "ours", "difference"]
    return pl.DataFrame(lines, schema=schema).select(order)


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
