"""Identification risk of every record, before and after synthesis (R eq. 1 and 2).

An intruder knows a record's known variables and its true sensitive value. Among the records
that show this pattern, the risk is the share whose (synthetic) value is not close to the
truth, provided that the record's own value is. "Close" is a ball around the true value;
several sensitive variables make a product of intervals.

The cost is O(n log n) per data set for one or two sensitive variables; for three or more,
records are compared within their patterns in bounded memory (see `boxes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt
import polars as pl

from understudy.errors import Refused
from understudy.risk.boxes import box_sums
from understudy.risk.correspondence import (
    Data,
    aligned,
    frame_of,
    pattern_codes,
    refuse_bad_id,
    refuse_constant,
    sensitive_values,
    without_categories,
)
from understudy.risk.patterns import (
    Floats,
    Integers,
    Patterns,
    RadiusKind,
    ball_edges,
    ball_ranges,
    checked_radius,
    patterns_of,
    sort_points,
)
from understudy.risk.rectangles import rectangle_sums

__public__ = ("identification_risk", "known_contributions")

KnownSet = tuple[str, ...]


@overload
def identification_risk(
    confidential: Data,
    synthetic: Data | Sequence[Data] | None = None,
    *,
    known: Sequence[str] | str,
    target: str | Sequence[str],
    radius: float | Sequence[float] = 0.2,
    kind: RadiusKind = "relative",
    by_id: str | None = None,
) -> Floats: ...
@overload
def identification_risk(
    confidential: Data,
    synthetic: Data | Sequence[Data] | None = None,
    *,
    known: Sequence[Sequence[str]],
    target: str | Sequence[str],
    radius: float | Sequence[float] = 0.2,
    kind: RadiusKind = "relative",
    by_id: str | None = None,
) -> dict[KnownSet, Floats]: ...
def identification_risk(
    confidential: Data,
    synthetic: Data | Sequence[Data] | None = None,
    *,
    known: Sequence[str] | Sequence[Sequence[str]] | str,
    target: str | Sequence[str],
    radius: float | Sequence[float] = 0.2,
    kind: RadiusKind = "relative",
    by_id: str | None = None,
) -> Floats | dict[KnownSet, Floats]:
    """IR_i for every record, (n,): R eq. 2 without synthetic data, eq. 1 averaged over L with.

    `known` names the variables that the intruder knows (none: one pattern of all records);
    a list of lists asks for several intruders at once and gives a dict by tuple of names.
    `target` is the sensitive variable, or several: the ball is then the product of their
    intervals, with one radius for all or one for each. Records correspond by `by_id`, or by
    the order of rows when it is not given; `risk_profile` says which in its result.
    """
    sets, several = known_sets(known)
    targets = (target,) if isinstance(target, str) else tuple(target)
    risks, _ = risks_and_targets(confidential, synthetic, sets, targets, radius, kind, by_id)
    return risks if several else risks[sets[0]]


def known_contributions(
    confidential: Data,
    synthetic: Data | Sequence[Data] | None = None,
    *,
    known: Sequence[str],
    target: str | Sequence[str],
    radius: float | Sequence[float] = 0.2,
    kind: RadiusKind = "relative",
    by_id: str | None = None,
) -> pl.DataFrame:
    """What each known variable adds: the risk with all of them, and without each in turn.

    One row per variable: mean risk with and without it, their difference, and the share of
    records whose risk is higher because the intruder knows it.
    """
    names = known_sets(known)[0][0]
    if not names:
        raise Refused("There is no known variable whose contribution could be measured.")
    sets = [names, *(tuple(n for n in names if n != left_out) for left_out in names)]
    targets = (target,) if isinstance(target, str) else tuple(target)
    risks, _ = risks_and_targets(confidential, synthetic, sets, targets, radius, kind, by_id)
    with_all = risks[names]
    rows = []
    for left_out, without in zip(names, sets[1:], strict=True):
        rest = risks[without]
        rows.append(
            {
                "variable": left_out,
                "mean_with": float(with_all.mean()),
                "mean_without": float(rest.mean()),
                "contribution": float(with_all.mean() - rest.mean()),
                "share_raised": float((with_all > rest + 1e-12).mean()),
            }
        )
    return pl.DataFrame(rows)


def known_sets(
    known: Sequence[str] | Sequence[Sequence[str]] | str,
) -> tuple[list[KnownSet], bool]:
    """The sets of known variables, and whether several were asked for."""
    if isinstance(known, str):
        return [(known,)], False
    several = len(known) > 0 and not any(isinstance(entry, str) for entry in known)
    sets = [tuple(entry) for entry in known] if several else [tuple(str(n) for n in known)]
    if len({frozenset(names) for names in sets}) < len(sets):
        raise Refused("The same set of known variables is given twice; list each set once.")
    for names in sets:
        if len(set(names)) < len(names):
            raise Refused("A known variable is named twice; name each once.")
    return sets, several


def count_inside(
    points: Floats, patterns: Patterns, lower: Floats, upper: Floats, code: Integers
) -> Integers:
    """How many points of its pattern each ball holds; points (d, n), edges (d, q), code (q,)."""
    if len(points) == 1:
        first, past = ball_ranges(sort_points(points[0], patterns), lower[0], upper[0], code)
        return past - first
    sums = rectangle_sums if len(points) == 2 else box_sums
    return sums(points, patterns, lower, upper, code)


@dataclass(frozen=True)
class KnownPatterns:
    """One set of known variables: who shares a pattern, and the order that searches fast."""

    known: KnownSet
    code: Integers  # (n,) pattern of each record
    order: Integers  # (n,) records sorted by pattern and value


def risks_and_targets(
    confidential: Data,
    synthetic: Data | Sequence[Data] | None,
    sets: Sequence[KnownSet],
    targets: tuple[str, ...],
    radius: float | Sequence[float],
    kind: RadiusKind,
    by_id: str | None,
) -> tuple[dict[KnownSet, Floats], Floats]:
    """Risk by set of known variables, and the confidential targets (d, n)."""
    names = columns_needed(sets, targets, by_id)
    radii = checked_radius(radius, targets, kind)
    frame = without_categories(frame_of(confidential, names))
    if frame.height == 0:
        raise Refused("The confidential data has no records; check the file.")
    values = sensitive_values(frame, targets, "the confidential data")
    refuse_constant(values, targets)
    lower, upper = ball_edges(values, radii, kind)
    intruders = [known_patterns(frame, known, values) for known in sets]
    if synthetic is None:
        return {i.known: confidential_risk(i, values, lower, upper) for i in intruders}, values
    if by_id is not None:
        refuse_bad_id(frame, by_id, "the confidential data")
    total = {i.known: np.zeros(frame.height) for i in intruders}
    number = 0
    for number, data in enumerate(datasets(synthetic), start=1):
        theirs = without_categories(frame_of(data, names))
        theirs = aligned(
            frame, theirs, list(dict.fromkeys(n for s in sets for n in s)), by_id, number
        )
        points = sensitive_values(theirs, targets, f"synthetic data set {number}")
        in_ball = np.logical_and.reduce((points >= lower) & (points <= upper), axis=0)
        for intruder in intruders:
            # By order, the known variables were found equal; by id they may be synthesized.
            shown = (
                (intruder.code, intruder.code)
                if by_id is None
                else _shown_patterns(intruder, frame, theirs)
            )
            records, risk = synthetic_risk(intruder.order, *shown, points, in_ball, lower, upper)
            total[intruder.known][records] += risk
    if number == 0:
        raise Refused("The list of synthetic data sets is empty; give at least one, or None.")
    return {known: risk / number for known, risk in total.items()}, values


def datasets(synthetic: Data | Sequence[Data]) -> Iterable[Data]:
    """The synthetic data sets one by one; a single one may come without a list."""
    if isinstance(synthetic, Mapping):
        raise Refused("Give the synthetic data sets as a list; a mapping has no order.")
    return synthetic if isinstance(synthetic, (list, tuple)) else [synthetic]


def columns_needed(
    sets: Sequence[KnownSet], targets: tuple[str, ...], by_id: str | None
) -> list[str]:
    if not targets or len(set(targets)) < len(targets):
        raise Refused("Name at least one target, and each target once.")
    for names in sets:
        for name in targets:
            if name in names:
                raise Refused(
                    f"`{name}` is both known and a target; the intruder's pattern is made of the "
                    "other variables, so remove it from `known`."
                )
    known = [name for names in sets for name in names]
    return list(dict.fromkeys([*known, *targets, *([by_id] if by_id else [])]))


def known_patterns(frame: pl.DataFrame, known: KnownSet, values: Floats) -> KnownPatterns:
    code = pattern_codes(frame, known)
    return KnownPatterns(known, code, sort_points(values[0], patterns_of(code)).order)


def confidential_risk(
    intruder: KnownPatterns, values: Floats, lower: Floats, upper: Floats
) -> Floats:
    """IR^c_i = share of the pattern outside B_i (R eq. 2)."""
    patterns, order = patterns_of(intruder.code), intruder.order
    code = intruder.code[order]
    inside = count_inside(values, patterns, lower[:, order], upper[:, order], code)
    size = patterns.size[code]
    risk = np.empty(len(code))
    risk[order] = (size - inside) / size
    return risk


def _shown_patterns(
    intruder: KnownPatterns, frame: pl.DataFrame, theirs: pl.DataFrame
) -> tuple[Integers, Integers]:
    """The pattern that the intruder seeks for each record, and the one its synthetic row shows."""
    known = list(intruder.known)
    if all(frame[name].equals(theirs[name], null_equal=True) for name in known):
        return intruder.code, intruder.code
    joint = pattern_codes(pl.concat([frame.select(known), theirs.select(known)]), known)
    return joint[: frame.height], joint[frame.height :]


def synthetic_risk(
    order: Integers,
    sought: Integers,
    shown: Integers,
    points: Floats,
    in_ball: npt.NDArray[np.bool_],
    lower: Floats,
    upper: Floats,
) -> tuple[Integers, Floats]:
    """The records with T_i = 1 and their IR_i^(l) (R eq. 1); every other record has 0.

    T_i = 1 when i's own synthetic row shows the pattern and its value lies in B_i, so only
    those balls are counted. IR_i^(l) is the share outside B_i among the synthetic records
    that show i's pattern.
    """
    if shown is not sought:
        in_ball = in_ball & (shown == sought)
    records = order[in_ball[order]]
    code = sought[records]
    patterns = patterns_of(shown, int(sought.max()) + 1)
    inside = count_inside(points, patterns, lower[:, records], upper[:, records], code)
    size = patterns.size[code]
    return records, (size - inside) / size
