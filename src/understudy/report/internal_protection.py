"""The parts of the internal report about protection: risk, record bounds, and the sampler."""

from __future__ import annotations

from typing import Any

from understudy.report.figures import bounds_figure, chains_figure, risk_figure, weights_figure
from understudy.report.numbers import digits, fixed, listed, percent, shown
from understudy.report.page import Drawing, Grid, Part, Points, Words


def risk_parts(risk: dict[str, Any] | None) -> list[Part]:
    """Violins, profile and the ten riskiest records, or why there are none."""
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


def record_parts(records: dict[str, Any] | None) -> list[Part]:
    """Record bounds before and after the mechanism, and weights against the outcome."""
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


def chain_parts(chains: dict[str, Any] | None) -> list[Part]:
    """R-hat and effective sample sizes."""
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
