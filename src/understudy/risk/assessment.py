"""A whole look at risk: several releases, several intruders, one set of tables.

Everything here is computed from confidential data and belongs to the internal report only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from understudy.errors import Refused
from understudy.risk.correspondence import Data, frame_of, matching_rule, sensitive_values
from understudy.risk.identification import KnownSet
from understudy.risk.measure import DEFAULT, Intruder, RiskMeasure, measure_of
from understudy.risk.patterns import Floats, RadiusKind
from understudy.risk.profile import (
    WhackAMole,
    radius_notes,
    summarise_risk,
    top_records,
    whack_a_mole,
)
from understudy.risk.topcoding import topcoding_risk


@dataclass(frozen=True)
class RiskAssessment:
    """Risks of every release under every set of known variables, and their summaries.

    The first set of known variables is the main one: the top ten, the contributions and
    the whack-a-mole list are about it.
    """

    risks: dict[KnownSet, dict[str, Floats]]  # known set -> release -> (n,)
    profile: pl.DataFrame  # known, release, records, mean, median, iqr, maximum, share_above
    top10: pl.DataFrame  # place, record, one column per release
    contributions: pl.DataFrame | None  # None without known variables
    moles: WhackAMole | None  # None without a baseline
    notes: tuple[str, ...]

    @property
    def main(self) -> dict[str, Floats]:
        return next(iter(self.risks.values()))


def assess_risk(
    confidential: Data,
    synthetic: Sequence[Data] = (),
    *,
    known: Sequence[Sequence[str]],
    target: Sequence[str],
    radius: float | Sequence[float] = 0.2,
    kind: RadiusKind = "relative",
    by_id: str | None = None,
    baseline: Sequence[Data] = (),
    topcode: float | None = None,
    threshold: float = 0.5,
    rise: float = 0.25,
    measure: str | RiskMeasure = DEFAULT,
) -> RiskAssessment:
    """Risk of the data, of synthetic data sets, of a baseline's and of topcoding."""
    targets, sets = list(target), [tuple(names) for names in known]
    if not targets:
        raise Refused("Name the sensitive variable as the target.")
    if topcode is not None and len(targets) > 1:
        raise Refused("Topcoding can be compared for one target only; leave it out, or name one.")
    chosen = measure_of(measure)
    if topcode is not None and not chosen.of_topcoding:
        raise Refused(f"{chosen.title} is not defined for topcoding; leave topcoding out.")
    intruder = Intruder(tuple(sets), tuple(targets), radius, kind, by_id)
    by_release: dict[str, dict[KnownSet, Floats]] = {
        "Data": chosen.risks(confidential, None, intruder)
    }
    for release, files in (("Synthetic", synthetic), ("Baseline", baseline)):
        if files and chosen.of_release:
            by_release[release] = chosen.risks(confidential, list(files), intruder)
    if topcode is not None:
        by_release["Topcoded"] = {
            names: topcoding_risk(
                confidential,
                known=names,
                target=targets[0],
                share=topcode,
                radius=radius,
                kind=kind,
            )[0]
            for names in sets
        }
    risks = {names: {name: of[names] for name, of in by_release.items()} for names in sets}
    main = risks[sets[0]]
    released = list(synthetic) if synthetic and chosen.of_release else None
    contributions = chosen.contributions(confidential, released, intruder)
    moles = None
    if "Synthetic" in main and "Baseline" in main:
        moles = whack_a_mole(main["Baseline"], main["Synthetic"], rise)
    values = sensitive_values(frame_of(confidential, targets), targets, "the confidential data")
    notes = list(radius_notes(values, tuple(targets), kind))
    if (synthetic or baseline) and chosen.of_release:
        notes.insert(0, f"Records correspond {matching_rule(by_id, sets[0])}.")
    if moles is not None:
        notes.append(f"Whack-a-mole: {moles}")
    return RiskAssessment(
        risks,
        profile_table(risks, threshold),
        top_records(main, by="Data"),
        contributions,
        moles,
        tuple(notes),
    )


def profile_table(risks: dict[KnownSet, dict[str, Floats]], threshold: float) -> pl.DataFrame:
    """One row per set of known variables and release."""
    rows = []
    for known, files in risks.items():
        for release, risk in files.items():
            profile = summarise_risk(risk, threshold)
            rows.append(
                {
                    "known": ", ".join(known) or "(nothing)",
                    "release": release,
                    "records": profile.n,
                    "mean": profile.mean,
                    "median": profile.median,
                    "iqr": profile.iqr,
                    "maximum": profile.maximum,
                    "share_above": profile.share_above,
                }
            )
    return pl.DataFrame(rows)
