"""report.html: the internal report, for those who may see the confidential data.

It formats the evidence document and computes nothing from records.
"""

from __future__ import annotations

from typing import Any

from understudy.report.claim_parts import claim_parts, claim_rows
from understudy.report.figures import distribution_figure, levels_figure
from understudy.report.internal_protection import chain_parts, record_parts, risk_parts
from understudy.report.interval_figures import MOST_ROWS, chosen_rows, comparison_figure
from understudy.report.numbers import digits, fixed, limits, listed, percent, shown
from understudy.report.page import Drawing, Grid, Heading, Part, Points, Words, page_text

SIDES = (
    "confidential",
    "SE",
    "95 % limits",
    "released",
    "SE",
    "95 % limits",
    "difference",
    "overlap",
)
FOOTER = (
    "Every number on this page lies in the evidence document of the release. The page is computed "
    "from confidential data and is not part of what is published; for that, see `public.html`."
)


def internal_page(evidence: dict[str, Any]) -> str:
    """The page as HTML, marked on top as internal."""
    parts: list[Part] = [
        Heading("The claim"),
        *claim_parts(evidence["claim"]["text"], evidence["claim"]["conditions"]),
        Grid("The claim in numbers", ("part", "value"), claim_rows(evidence["claim"]), words=True),
        Heading("The table, cell by cell"),
        *_table(evidence),
        Heading("Distributions"),
        *_distributions(evidence),
        Heading("Utility"),
        *_utility(evidence["utility"]),
        Heading("Regression"),
        *_regression(evidence["regression"]),
        Heading("Identification risk"),
        *risk_parts(evidence["risk"]),
        Heading("What each record contributes"),
        *record_parts(evidence["records"]),
        Heading("The sampler"),
        *chain_parts(evidence["chains"]),
    ]
    return page_text(evidence["title"], evidence["summary"], parts, FOOTER, evidence["mark"])


def _table(evidence: dict[str, Any]) -> list[Part]:
    table = evidence["table"]
    parts: list[Part] = [
        Grid(
            "Released against confidential, by statistic. Differences are in confidential standard "
            "errors; overlap is that of the two 95 % intervals (1: equal, 0: apart); inside is the "
            "share of released estimates within the confidential interval.",
            (
                "statistic",
                "cells",
                "RMS difference",
                "largest",
                "mean overlap",
                "SE ratio (median)",
                "inside",
            ),
            tuple(
                (
                    row["statistic"],
                    f"{row['cells']:,}",
                    fixed(row["rms_difference"], 2),
                    fixed(row["largest_difference"], 2),
                    fixed(row["mean_overlap"], 2),
                    fixed(row["median_se_ratio"], 2),
                    percent(row["inside"]),
                )
                for row in table["summary"]
            ),
        )
    ]
    by = listed(table["by"]) or "all records"
    for statistic in table["statistics"]:
        adds_up = statistic in table["sums"]
        rows = chosen_rows(table["cells"], statistic, adds_up)
        if not any(row["difference"] for row in rows):
            parts.append(
                Words(f"`{statistic}` has no figure: no cell of it differs from the confidential.")
            )
            continue
        cells = sum(cell["statistic"] == statistic for cell in table["cells"])
        some = ""
        if len(rows) == MOST_ROWS < cells:
            some = f"; {MOST_ROWS} of {cells:,} cells, those that differ most"
        elif len(rows) < cells:
            which = "margins" if adds_up else "cells without a released estimate"
            some = f"; {which} are left out"
        worst = max(rows, key=lambda row: abs(row["difference"] or 0.0))
        parts.append(
            Drawing(
                comparison_figure(rows, f"{statistic}, with 95 % intervals"),
                f"Confidential and released {statistic} with 95 % intervals for {len(rows)} cells; "
                f"the largest difference is {digits(abs(worst['difference'] or 0.0), 2)} "
                f"confidential standard errors, for {worst['cell']}.",
                f"`{statistic}` by {by}, confidential and released{some}.",
            )
        )
    for statistic in table["statistics"]:
        parts.append(
            Grid(
                f"`{statistic}`, every cell: estimates with standard errors and 95 % limits. The "
                "difference is released minus confidential, in confidential standard errors.",
                ("cell", *SIDES),
                tuple(_cell(cell) for cell in table["cells"] if cell["statistic"] == statistic),
            )
        )
    notes = tuple(dict.fromkeys(cell["note"] for cell in table["cells"] if cell["note"]))
    return [*parts, *([Points(notes)] if notes else [])]


def _cell(cell: dict[str, Any]) -> tuple[str, ...]:
    return (
        cell["cell"],
        *_numbers(cell["confidential"]),
        *_numbers(cell["released"]),
        fixed(cell["difference"], 2),
        fixed(cell["overlap"], 2),
    )


def _numbers(side: dict[str, Any]) -> tuple[str, str, str]:
    se = side["se"]
    return shown(side["estimate"], se), shown(se, se), limits(side)


def _distributions(evidence: dict[str, Any]) -> list[Part]:
    parts: list[Part] = [Words("Records are counted once each; the design weight is not used.")]
    distances = {one["column"]: one for one in evidence["utility"]["columns"]}
    for column in evidence["distributions"]:
        distance = distances[column["column"]]
        parts.append(
            Drawing(
                distribution_figure(column),
                f"Density and distribution function of {column['label']} in the confidential and "
                f"{evidence['datasets']} synthetic files; the largest vertical distance of the "
                f"distribution functions is {fixed(distance['U_m'], 3)}.",
                f"`{column['column']}`: density and ECDF. U_m = {fixed(distance['U_m'], 3)}. The "
                "outermost 0.1 % at either end are not drawn.",
            )
        )
    for column in evidence["levels"]:
        gap = max(
            abs(a - b)
            for made in column["synthetic"]
            for a, b in zip(column["confidential"], made, strict=True)
        )
        parts.append(
            Drawing(
                levels_figure(column),
                f"Shares of the levels of {column['label']}, confidential and synthetic; the "
                f"largest difference is {percent(gap)} of the records.",
                f"`{column['column']}`: shares of its levels.",
            )
        )
    return parts


def _utility(utility: dict[str, Any]) -> list[Part]:
    parts: list[Part] = []
    if utility["columns"]:
        parts.append(
            Grid(
                "Distance of the distributions: U_m is the largest, U_a the mean square difference "
                "of the distribution functions, in the mean over the files.",
                ("column", "U_m", "U_a", "missing, confidential", "missing, synthetic"),
                tuple(
                    (
                        one["column"],
                        fixed(one["U_m"], 4),
                        fixed(one["U_a"], 6),
                        f"{one['missing_confidential']:,}",
                        f"{one['missing_synthetic']:,}",
                    )
                    for one in utility["columns"]
                ),
            )
        )
        parts.append(
            Grid(
                f"Statistics of the records with 95 % bootstrap intervals "
                f"({utility['replicates']:,} resamples of each file, unweighted).",
                ("column and statistic", "confidential", "95 %", "synthetic", "95 %", "overlap"),
                tuple(
                    _interval(one["column"], row)
                    for one in utility["columns"]
                    for row in one["intervals"]
                ),
            )
        )
    score = utility["propensity"]
    if "refused" in score:
        parts.append(Words(f"No pMSE: {score['refused']}"))
        return parts
    whole = "" if score["whole"] else f", on {score['records']:,} records of each file"
    names = listed([f"`{name}`" for name in score["columns"]])
    parts.append(
        Grid(
            f"pMSE: can a logistic regression on {names} tell synthetic records from confidential "
            f"ones (numbers in {score['classes']} classes{whole})? A ratio of about 1 is what a "
            "correct synthesis gives.",
            ("file", "pMSE", "ratio", "standardised"),
            tuple(
                (str(place), digits(pmse), fixed(ratio, 2), fixed(standardised, 2))
                for place, (pmse, ratio, standardised) in enumerate(
                    zip(score["pmse"], score["ratio"], score["standardised"], strict=True), start=1
                )
            ),
        )
    )
    return parts


def _interval(column: str, row: dict[str, Any]) -> tuple[str, ...]:
    sides = []
    for key in ("confidential", "synthetic"):
        side = row[key]
        scale = (side["upper"] - side["lower"]) / 4
        sides += [
            shown(side["estimate"], scale),
            f"{shown(side['lower'], scale)} to {shown(side['upper'], scale)}",
        ]
    return (f"{column}, {row['statistic']}", *sides, fixed(row["overlap"], 2))


def _regression(regression: dict[str, Any] | None) -> list[Part]:
    if regression is None:
        return [Words("No regression was asked for.")]
    formula = regression["formula"]
    if "refused" in regression:
        return [Words(f"`{formula}` could not be fitted to both: {regression['refused']}")]
    rows = regression["rows"]
    return [
        Drawing(
            comparison_figure(chosen_rows(rows, "coefficient"), "coefficient, with 95 % intervals"),
            f"Coefficients of {formula} from the confidential and the synthetic files, with 95 % "
            "intervals; the numbers are in the table below.",
            f"Coefficients of `{formula}`, confidential and combined over the synthetic files; the "
            "intercept is in the table only.",
        ),
        Grid(
            f"Coefficients of {formula}, with design-based standard errors",
            ("term", *SIDES),
            tuple(_cell(row) for row in rows),
        ),
    ]
