"""Everything the study of paper C writes: tables as CSV, figures, and study.html."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

import understudy as us
from understudy_studies.censoring import words as words
from understudy_studies.censoring.figures import (
    density_figure,
    parameter_figure,
    violin_figure,
)
from understudy_studies.censoring.mechanisms import CensoringDesign, label
from understudy_studies.censoring.published import COUNT_SUMMARY, TABLE_2_ROWS
from understudy_studies.censoring.tables import (
    Key,
    bounds_table,
    by_mechanism,
    keys,
    statistics_table,
    table_1,
    table_2,
    table_3,
    true_statistics,
    utility_table,
    values,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = {
    "bound": "record bound",
    "u_m": "U_m: largest difference of the ECDFs",
    "u_a": "U_a: mean squared difference of the ECDFs",
    "mean": "mean of the synthetic file",
    "median": "median of the synthetic file",
    "q15": "15th quantile of the synthetic file",
    "q90": "90th quantile of the synthetic file",
}
MEASURES = {"u_m", "u_a", "bound"}
ORDER = (
    "Data", "Unweighted", "Weighted", "Weighted-e", "Censor_w", "Censor_uw", "PH", "PH ln n",
    "ReferenceCensored",
)  # fmt: skip

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


def write_results(
    out: Path,
    rows: pl.DataFrame,
    applied: pl.DataFrame,
    salaries: pl.DataFrame,
    draws: pl.DataFrame,
    design: CensoringDesign,
) -> Path:
    """All files of the study from its stored numbers; returns the page."""
    tables = {
        "table-1": table_1(rows),
        "table-2": table_2(applied),
        "table-3": table_3(rows),
        "bounds": bounds_table(rows),
        "utility": utility_table(rows),
        "statistics": statistics_table(rows),
        "figure-1": draws.unpivot(index="density", variable_name="parameter")
        .group_by("density", "parameter", maintain_order=True)
        .agg(mean=pl.col("value").mean(), sd=pl.col("value").std()),
    }
    for name, table in tables.items():
        table.write_csv(out / f"{name}.csv")
    rows.write_csv(out / "replicates.csv")
    figures = {"figure-01": parameter_figure(draws, design.n)}
    figures |= _figures(rows, applied, salaries)
    for name, figure in figures.items():
        us.save_figure(figure, out / name)
    return us.write_page(
        out / "study.html",
        "Censoring, weighting, or a reference: synthetic data with a promise",
        words.summary(tables, rows),
        _parts(out, tables, rows, design),
        f"Understudy {us.__version__}, `understudy study censoring`. Paper C: Hu, Williams and "
        "Savitsky, Mechanisms for Global Differential Privacy under Bayesian Data Synthesis.",
    )


def _figures(
    rows: pl.DataFrame, applied: pl.DataFrame, salaries: pl.DataFrame
) -> dict[str, Figure]:
    figures = {}
    for name, (column, comparison) in VIOLINS.items():
        chosen = [key for key in _ordered(rows) if _belongs(key, column, comparison)]
        violins = [(_label(key), key[0], values(rows, key, column)) for key in chosen]
        kept = [number for number, (_, _, found) in enumerate(violins) if len(found)]
        line = None
        if column not in MEASURES:
            line = (true_statistics()[column], "Beta(0.5, 3) itself")
        targets = [None if (e := chosen[k][1]) is None else e / 2 for k in kept]
        figures[name] = violin_figure(
            [violins[k] for k in kept],
            NAMES[column],
            line,
            targets if column == "bound" else None,
            digits=4 if column in ("u_a", "q15") else 2 if column == "bound" else 3,
        )
    epsilons = {label(row): _promise(row) for row in applied.iter_rows(named=True)}
    figures["figure-09"] = density_figure(salaries, epsilons)
    return figures


def _promise(row: dict[str, object]) -> str:
    if row["mechanism"] in ("Weighted", "Weighted-e") and isinstance(row["bound"], float):
        return f"ε {2 * row['bound']:.1f}, asymptotic"
    return "no promise" if row["epsilon"] is None else f"ε {row['epsilon']:g}"


def _ordered(rows: pl.DataFrame) -> list[Key]:
    return sorted(keys(rows), key=lambda key: ORDER.index(key[0]))


def _belongs(key: Key, column: str, comparison: str) -> bool:
    mechanism, epsilon, c1 = key
    if mechanism == "Data":
        return column not in MEASURES
    if mechanism == "ReferenceCensored":
        return True
    if comparison.startswith("downscaling"):
        scaled = mechanism in ("Weighted", "Weighted-e", "Censor_w")
        beside = mechanism == "Censor_uw" and "Censor_uw" in comparison
        return (scaled or beside) and epsilon in (None, 4.0)
    if mechanism == "Unweighted":
        return column != "bound" or comparison == "with unweighted"
    return c1 == 1 and (comparison != "epsilon 5" or epsilon in (None, 5.0))


def _label(key: Key) -> str:
    mechanism, epsilon, c1 = key
    return label({"mechanism": mechanism, "epsilon": epsilon, "c1": c1})


def _parts(
    out: Path, tables: dict[str, pl.DataFrame], rows: pl.DataFrame, design: CensoringDesign
) -> list[us.Part]:
    def picture(name: str, caption: str) -> us.Picture:
        return us.Picture(out / f"{name}.svg", words.alt(name, tables), caption)

    def violins(*numbers: int) -> tuple[us.Picture, ...]:
        return tuple(
            picture(f"figure-{n:02d}", words.caption(n, NAMES[VIOLINS[f"figure-{n:02d}"][0]]))
            for n in numbers
        )

    return [
        us.Heading("What is compared"),
        us.Points(words.MECHANISMS),
        us.Words(words.RELATION),
        us.Heading("How much one record can weigh"),
        us.Words(words.BOUNDS),
        *violins(10),
        _grid("Record bounds over replicates: ours (paper)", tables["bounds"], "bounds.csv",
              ("min", "mean", "max"), lambda _: "{:.2f}"),
        us.Heading("How many records are touched"),
        us.Words(words.COUNTS),
        _grid("Table 1, records truncated or censored: ours (paper)", tables["table-1"],
              "table-1.csv", COUNT_SUMMARY, _count_format),
        us.Heading("How near the synthetic files are"),
        us.Words(words.UTILITY),
        *violins(3, 4),
        us.Fold("The same in numbers", (
            _grid("Utility over replicates", tables["utility"], "utility.csv",
                  ("mean U_m", "sd U_m", "mean U_a", "sd U_a"),
                  lambda name: "{:.4f}" if name.endswith("U_m") else "{:.5f}"),
        )),
        us.Heading("Median, 15th and 90th quantile"),
        *violins(15, 13, 14),
        us.Fold("At epsilon 5 only, and in numbers", (
            *violins(5, 11, 12),
            _grid("Means over replicates: ours (Beta(0.5, 3) itself)", tables["statistics"],
                  "statistics.csv", ("mean", "median", "q15", "q90"), lambda _: "{:.4f}"),
        )),
        us.Heading("Downscaling the weights, c1 = 0.8"),
        us.Words(words.downscaling(tables)),
        *violins(6, 7),
        _grid("Table 3, records touched at epsilon 4: ours (paper)", tables["table-3"],
              "table-3.csv", COUNT_SUMMARY, _count_format),
        us.Fold("More figures with downscaling", violins(21, 8, 22, 23, 24)),
        us.Heading("What censoring does to a parameter"),
        us.Words(words.figure_1(tables)),
        picture("figure-01", "Figure 1. The paper's example: Beta(0.5, 2), epsilon 1.6."),
        us.Heading("Application: salaries of mathematicians"),
        us.Words(words.application(tables)),
        picture("figure-09", "Figure 9. Density of salary in each synthetic file."),
        _grid("Table 2: ours (paper)", tables["table-2"], "table-2.csv", TABLE_2_ROWS,
              lambda name: "{:.2f}" if name in TABLE_2_ROWS[:2]
              else "{:.4f}" if "ECDF" in name else "{:,.0f}"),
        us.Heading("Where ours differs from the paper, and why"),
        us.Points(words.differences(tables)),
        us.Heading("How it was computed"),
        us.Points(words.computed(design, rows)),
    ]  # fmt: skip


def _count_format(name: str) -> str:
    return "{:.1f}" if name in ("mean", "sd") else "{:.0f}"


def _grid(
    caption: str,
    table: pl.DataFrame,
    file: str,
    columns: tuple[str, ...],
    style: Callable[[str], str],
) -> us.Grid:
    """A row per mechanism, `ours (published)` in each cell."""

    def cell(name: str, pair: tuple[float | None, float | None]) -> str:
        ours, published = (None if v is None else style(name).format(v) for v in pair)
        return (ours or "–") + (f" ({published})" if published is not None else "")

    rows = tuple(
        (name, *(cell(column, found[column]) for column in columns))
        for name, found in by_mechanism(table)
    )
    return us.Grid(caption, ("", *columns), rows, file)
