"""public.html: what a reader of the released data needs, made from public facts alone."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from understudy.report.analysis import python_example, r_example, synthetic_columns
from understudy.report.analysis_r import read_in_r
from understudy.report.cells import NUMBERS, cell_label
from understudy.report.claim_parts import claim_parts, claim_rows
from understudy.report.interval_figures import MOST_ROWS, is_margin, is_sum, released_figure
from understudy.report.material import PublicFacts
from understudy.report.numbers import limits, listed, shown
from understudy.report.page import Code, Drawing, Grid, Heading, Part, Points, Words, page_text
from understudy.report.plain import finite, plain
from understudy.report.sentences import protection
from understudy.survey.codebook import Column
from understudy.tables.tabulate import MISSING

__all__ = ["public_page", "python_example", "r_example"]

RULES = {
    "partial": (
        "Combine the m files by the rule for partial synthesis: the estimate is the mean of the m "
        "estimates; its variance is T = ubar + b / m, with ubar the mean of the m sampling "
        "variances and b the variance of the m estimates; its degrees of freedom are "
        "(m − 1) (1 + ubar / (b / m))²."
    ),
    "full": (
        "Combine the m files by the rule for full synthesis: the estimate is the mean of the m "
        "estimates; its variance is T = (1 + 1/m) b − ubar, with ubar the mean of the m sampling "
        "variances and b the variance of the m estimates; its degrees of freedom are "
        "(m − 1) (1 − ubar / ((1 + 1/m) b))². Where T is not positive, take ubar."
    ),
}
MOST_LEVELS = 12


def public_page(facts: PublicFacts) -> str:
    """The page as HTML; nothing in it comes from elsewhere than `facts`."""
    claim = json.loads(facts.claim.to_json())
    parts: list[Part] = [
        Heading("How the records are protected"),
        *claim_parts(str(facts.claim), facts.claim.conditions),
        Grid("The claim in numbers", ("part", "value"), claim_rows(claim), "claim.json", True),
        Heading("Columns"),
        _columns(facts),
        Heading("The table"),
        *_table(facts),
        Heading("How to analyse the files"),
        *_analysis(facts),
        Heading("Files"),
        Points(_files(facts)),
    ]
    summary = [
        _what(facts),
        protection(claim, facts.claim.mechanism or "synthesis"),
        "Use the combining rule below; one file alone, or the files stacked on each other, gives "
        "standard errors that are wrong."
        if len(facts.files) > 1
        else "There is one file, so the variance that synthesis adds cannot be estimated: its "
        "standard errors are too small.",
    ]
    footer = f"Made by Understudy {facts.version} from released data alone."
    return page_text(facts.title, summary, parts, footer)


def _what(facts: PublicFacts) -> str:
    m, names = len(facts.files), [f"`{name}`" for name in synthetic_columns(facts)]
    files = "one synthetic file" if m == 1 else f"{m} synthetic files"
    each = " each" if m > 1 else ""
    text = f"This is a release of {files} of {facts.records:,} records{each}. "
    if facts.kind == "full":
        return text + "All values were drawn from a model; no record is that of a real person."
    verb = "were" if len(names) > 1 else "was"
    return text + (
        f"{listed(names)} {verb} drawn from a model in place of the confidential values; the "
        "other columns are as collected."
    )


def _columns(facts: PublicFacts) -> Part:
    synthetic = synthetic_columns(facts)
    return Grid(
        "The columns of each file",
        ("column", "label", "values", "kind"),
        tuple(
            (
                column.name,
                column.label or "–",
                _values(column),
                "synthetic" if column.name in synthetic else _role(column),
            )
            for column in facts.codebook
        ),
        words=True,
    )


def _role(column: Column) -> str:
    words = {"weight": "design weight", "stratum": "stratum", "psu": "sampling unit"}
    words |= {"replicate": "replicate weight", "fpc": "population size of the stratum"}
    return words.get(column.role, "as collected")


def _values(column: Column) -> str:
    """Levels and bounds as declared; what was only drafted from data is not shown."""
    if column.levels is not None and column.declared("levels"):
        spelled = [
            f"{level} = {column.value_labels[level]}"
            if level in column.value_labels
            else str(level)
            for level in column.levels[:MOST_LEVELS]
        ]
        more = len(column.levels) - len(spelled)
        return ", ".join(spelled) + (f", and {more} more" if more else "")
    if column.bounds is not None and column.declared("bounds"):
        return f"{column.type}, {column.bounds[0]:,.12g} to {column.bounds[1]:,.12g}"
    return column.type


def _table(facts: PublicFacts) -> list[Part]:
    rows = _rows(facts)
    by = listed([_label(facts, name) for name in facts.by])
    parts: list[Part] = []
    for statistic in facts.statistics:
        mine = [row for row in rows if row["statistic"] == statistic]
        drawn = [row for row in mine if finite(row["released"]["estimate"]) is not None]
        if is_sum(statistic):
            drawn = [row for row in drawn if not is_margin(row["label"])] or drawn
        what = f"{statistic} by {by}" if by else statistic
        if len(drawn) > 1:
            some = (
                f"; the first {MOST_ROWS} of {len(drawn):,} cells" if len(drawn) > MOST_ROWS else ""
            )
            parts.append(
                Drawing(
                    released_figure(drawn, f"{statistic}, with 95 % intervals"),
                    f"Released {what} with 95 % intervals; the numbers are in the table below.",
                    f"Released {what}, with 95 % intervals{some}.",
                )
            )
        parts.append(
            Grid(
                f"Released {what}, combined over the synthetic files",
                ("cell", "estimate", "SE", "95 % limits", "df"),
                tuple(_printed(row) for row in mine),
                "tables.csv",
            )
        )
    notes = tuple(dict.fromkeys(row["note"] for row in rows if row["note"]))
    return [*parts, *([Points(notes)] if notes else [])]


def _rows(facts: PublicFacts) -> list[dict[str, Any]]:
    table = facts.table.with_columns(
        pl.col(name).cast(pl.String).fill_null(MISSING) for name in facts.by
    )
    return [
        {
            "label": cell_label(row, facts.by, facts.codebook),
            "statistic": row["statistic"],
            "confidential": None,
            "released": plain({name: row[name] for name in (*NUMBERS, "df")}),
            "note": str(row.get("note") or ""),
        }
        for row in table.iter_rows(named=True)
    ]


def _printed(row: dict[str, Any]) -> tuple[str, ...]:
    numbers = row["released"]
    se, df = numbers["se"], finite(numbers["df"])
    degrees = shown(numbers["df"])
    if df is not None:
        degrees = "over 100,000" if df >= 1e5 else f"{df:,.0f}" if df >= 10 else f"{df:.2g}"
    return (
        row["label"],
        shown(numbers["estimate"], se),
        shown(se, se),
        limits(numbers),
        degrees,
    )


def _analysis(facts: PublicFacts) -> list[Part]:
    package = read_in_r(facts).r_package
    beside = f" and {package}" if package else ""
    design = [f"`{name}` ({_role_of(facts, name)})" for name in facts.design.named]
    return [
        Words(RULES[facts.kind]),
        Words(
            f"The design of every file: {listed(design)}."
            if design
            else "The files have no design weights: every record counts the same."
        ),
        Code(
            "Python, with the package understudy, in the folder of this page:",
            python_example(facts),
        ),
        Code(f"R, with the package survey{beside}, in the same folder:", r_example(facts)),
    ]


def _role_of(facts: PublicFacts, name: str) -> str:
    roles = {
        facts.design.weight: "design weight",
        facts.design.strata: "strata",
        facts.design.psu: "sampling units",
        facts.design.fpc: "finite population correction",
    }
    return roles.get(name, "replicate weight")


def _label(facts: PublicFacts, name: str) -> str:
    return (facts.codebook[name].label if name in facts.codebook else "") or name


def _files(facts: PublicFacts) -> tuple[str, ...]:
    others = [f"`{one.written[0]}`" for one in facts.formats[1:]]
    beside = f", and the same as {listed(others)}" if others else ""
    first, last = facts.files[0], facts.files[-1]
    span = f"`{first}`" if first == last else f"`{first}` to `{last}`"
    files = [f"{span}: the synthetic records{beside}."]
    files.append("`tables.csv`: the table above, in full precision.")
    files.append("`codebook.toml`: what is public about each column.")
    files.append("`claim.json` and `release.json`: the claim and the design, for programs.")
    if facts.draws:
        files.append("`draws.json`: the parameter draws that the files were made from.")
    return tuple(files)
