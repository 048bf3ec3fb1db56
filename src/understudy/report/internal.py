"""report.html: the internal report, for those who may see the confidential data.

The words are in `templates/internal.html.j2`; here are the rows and figures that they go with,
made from the evidence document and from nothing else.
"""

from __future__ import annotations

from typing import Any

from understudy.report.attempts import attack_facts
from understudy.report.claim_parts import claim_parts
from understudy.report.figures import distribution_figure, levels_figure
from understudy.report.internal_protection import chain_facts, record_facts, risk_facts
from understudy.report.interval_figures import MOST_ROWS, chosen_rows, comparison_figure
from understudy.report.numbers import digits, fixed, limits, percent, shown
from understudy.report.pair_figures import pairs_figure
from understudy.report.templates import rendered

FOOTER = (
    "Every number on this page is in the evidence document of the release. The page is computed "
    "from confidential data and is not part of what is published; for that, see `public.html`."
)


def internal_page(evidence: dict[str, Any]) -> str:
    """The page as HTML, marked on top as internal."""
    claim = evidence["claim"]
    return rendered(
        "internal.html.j2",
        title=evidence["title"],
        summary=evidence["summary"],
        mark=evidence["mark"],
        footer=FOOTER,
        claim=claim_parts(claim["text"], claim["conditions"], claim),
        table=_table(evidence["table"]),
        datasets=evidence["datasets"],
        distributions=_distributions(evidence),
        levels=[_levels(column) for column in evidence["levels"]],
        utility=_utility(evidence["utility"]),
        regression=_regression(evidence["regression"]),
        fitness=_fitness(evidence["fitness"]),
        risk=risk_facts(evidence["risk"]),
        attacks=attack_facts(evidence["attacks"]),
        records=record_facts(evidence["records"]),
        chains=chain_facts(evidence["chains"]),
    )


def _fitness(fitness: dict[str, Any]) -> dict[str, Any]:
    rows = [
        (m["name"], f"{m['value']:.2g}, {m['colour']}", f"{m['amber']:.2g} / {m['red']:.2g}")
        for m in fitness["measures"]
        if m["value"] is not None
    ]
    worst = [
        {**pair, "rows": [(f"{a}, {b}", percent(p), percent(q)) for a, b, p, q in pair["cells"]]}
        for pair in fitness["worst"]
    ]
    distances = [v for row in fitness["maps"]["distance"] for v in row if v is not None]
    svg = pairs_figure(fitness) if distances else ""
    return {
        **fitness,
        "rows": rows,
        "worst": worst,
        "svg": svg,
        "largest": max(distances, default=0),
    }


def _table(table: dict[str, Any]) -> dict[str, Any]:
    summary = [
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
    ]
    notes = list(dict.fromkeys(cell["note"] for cell in table["cells"] if cell["note"]))
    figures = [_statistic(table, statistic) for statistic in table["statistics"]]
    return {"summary": summary, "by": table["by"], "figures": figures, "notes": notes}


def _statistic(table: dict[str, Any], statistic: str) -> dict[str, Any]:
    """The figure of one statistic, if any cell differs, and the rows of all its cells."""
    adds_up = statistic in table["sums"]
    rows = chosen_rows(table["cells"], statistic, adds_up)
    cells = [cell for cell in table["cells"] if cell["statistic"] == statistic]
    facts: dict[str, Any] = {
        "statistic": statistic,
        "cells": [_cell(cell) for cell in cells],
        "svg": "",
    }
    if not any(row["difference"] for row in rows):
        return facts
    left_out = ""
    if len(rows) == MOST_ROWS < len(cells):
        left_out = f"; {MOST_ROWS} of {len(cells):,} cells, those that differ most"
    elif len(rows) < len(cells):
        which = "margins" if adds_up else "cells without a released estimate"
        left_out = f"; {which} are left out"
    worst = max(rows, key=lambda row: abs(row["difference"] or 0.0))
    return facts | {
        "svg": comparison_figure(rows, f"{statistic}, with 95 % intervals"),
        "rows": len(rows),
        "worst": worst["cell"],
        "largest": abs(worst["difference"] or 0.0),
        "left_out": left_out,
    }


def _cell(cell: dict[str, Any]) -> tuple[str, ...]:
    return (
        cell["cell"],
        *_numbers(cell["confidential"]),
        *_numbers(cell["released"]),
        fixed(cell["difference"], 2),
        fixed(cell["overlap"], 2),
    )


def _numbers(side: dict[str, Any]) -> tuple[str, str]:
    se = side["se"]
    return f"{shown(side['estimate'], se)} ({shown(se, se)})", limits(side)


def _distributions(evidence: dict[str, Any]) -> list[dict[str, Any]]:
    distances = {row["column"]: row["U_m"] for row in evidence["utility"]["columns"]}
    return [
        {
            "column": column["column"],
            "label": column["label"],
            "distance": distances[column["column"]],
            "svg": distribution_figure(column),
        }
        for column in evidence["distributions"]
    ]


def _levels(column: dict[str, Any]) -> dict[str, Any]:
    gap = max(
        abs(a - b)
        for made in column["synthetic"]
        for a, b in zip(column["confidential"], made, strict=True)
    )
    return {
        "column": column["column"],
        "label": column["label"],
        "gap": gap,
        "svg": levels_figure(column),
    }


def _utility(utility: dict[str, Any]) -> dict[str, Any]:
    distances = [
        (
            column["column"],
            fixed(column["U_m"], 4),
            fixed(column["U_a"], 6),
            f"{column['missing_confidential']:,}",
            f"{column['missing_synthetic']:,}",
        )
        for column in utility["columns"]
    ]
    intervals = [
        _interval(column["column"], row)
        for column in utility["columns"]
        for row in column["intervals"]
    ]
    score, scores = utility["propensity"], []
    if "refused" not in score:
        each = zip(score["pmse"], score["ratio"], score["standardised"], strict=True)
        scores = [
            (str(file), digits(pmse), fixed(ratio, 2), fixed(standardised, 2))
            for file, (pmse, ratio, standardised) in enumerate(each, start=1)
        ]
    return {**utility, "distances": distances, "intervals": intervals, "scores": scores}


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


def _regression(regression: dict[str, Any] | None) -> dict[str, Any] | None:
    if regression is None or "refused" in regression:
        return regression
    rows = chosen_rows(regression["rows"], "coefficient")
    return {
        **regression,
        "svg": comparison_figure(rows, "coefficient, with 95 % intervals"),
        "cells": [_cell(row) for row in regression["rows"]],
    }
