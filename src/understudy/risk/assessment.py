"""A whole look at risk: several releases, several intruders, one set of tables.

Everything here is computed from confidential data and belongs to the internal report only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
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
from understudy.survey.implicates import Implicates


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
    """Risk of the data, of synthetic data sets, of a baseline's and of topcoding.

    Of a survey's implicates (`us.implicates`) each record has the mean of its risks: that of an
    intruder who is right where the imputed value is.
    """
    each = confidential if isinstance(confidential, Implicates) else [confidential]
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
        "Data": _averaged(chosen.risks(implicate, None, intruder) for implicate in each)
    }
    for release, files in (("Synthetic", synthetic), ("Baseline", baseline)):
        if files and chosen.of_release:
            by_release[release] = _averaged(
                chosen.risks(implicate, list(files), intruder) for implicate in each
            )
    if topcode is not None:
        by_release["Topcoded"] = _averaged(
            {
                names: topcoding_risk(
                    implicate,
                    known=names,
                    target=targets[0],
                    share=topcode,
                    radius=radius,
                    kind=kind,
                )[0]
                for names in sets
            }
            for implicate in each
        )
    risks = {names: {name: of[names] for name, of in by_release.items()} for names in sets}
    main = risks[sets[0]]
    released = list(synthetic) if synthetic and chosen.of_release else None
    contributions = _averaged_table(
        [chosen.contributions(implicate, released, intruder) for implicate in each]
    )
    moles = None
    if "Synthetic" in main and "Baseline" in main:
        moles = whack_a_mole(main["Baseline"], main["Synthetic"], rise)
    values = sensitive_values(frame_of(each[0], targets), targets, "the confidential data")
    notes = list(radius_notes(values, tuple(targets), kind))
    if len(each) > 1:
        notes.append(f"Risks are averaged over {len(each)} implicates.")
    if (synthetic or baseline) and chosen.of_release and chosen.by_record:
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


def _averaged(of_implicates: Iterable[dict[KnownSet, Floats]]) -> dict[KnownSet, Floats]:
    """The mean risk of every record under each set of known variables."""
    risks = list(of_implicates)
    return {names: np.mean([each[names] for each in risks], axis=0) for names in risks[0]}


def _averaged_table(of_implicates: list[pl.DataFrame | None]) -> pl.DataFrame | None:
    """The table with the means of its numbers; None without one."""
    tables = [table for table in of_implicates if table is not None]
    if len(tables) < 2:
        return tables[0] if tables else None
    keys = tables[0].select(pl.exclude(pl.Float64)).columns
    means = pl.concat(tables).group_by(keys, maintain_order=True).agg(pl.col(pl.Float64).mean())
    return means.select(tables[0].columns)


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
