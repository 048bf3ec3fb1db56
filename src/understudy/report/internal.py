"""report.html: the internal report, for those who may see the confidential data.

It formats the evidence document and computes nothing from records.
"""

from __future__ import annotations

from typing import Any

from understudy.report.claim_parts import claim_parts, claim_rows
from understudy.report.figures import (
    bounds_figure,
    chains_figure,
    distribution_figure,
    levels_figure,
    risk_figure,
    weights_figure,
)
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
        Grid(
            "The claim in numbers", ("part", "value"), claim_rows(evidence["claim"]), words=True
        ),
        Heading("The table, cell by cell"),
        *_table(evidence),
        Heading("Distributions"),
        *_distributions(evidence),
        Heading("Utility"),
        *_utility(evidence["utility"]),
        Heading("Regression"),
        *_regression(evidence["regression"]),
        Heading("Identification risk"),
        *_risk(evidence["risk"]),
        Heading("What each record contributes"),
        *_records(evidence["records"]),
        Heading("The sampler"),
        *_chains(evidence["chains"]),
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
        rows = chosen_rows(table["cells"], statistic)
        if not any(row["difference"] for row in rows):
            parts.append(
                Words(f"`{statistic}` has no figure: no cell of it differs from the confidential.")
            )
            continue
        cells = sum(cell["statistic"] == statistic for cell in table["cells"])
        some = ""
        if len(rows) < cells:
            which = "those that differ most" if len(rows) == MOST_ROWS else "without the margins"
            some = f"; {len(rows)} of {cells:,} cells, {which}"
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
            comparison_figure(
                chosen_rows(rows, "coefficient"), "coefficient, with 95 % intervals"
            ),
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


def _risk(risk: dict[str, Any] | None) -> list[Part]:
    if risk is None:
        return [Words("No intruder was described, so no risk was computed.")]
    parts: list[Part] = [Words(risk["why"])] if risk["why"] else []
    if "refused" in risk:
        return [*parts, Words(f"The risk could not be computed: {risk['refused']}")]
    target = listed([f"`{name}`" for name in risk["target"]])
    parts.append(
        Words(
            f"An intruder knows some columns of a person and looks for {target} within "
            f"{100 * risk['radius']:g} % of the true value. The risk of a record is high when few "
            "other records share its known columns and a value near its own, and the release "
            "still shows that value."
        )
    )
    main = risk["panels"][0]["releases"]
    said = "; ".join(f"{one['release']}: mean {fixed(one['mean'], 3)}" for one in main)
    parts.append(
        Drawing(
            risk_figure(risk),
            f"Violins of identification risk. {said}.",
            "Identification risk of the records; the bar is the mean.",
        )
    )
    parts.append(
        Grid(
            f"Risk profile; the last column is the share of records above {risk['threshold']:g}.",
            ("known", "file", "records", "mean", "median", "IQR", "largest", "above"),
            tuple(
                (
                    row["known"],
                    row["release"],
                    f"{row['records']:,}",
                    *(fixed(row[key], 3) for key in ("mean", "median", "iqr", "maximum")),
                    percent(row["share_above"]),
                )
                for row in risk["profile"]
            ),
        )
    )
    top = risk["top"]
    files = [name for name in top[0] if name not in ("place", "record")] if top else []
    parts.append(
        Grid(
            "The ten records at most risk in the confidential file (row numbers from 0)",
            ("place", "record", *files),
            tuple(
                (str(row["place"]), str(row["record"]), *(fixed(row[name], 3) for name in files))
                for row in top
            ),
        )
    )
    return [*parts, *([Points(tuple(risk["notes"]))] if risk["notes"] else [])]


def _records(records: dict[str, Any] | None) -> list[Part]:
    if records is None:
        return [Words("This mechanism works without a fit, so there are no record bounds.")]
    bounds, weights = records["bounds"], records["weights"]
    before, after = bounds["before"], bounds["after"]
    limit = shown(records["limit"]) if records["limit"] == "inf" else digits(records["limit"])
    clipped = f"{records['censored']:,} of {records['n']:,} records were clipped at a draw or more"
    parts: list[Part] = [
        Drawing(
            bounds_figure(records),
            f"Violins of record bounds. Before: median {digits(before['median'])}, largest "
            f"{digits(before['largest'])}. After: median {digits(after['median'])}, largest "
            f"{digits(after['largest'])}. Clipping limit {limit}.",
            "The largest |log-likelihood| of each record over the draws, and the largest "
            f"|contribution| after weights and clipping. {clipped}."
            if records["limit"] != "inf"
            else "The largest |log-likelihood| of each record over the draws, and the largest "
            "|contribution| after weights. Nothing was clipped.",
        ),
        Grid(
            "Record bounds",
            ("bound", "median", "95th percentile", "largest", "not finite"),
            tuple(
                (
                    name,
                    digits(one["median"]),
                    digits(one["quantile_95"]),
                    digits(one["largest"]),
                    f"{one['not_finite']:,}",
                )
                for name, one in (("before", before), ("after", after))
            ),
        ),
    ]
    lowest, _, middle, _, highest = weights["quantiles"]
    if weights["constant"]:
        parts.append(Words(f"All records have the weight {digits(middle)}."))
    elif weights["panels"]:
        names = listed([panel["label"] for panel in weights["panels"]])
        parts.append(
            Drawing(
                weights_figure(weights),
                f"Record weight against {names}: median weight {digits(middle)}, smallest "
                f"{digits(lowest)}, largest {digits(highest)}.",
                f"Record weights against the outcome, in classes of equal size. Mean weight "
                f"{digits(weights['mean'])}.",
            )
        )
    return parts


def _chains(chains: dict[str, Any] | None) -> list[Part]:
    if chains is None:
        return [Words("This mechanism works without a sampler.")]
    each = chains["each"]
    some = f" the worst {len(each)} of" if len(each) < chains["coordinates"] else ""
    return [
        Words(
            f"{chains['draws']:,} draws in {chains['chains']} chains, {chains['divergences']:,} "
            f"divergent transitions. Limits: R-hat below {chains['limits']['rhat']}, effective "
            f"sample size above {chains['limits']['ess']:.0f}."
        ),
        *([Points(tuple(chains["failures"]))] if chains["failures"] else []),
        Drawing(
            chains_figure(chains),
            f"R-hat and effective sample size of each coordinate: largest R-hat "
            f"{fixed(chains['largest_rhat'], 4)}, smallest effective sample size "
            f"{fixed(chains['least_ess'], 0)}.",
            "R-hat, bulk and tail effective sample size by coordinate.",
        ),
        Grid(
            f"Diagnostics of{some} {chains['coordinates']:,} coordinates",
            ("coordinate", "R-hat", "bulk ESS", "tail ESS"),
            tuple(
                (
                    f"{place}. {one['coordinate']}",
                    fixed(one["rhat"], 4),
                    fixed(one["ess_bulk"], 0),
                    fixed(one["ess_tail"], 0),
                )
                for place, one in enumerate(each, start=1)
            ),
        ),
    ]
