"""Identification risk and risk weights of records that stay where they are, as a table.

All that a record's risk depends on is its pattern: the records that agree with it on the known
columns. So records are divided by pattern, and each part goes through the functions for files in
memory: the numbers are the same. For risk, patterns with very many records are cut into pieces
(pieces.py); for weights a pattern must fit into the memory of a worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import ibis
import ibis.expr.types as ir
import numpy as np
import polars as pl

from understudy.errors import Refused, UnknownName
from understudy.risk.correspondence import (
    bad_id,
    pattern_codes,
    sensitive_values,
    target_constant,
    target_missing,
    target_not_numeric,
    without_categories,
)
from understudy.risk.identification import (
    columns_needed,
    confidential_risk,
    known_patterns,
    known_sets,
    synthetic_risk,
)
from understudy.risk.patterns import Floats, RadiusKind, ball_edges, check_together, checked_radius
from understudy.risk.pieces import PATTERN, large_patterns, marked, risk_in_pieces
from understudy.risk.weights import (
    check_adjustments,
    least_records,
    risk_weights,
    small_refused,
)
from understudy.survey.partition_work import in_partitions
from understudy.survey.survey import Survey

__public__ = ("risk_table", "risk_weight_table")


def risk_table(
    confidential: Survey,
    synthetic: Sequence[Survey] = (),
    *,
    known: Sequence[str],
    target: str | Sequence[str],
    radius: float | Sequence[float] = 0.2,
    kind: RadiusKind = "relative",
    by_id: str | None = None,
    keep: Sequence[str] = (),
) -> ir.Table:
    """`identification_risk` of records on disk or on Spark: a table there of the known columns, the
    targets, the columns to `keep` and `risk`. Synthetic records correspond by `by_id`, and have the
    same known columns."""
    names, targets = known_sets(known)[0][0], _names(target)
    work = _Risk(names, targets, checked_radius(radius, targets, kind), kind)
    kept = tuple(dict.fromkeys([*keep, *([by_id] if by_id else [])]))
    table = _chosen(confidential, (names, targets, kept), "the confidential data")
    records = _checked(table, targets, "the confidential data", constant=True)
    if synthetic:
        if by_id is None:
            raise Refused(
                "Tables in a database have no order of rows; declare the record's id with `by_id`."
            )
        _check_id(table, by_id, records, "the confidential data")
        for number, survey in enumerate(synthetic, start=1):
            whose = f"synthetic data set {number}"
            theirs = _chosen(survey, (names, targets, (by_id,)), whose)
            _checked(theirs, targets, whose)
            _check_id(theirs, by_id, records, whose)
            table = _joined(table, theirs, names, targets, by_id, number, records)
        work = replace(work, files=len(synthetic))
    own = {name: table.schema()[name] for name in work.columns(kept)}
    schema = ibis.schema({**own, "risk": "float64"})
    large = large_patterns(table, names, targets[0])
    if not large.height:
        return in_partitions(table, names, work, schema)
    table = marked(table, names, large)
    cut = table[PATTERN] >= 0
    asked = (targets, work.shown, work.radii, kind, schema)
    pieces = risk_in_pieces(table.filter(cut), large, *asked)
    return ibis.union(pieces, in_partitions(table.filter(~cut).drop(PATTERN), names, work, schema))


def risk_weight_table(
    confidential: Survey,
    known: Sequence[str],
    target: str | Sequence[str],
    radius: float | Sequence[float] = 0.2,
    q: int = 2,
    c: float = 1.0,
    g: float = 0.0,
    small_patterns: str = "refuse",
    kind: RadiusKind = "relative",
    keep: Sequence[str] = (),
) -> ir.Table:
    """`q_way_weights` of records on disk or on Spark (marginal: q = 1, pairwise: q = 2): a table
    there of the known columns, the targets, the columns to `keep` and `weight`. Small patterns are
    refused or get weight zero; merging them needs all records in memory."""
    check_together(q)
    check_adjustments(c, g)
    if small_patterns not in ("refuse", "zero"):
        raise UnknownName("policy for small patterns here", small_patterns, ("refuse", "zero"))
    names, targets = known_sets(known)[0][0], _names(target)
    radii = checked_radius(radius, targets, kind)
    table = _chosen(confidential, (names, targets, keep), "the confidential data")
    records, least = (
        _checked(table, targets, "the confidential data", constant=True),
        least_records(q),
    )
    sizes = table.group_by(list(names)).aggregate(size=table.count()) if names else None
    patterns, small, largest = 1, int(records < least), records
    if sizes is not None:
        counted = sizes.aggregate(
            patterns=sizes.count(), small=(sizes["size"] < least).sum(), largest=sizes["size"].max()
        )
        patterns, small, largest = (int(number) for number in counted.to_polars().row(0))
    if small and small_patterns == "refuse":
        raise small_refused(small, patterns, least)
    work = _Weights(names, targets, radii, kind, q, c, g, least, (largest, records))
    schema = ibis.schema(
        {**{n: table.schema()[n] for n in work.columns(keep)}, "weight": "float64"}
    )
    return in_partitions(table, names, work, schema)


@dataclass(frozen=True, eq=False)
class _Part:
    """What is done with whole patterns, wherever they are."""

    known: tuple[str, ...]
    targets: tuple[str, ...]
    radii: Floats
    kind: RadiusKind

    def columns(self, keep: Sequence[str]) -> list[str]:
        """The columns of the result beside the new one."""
        return list(dict.fromkeys([*self.known, *self.targets, *keep]))


@dataclass(frozen=True, eq=False)
class _Risk(_Part):
    files: int = 0

    @property
    def shown(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each file's targets; the records' own where there is no file."""
        numbers = range(1, self.files + 1)
        theirs = (tuple(_synthetic_name(name, k) for name in self.targets) for k in numbers)
        return tuple(theirs) or (self.targets,)

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        frame = without_categories(frame)
        theirs = [name for names in self.shown for name in names if self.files]
        own = frame.drop(theirs)
        if frame.height == 0:
            return own.with_columns(risk=pl.lit(None, pl.Float64))
        values = sensitive_values(frame, self.targets, "the confidential data")
        lower, upper = ball_edges(values, self.radii, self.kind)
        patterns = known_patterns(frame, self.known, values)
        if not self.files:
            return own.with_columns(risk=confidential_risk(patterns, values, lower, upper))
        total = np.zeros(frame.height)
        for number, names in enumerate(self.shown, start=1):
            points = sensitive_values(frame, names, f"synthetic data set {number}")
            in_ball = np.logical_and.reduce((points >= lower) & (points <= upper), axis=0)
            shown = patterns.code, patterns.code
            rows, risk = synthetic_risk(patterns.order, *shown, points, in_ball, lower, upper)
            total[rows] += risk
        return own.with_columns(risk=total / self.files)


@dataclass(frozen=True, eq=False)
class _Weights(_Part):
    q: int
    c: float
    g: float
    least: int
    of_file: tuple[int, int]

    def __call__(self, frame: pl.DataFrame) -> pl.DataFrame:
        frame = without_categories(frame)
        if frame.height == 0:
            return frame.with_columns(weight=pl.lit(None, pl.Float64))
        values = sensitive_values(frame, self.targets, "the confidential data")
        code = pattern_codes(frame, self.known)
        weights = risk_weights(values, code, self.radii, self.q, self.kind, self.of_file)
        adjusted = np.clip(self.c * weights + self.g, 0.0, 1.0)
        adjusted[np.bincount(code)[code] < self.least] = 0.0
        return frame.with_columns(weight=adjusted)


def _names(target: str | Sequence[str]) -> tuple[str, ...]:
    return (target,) if isinstance(target, str) else tuple(target)


def _synthetic_name(name: str, number: int) -> str:
    return f"understudy_{name}_{number}"


def _chosen(survey: Survey, names: Sequence[Sequence[str]], whose: str) -> ir.Table:
    known, targets, keep = (tuple(each) for each in names)
    for name in (chosen := [*columns_needed([known], targets, None), *keep]):
        if name not in survey.columns:
            raise UnknownName(f"column of {whose}", name, survey.columns)
    return survey.table.select(list(dict.fromkeys(chosen)))


def _checked(table: ir.Table, targets: Sequence[str], whose: str, constant: bool = False) -> int:
    """The number of records; refused where targets are not numbers, missing, or constant."""
    facts = {"records": table.count()}
    for name in targets:
        if not table[name].type().is_numeric():
            raise target_not_numeric(name, whose)
        value = table[name].cast("float64")
        facts |= {f"{name} {what}": of() for what, of in
                  (("known", value.count), ("low", value.min), ("high", value.max))}  # fmt: skip
    of_all = table.aggregate(**facts).to_polars().row(0, named=True)
    records = int(of_all["records"])
    if records == 0:
        raise Refused(f"There are no records in {whose}; check the file.")
    for name in targets:
        low, high = of_all[f"{name} low"], of_all[f"{name} high"]
        if of_all[f"{name} known"] < records or not np.isfinite([low, high]).all():
            raise target_missing(name, whose)
        if constant and low == high:
            raise target_constant(name)
    return records


def _check_id(table: ir.Table, by_id: str, records: int, whose: str) -> None:
    rows, ids = table.aggregate(rows=table.count(), ids=table[by_id].nunique()).to_polars().row(0)
    if ids < rows:
        raise bad_id(by_id, whose)
    if rows != records:
        raise Refused(
            f"The confidential data has {records} records and {whose} has {rows}; by id "
            f"`{by_id}` each record needs exactly one synthetic row."
        )


def _joined(
    table: ir.Table,
    theirs: ir.Table,
    known: Sequence[str],
    targets: Sequence[str],
    by_id: str,
    number: int,
    records: int,
) -> ir.Table:
    """The records with the targets of their synthetic rows beside them."""
    new = {_synthetic_name(name, number): name for name in (*known, *targets)}
    joined = table.join(theirs.rename(new), by_id)
    same = [joined[name].identical_to(joined[_synthetic_name(name, number)]) for name in known]
    agrees = ibis.and_(*same).sum() if same else joined.count()
    rows, alike = joined.aggregate(rows=joined.count(), alike=agrees).to_polars().row(0)
    if rows != records:
        raise Refused(
            f"Some records have no row in synthetic data set {number} by id `{by_id}`; the ids "
            "must be the same in both files."
        )
    if alike != records:
        raise Refused(
            f"Known columns differ in synthetic data set {number}; where these are synthesized "
            "too, a pattern is not kept together: use `identification_risk` on files in memory."
        )
    return joined.drop(*(_synthetic_name(name, number) for name in known))
