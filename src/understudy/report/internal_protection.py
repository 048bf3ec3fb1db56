"""The internal report's rows and figures about protection: risk, record bounds, and the sampler."""

from __future__ import annotations

from typing import Any

from understudy.report.figures import bounds_figure, chains_figure, risk_figure, weights_figure
from understudy.report.numbers import digits, fixed, percent


def risk_facts(risk: dict[str, Any] | None) -> dict[str, Any] | None:
    """Violins, profile and the ten riskiest records."""
    if risk is None or "refused" in risk:
        return risk
    top, main = risk["top"], risk["panels"][0]["releases"]
    files = [name for name in top[0] if name not in ("place", "record")] if top else []
    return {
        **risk,
        "radius_percent": f"{100 * risk['radius']:g}",
        "threshold_shown": f"{risk['threshold']:g}",
        "svg": risk_figure(risk),
        "means": "; ".join(f"{row['release']}: mean {fixed(row['mean'], 3)}" for row in main),
        "files": files,
        "profile_rows": [
            (
                row["known"],
                row["release"],
                f"{row['records']:,}",
                *(fixed(row[key], 3) for key in ("mean", "median", "iqr", "maximum")),
                percent(row["share_above"]),
            )
            for row in risk["profile"]
        ],
        "top_rows": [
            (str(row["place"]), str(row["record"]), *(fixed(row[name], 3) for name in files))
            for row in top
        ],
    }


def record_facts(records: dict[str, Any] | None) -> dict[str, Any] | None:
    """Record bounds before and after the mechanism, and weights against the outcome."""
    if records is None:
        return None
    weights = records["weights"]
    drawn = weights["panels"] and not weights["constant"]
    return {
        **records,
        "bounds_svg": bounds_figure(records),
        "weights_svg": weights_figure(weights) if drawn else "",
        "rows": [
            (
                name,
                digits(bound["median"]),
                digits(bound["quantile_95"]),
                digits(bound["largest"]),
                f"{bound['not_finite']:,}",
            )
            for name, bound in (
                ("before", records["bounds"]["before"]),
                ("after", records["bounds"]["after"]),
            )
        ],
    }


def chain_facts(chains: dict[str, Any] | None) -> dict[str, Any] | None:
    """R-hat and effective sample sizes."""
    if chains is None:
        return None
    return {
        **chains,
        "svg": chains_figure(chains),
        "rows": [
            (
                f"{number}. {coordinate['coordinate']}",
                fixed(coordinate["rhat"], 4),
                fixed(coordinate["ess_bulk"], 0),
                fixed(coordinate["ess_tail"], 0),
            )
            for number, coordinate in enumerate(chains["each"], start=1)
        ],
    }
