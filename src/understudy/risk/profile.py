"""Summaries of identification risk: the profile of a file, and records whose risk rose.

Everything here is computed from confidential data and belongs to the internal report only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from understudy.drawing import INTERNAL
from understudy.errors import Refused, UnknownName
from understudy.risk.correspondence import Data, matching_rule
from understudy.risk.identification import KnownSet, known_sets, risks_and_targets
from understudy.risk.patterns import Floats, Integers, RadiusKind

__public__ = ("risk_profile", "whack_a_mole")


@dataclass(frozen=True)
class RiskProfile:
    """The distribution of identification risk over the records of one file (R Figure 2)."""

    n: int
    mean: float
    lower_quartile: float
    median: float
    upper_quartile: float
    maximum: float
    threshold: float
    share_above: float  # share of records with risk above the threshold
    top: pl.DataFrame  # place, record (row number from 0), risk; riskiest first
    risk: Floats  # (n,)
    correspondence: str = ""
    notes: tuple[str, ...] = ()

    @property
    def iqr(self) -> float:
        return self.upper_quartile - self.lower_quartile

    def __str__(self) -> str:
        lines = [
            f"Identification risk of {self.n} records ({INTERNAL}): mean {self.mean:.4f}, "
            f"IQR {self.iqr:.4f}, maximum {self.maximum:.4f}, "
            f"{self.share_above:.2%} above {self.threshold:g}."
        ]
        if self.correspondence:
            lines.append(
                f"Synthetic records correspond to confidential ones {self.correspondence}."
            )
        return "\n".join([*lines, *self.notes])


@dataclass(frozen=True)
class WhackAMole:
    """Records whose risk rose from one synthesizer to another (R section 2.3.2)."""

    rise: float
    count: int
    records: pl.DataFrame  # record (row number from 0), before, after, rise; largest first

    def __str__(self) -> str:
        return (
            f"{self.count} records rise by {self.rise:g} or more ({INTERNAL}); compare with the "
            "count between two runs of the same synthesizer before reading anything into it."
        )


def risk_profile(
    confidential: Data,
    synthetic: Data | Sequence[Data] | None = None,
    *,
    known: Sequence[str] | str,
    target: str | Sequence[str],
    radius: float | Sequence[float] = 0.2,
    kind: RadiusKind = "relative",
    by_id: str | None = None,
    threshold: float = 0.5,
) -> RiskProfile:
    """The profile of `identification_risk` with the same arguments, and what to know about it."""
    sets, several = known_sets(known)
    if several:
        raise Refused("A profile is of one set of known variables; ask for each set in turn.")
    targets = (target,) if isinstance(target, str) else tuple(target)
    risks, values = risks_and_targets(confidential, synthetic, sets, targets, radius, kind, by_id)
    matched = "" if synthetic is None else matching_rule(by_id, sets[0])
    return summarise_risk(risks[sets[0]], threshold, matched, radius_notes(values, targets, kind))


def summarise_risk(
    risk: Floats,
    threshold: float = 0.5,
    correspondence: str = "",
    notes: Sequence[str] = (),
) -> RiskProfile:
    """Mean, quartiles, maximum, share above a threshold and the ten riskiest records."""
    risk = _risks(risk, "risk")
    if not 0 <= threshold <= 1:
        raise Refused("The threshold is a risk, so it must be between 0 and 1.")
    low, middle, high = np.quantile(risk, [0.25, 0.5, 0.75])
    return RiskProfile(
        n=len(risk),
        mean=float(risk.mean()),
        lower_quartile=float(low),
        median=float(middle),
        upper_quartile=float(high),
        maximum=float(risk.max()),
        threshold=threshold,
        share_above=float((risk > threshold).mean()),
        top=top_records({"risk": risk}, "risk"),
        risk=risk,
        correspondence=correspondence,
        notes=tuple(notes),
    )


def top_records(risks: Mapping[str, Floats], by: str, count: int = 10) -> pl.DataFrame:
    """The riskiest records by one column of risks, with the others beside it (R Table 2).

    place, record (row number from 0), then one column per entry of `risks`. Ties keep the
    order of the file.
    """
    if by not in risks:
        raise UnknownName("risk", by, risks)
    checked = {name: _risks(risk, name) for name, risk in risks.items()}
    if len({len(risk) for risk in checked.values()}) > 1:
        raise Refused("The risks are of files with different numbers of records.")
    order = np.argsort(-checked[by], kind="stable")[:count]
    columns = {name: risk[order] for name, risk in checked.items()}
    return pl.DataFrame({"place": np.arange(1, len(order) + 1), "record": order, **columns})


def whack_a_mole(before: Floats, after: Floats, rise: float = 0.25) -> WhackAMole:
    """Records whose risk rises by at least `rise` from `before` to `after`, largest first."""
    first, second = _risks(before, "before"), _risks(after, "after")
    if len(first) != len(second):
        raise Refused(
            f"`before` has {len(first)} records and `after` has {len(second)}; both must be "
            "risks of the same confidential records."
        )
    if not 0 < rise <= 1:
        raise Refused("The rise is a difference of risks, so it must be above 0 and at most 1.")
    difference = second - first
    risen: Integers = np.flatnonzero(difference >= rise - 1e-12)
    risen = risen[np.argsort(-difference[risen], kind="stable")]
    records = pl.DataFrame(
        {
            "record": risen,
            "before": first[risen],
            "after": second[risen],
            "rise": difference[risen],
        }
    )
    return WhackAMole(rise, len(risen), records)


def radius_notes(values: Floats, targets: KnownSet, kind: RadiusKind) -> tuple[str, ...]:
    """What a relative radius hides: zeros have a ball of radius zero (methods: identification)."""
    if kind != "relative":
        return ()
    notes = []
    for name, row in zip(targets, values, strict=True):
        zeros = int((row == 0).sum())
        if zeros:
            notes.append(
                f"{zeros} records have `{name}` zero: a relative radius gives them a ball of "
                "radius zero, so a synthetic value almost never matches and they seem safe; "
                "use an absolute radius, or treat zero as a category of its own."
            )
    return tuple(notes)


def _risks(risk: Floats, name: str) -> Floats:
    risk = np.asarray(risk, dtype=np.float64)
    if risk.ndim != 1 or len(risk) == 0:
        raise Refused(f"`{name}` must be one risk per record.")
    if not ((risk >= 0) & (risk <= 1)).all():
        raise Refused(f"`{name}` has values outside 0 to 1; give identification risks.")
    return risk
