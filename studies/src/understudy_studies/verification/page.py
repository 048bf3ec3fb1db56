"""Everything the study of paper V writes: tables as CSV, figures, and study.html."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

import understudy as us
from understudy_studies.verification import normal_words as normal_words
from understudy_studies.verification import words as words
from understudy_studies.verification.figures import median_figure, roc_figure
from understudy_studies.verification.normal import conditions, normal_table
from understudy_studies.verification.replicate import VerificationDesign
from understudy_studies.verification.tables import auc_table, rows_of, summary

NORMAL = 4  # times as many pairs as the ROC of a population has: they cost less

# V's figures by number: (estimand, synthesis, interval).
FIGURES = {
    1: ("total", "faithful", "fixed"),
    2: ("total", "faithful", "adjusted"),
    3: ("total", "biased", "adjusted"),
    4: ("mean", "faithful", "adjusted"),
    5: ("mean", "biased", "adjusted"),
}


def write_results(out: Path, found: Sequence[dict[str, Any]], design: VerificationDesign) -> Path:
    """All files of the study from its stored repeats; returns the page."""
    epsilon = float(design.epsilon)
    parts = ("answers", "more", "bounded", "beyond")
    rows, more, bounded, beyond = (rows_of(found, part, epsilon) for part in parts)
    tables = {
        "summary": summary(rows),
        "auc": auc_table(more),
        "auc-bounded": auc_table(bounded),
        "auc-designs": auc_table(rows.filter(synthesis="faithful", partitioning="equal")),
        "beyond": summary(beyond),
        "beyond-auc": auc_table(beyond),
        "auc-normal": normal_table(
            sorted({*design.partitions, design.roc_partitions}),
            design.epsilon,
            NORMAL * len(found) * design.roc_pairs,
        ),
    }
    populations = {
        normal_words.BOUNDED: (bounded, tables["auc-bounded"]),
        normal_words.PAPER: (more, tables["auc"]),
    }
    tables["auc-conditions"] = conditions(tables["auc-normal"], design.roc_partitions, populations)
    for name, table in tables.items():
        table.write_csv(out / f"{name}.csv")
    equal = rows.filter(partitioning="equal")
    for number, (estimand, synthesis, interval) in FIGURES.items():
        part = equal.filter(estimand=estimand, synthesis=synthesis, interval=interval)
        us.save_figure(
            median_figure(part, design.sizes, design.partitions), out / f"figure-{number}"
        )
    for name, some in (("figure-roc", more), ("figure-roc-bounded", bounded)):
        shown = some.filter(interval="adjusted", partitioning="equal")
        us.save_figure(roc_figure(shown), out / name)
    facts = words.facts(found, equal, tables, design)
    return us.write_page(
        out / "study.html",
        "Is the synthetic estimate close? What a private verification tells",
        words.summary(facts),
        _parts(out, tables, facts, design),
        f"Understudy {us.__version__}, `understudy study verification`. Paper V: Lin and Reiter, "
        "Differentially Private Verification of Survey-Weighted Estimates.",
    )


def _parts(
    out: Path, tables: dict[str, pl.DataFrame], facts: words.Facts, design: VerificationDesign
) -> list[us.Part]:
    def picture(number: int) -> us.Picture:
        estimand, synthesis, interval = FIGURES[number]
        caption = words.caption(number, estimand, synthesis, interval)
        return us.Picture(out / f"figure-{number}.svg", words.alt(facts, FIGURES[number]), caption)

    return [
        us.Heading("What an answer tells about the file at hand"),
        us.Words(words.ROC),
        us.Words(words.roc_of_paper(facts)),
        us.Picture(out / "figure-roc.svg", words.roc_alt(facts.auc),
                f"ROC in the paper's population. {words.roc_caption(facts, design)}"),
        us.Words(words.roc_bounded(facts, design)),
        us.Picture(out / "figure-roc-bounded.svg", words.roc_alt(facts.bounded),
                f"ROC without extreme weights. {words.roc_caption(facts, design)}"),
        _auc_grid("AUC in the paper's population", tables["auc"], "auc.csv"),
        _auc_grid("AUC without extreme weights", tables["auc-bounded"], "auc-bounded.csv"),
        us.Heading("When the discrepancy tells, and why it fails with extreme weights"),
        us.Words(normal_words.normal(facts, design)),
        _normal_grid(tables["auc-normal"]),
        us.Words(normal_words.why(facts)),
        _conditions_grid(tables["auc-conditions"]),
        us.Words(words.CLIPS),
        _clip_grid(tables, design),
        us.Fold("AUC in every design of the paper", (
            us.Words(words.AUC_DESIGNS),
            _auc_grid("AUC by design", tables["auc-designs"], "auc-designs.csv"),
        )),
        us.Heading("Fixed intervals: Figure 1"),
        us.Words(words.fixed(facts)),
        picture(1),
        us.Heading("Adjusted intervals: Figure 2"),
        us.Words(words.adjusted(facts)),
        picture(2),
        _published(facts, design),
        us.Heading("Biased synthesis: Figure 3"),
        us.Words(words.biased(facts)),
        picture(3),
        us.Heading("Means: Figures 4 and 5"),
        us.Words(words.means(facts)),
        picture(4),
        picture(5),
        us.Fold("All settings in numbers", tuple(
            _summary_grid(tables["summary"], *FIGURES[number], number) for number in FIGURES
        )),
        us.Heading("The paper's findings, one by one"),
        us.Points(words.findings(facts)),
        us.Heading("Equal blocks or keyed hash, Laplace or geometric noise"),
        us.Words(words.CHOICES),
        _choice_grid(tables["summary"]),
        us.Heading("Beyond the paper: a median and a regression slope"),
        us.Words(words.BEYOND),
        _beyond_grid(tables),
        us.Heading("Where ours differs from the paper, and why"),
        us.Points(words.DIFFERENCES),
        us.Heading("How it was computed"),
        us.Points(words.computed(facts, design)),
    ]  # fmt: skip


def _published(facts: words.Facts, design: VerificationDesign) -> us.Grid:
    rows = tuple((f"α = {alpha:g}", *words.beside(facts, alpha)) for alpha in design.alphas)
    header = ("", "r_full", "paper", "mean median", "paper")
    return us.Grid("Figure 2 in words and numbers: range over the designs", header, rows)


def _auc_grid(caption: str, table: pl.DataFrame, file: str) -> us.Grid:
    rows = tuple(
        (
            f"{row['estimand']}, {row['partitioning']}, α = {row['alpha']:g}",
            f"{row['n_k']:,}",
            str(row["M"]),
            f"{row['inside']:.2f}",
            _area(row, "discrepancy"),
            _area(row, "agreement"),
            _area(row, "agreement_laplace"),
        )
        for row in table.iter_rows(named=True)
    )
    header = ("", "n_k", "M", "inside", "discrepancy", "agreement", "agreement, Laplace")
    return us.Grid(f"{caption}: area (standard error)", header, rows, file)


def _normal_grid(table: pl.DataFrame) -> us.Grid:
    rows = tuple(
        (
            f"M = {row['M']}, SE ratio {row['ratio']:g}, α = {row['alpha']:g}",
            f"{row['inside']:.2f}",
            f"{row['clipped']:.2f}",
            f"{row['follows']:.2f}",
            _area(row, "discrepancy"),
            _area(row, "agreement"),
        )
        for row in table.iter_rows(named=True)
    )
    header = ("", "inside", "parts clipped", "follows", "discrepancy", "agreement")
    return us.Grid("AUC with normal errors: area (standard error)", header, rows, "auc-normal.csv")


def _conditions_grid(table: pl.DataFrame) -> us.Grid:
    rows = tuple(
        (
            row["setting"] + ("" if row["estimand"] == "any" else f", {row['estimand']}"),
            f"{row['ratio']:.1f}",
            f"{row['follows']:.2f}",
            *(normal_words.between(row, name) for name in ("discrepancy", "agreement")),
        )
        for row in table.iter_rows(named=True)
    )
    header = ("", "SE ratio", "follows", "AUC discrepancy", "AUC agreement")
    caption = "What the areas depend on: range over the tolerances, equal blocks"
    return us.Grid(caption, header, rows, "auc-conditions.csv")


def _clip_grid(tables: dict[str, pl.DataFrame], design: VerificationDesign) -> us.Grid:
    names = [f"clip {clip:g}" for clip in design.clips]
    rows = tuple(
        (
            f"{where}, {row['estimand']}, α = {row['alpha']:g}",
            *(_area(row, name) for name in names),
        )
        for where, table in (("paper", "auc"), ("no extreme weights", "auc-bounded"))
        for row in tables[table].filter(partitioning="equal").iter_rows(named=True)
    )
    header = ("", *(f"c = {clip:g}" for clip in design.clips))
    return us.Grid("AUC of the discrepancy by its clip, equal blocks", header, rows, "auc.csv")


def _area(row: dict[str, Any], name: str) -> str:
    return "–" if row[name] is None else f"{row[name]:.2f} ({row[f'{name}_se']:.2f})"


def _summary_grid(
    table: pl.DataFrame, estimand: str, synthesis: str, interval: str, number: int
) -> us.Grid:
    part = table.filter(
        estimand=estimand, synthesis=synthesis, interval=interval, partitioning="equal"
    )
    rows = tuple(
        (
            f"α = {row['alpha']:g}, n_k = {row['n_k']:,}, M = {row['M']}",
            f"{row['r_full']:.2f}",
            f"{row['median']:.2f}",
            f"{row['median_sd']:.2f}",
            f"{row['q1']:.2f} to {row['q3']:.2f}",
        )
        for row in part.iter_rows(named=True)
    )
    header = ("", "r_full", "mean median", "sd", "quartiles")
    return us.Grid(f"Figure {number} in numbers", header, rows, "summary.csv")


def _choice_grid(table: pl.DataFrame) -> us.Grid:
    part = table.filter(synthesis="faithful", interval="adjusted")
    rows = []
    for key, some in part.group_by("estimand", "alpha", "n_k", maintain_order=True):
        by = {name: some.filter(partitioning=name) for name in ("equal", "hash")}
        cells = [
            f"{_mean(by[name][mean])} ({_mean(by[name][sd])})"
            for name in ("equal", "hash")
            for mean, sd in (("median", "median_sd"), ("own_median", "own_sd"))
        ]
        name = f"{key[0]}, α = {key[1]:g}, n_k = {key[2]:,}"
        rows.append((name, _mean(some["r_full"]), *cells))
    header = (
        "", "r_full", "equal, Laplace", "equal, geometric", "hash, Laplace", "hash, geometric"
    )  # fmt: skip
    caption = "Mean (sd) of posterior medians, averaged over M"
    return us.Grid(caption, header, tuple(rows), "summary.csv")


def _mean(values: pl.Series) -> str:
    return f"{float(values.to_numpy().mean()):.2f}"


def _beyond_grid(tables: dict[str, pl.DataFrame]) -> us.Grid:
    areas = tables["beyond-auc"]
    part = tables["beyond"].filter(interval="adjusted")
    rows = []
    for row in part.iter_rows(named=True):
        area = areas.filter(estimand=row["estimand"], alpha=row["alpha"], M=row["M"]).row(
            0, named=True
        )
        name = f"{row['estimand']}, α = {row['alpha']:g}, M = {row['M']}"
        cells = (f"{row['r_full']:.2f}", f"{row['median']:.2f} ({row['median_sd']:.2f})")
        rows.append((name, *cells, _area(area, "discrepancy"), _area(area, "agreement")))
    header = ("", "r_full", "mean median (sd)", "AUC discrepancy", "AUC agreement")
    return us.Grid("Adjusted intervals, faithful synthesis", header, tuple(rows), "beyond.csv")
