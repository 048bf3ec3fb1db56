"""Identification risk for the report: profiles and densities, without one entry per record."""

from __future__ import annotations

from typing import Any

from understudy.errors import Refused
from understudy.report.inside_facts import RiskSettings
from understudy.report.plain import curve, plain
from understudy.risk.assessment import assess_risk
from understudy.risk.figure import risk_density
from understudy.survey.implicates import Implicates
from understudy.survey.survey import Survey

WHY_FULL = (
    "Every column of the synthetic files was drawn, so their records do not correspond to "
    "confidential ones, and the risk of one record in the release is not defined. The risk "
    "shown is that of the confidential file, had it been published as it is."
)
WHY_DATA = (
    "This measure is defined for the confidential file alone. The risk shown is that "
    "of this file, had it been published as it is."
)


def risk_evidence(
    settings: RiskSettings | None, survey: Survey | Implicates, datasets: list[Survey] | None
) -> dict[str, Any] | None:
    """Profiles under every set of known columns; None when no intruder was described. `datasets` is
    None where their rows do not correspond to the survey's."""
    if settings is None:
        return None
    measure = settings.measure
    why = WHY_FULL if datasets is None else "" if measure.of_release else WHY_DATA
    document: dict[str, Any] = {
        "title": measure.title,
        "phrase": measure.phrase,
        "meaning": measure.meaning,
        "target": list(settings.target),
        "radius": plain(settings.radius),
        "threshold": plain(settings.threshold),
        "why": why,
    }
    try:
        return {**document, **_assessed(settings, survey, datasets or [])}
    except Refused as refused:
        return {**document, "refused": str(refused)}


def _assessed(
    settings: RiskSettings, survey: Survey | Implicates, datasets: list[Survey]
) -> dict[str, Any]:
    assessed = assess_risk(
        survey,
        datasets,
        known=settings.known,
        target=settings.target,
        radius=settings.radius,
        threshold=settings.threshold,
        measure=settings.measure,
    )
    panels = []
    for known, releases in assessed.risks.items():
        grid, _ = risk_density(next(iter(releases.values())))
        panels.append(
            {
                "known": list(known),
                "grid": curve(grid),
                "releases": [
                    {
                        "release": _name(release),
                        "density": curve(risk_density(risk)[1]),
                        "mean": plain(float(risk.mean())),
                        "maximum": plain(float(risk.max())),
                        "share_above": plain(float((risk > settings.threshold).mean())),
                    }
                    for release, risk in releases.items()
                ],
            }
        )
    profile = [
        {**plain(row), "release": _name(row["release"])}
        for row in assessed.profile.iter_rows(named=True)
    ]
    top = [
        {_name(name): plain(value) for name, value in row.items()}
        for row in assessed.top10.iter_rows(named=True)
    ]
    return {"panels": panels, "profile": profile, "top": top, "notes": list(assessed.notes)}


def _name(release: str) -> str:
    return {"Data": "confidential", "Synthetic": "synthetic"}.get(release, release)
