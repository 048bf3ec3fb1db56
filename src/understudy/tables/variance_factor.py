"""What a sampling variance is multiplied by for what a file's design does not show.

- Clusters: the codebook's `design_effect`, where the design names neither PSUs nor replicate
  weights. A synthetic file has none of the confidential one's. Where single columns have figures of
  their own, it is the largest of those that an estimate is about: of a mean or a share the columns
  in it, whatever the group, and of a regression the outcome; of a count or a total those of the
  group too, which clusters hold more or less of. Groups that are spread over all clusters have a
  part of it (`VarianceFactor`).
- The fit of a synthetic file: the codebook's `misfit` (survey/misfit.py), by the columns that an
  estimate rests on; a design weight is one of them. In the mean of a group it counts as much as the
  other records are, 1 - p; where the table was measured, counts, shares and means are off by as
  many records in each cell (`evenly`, `evenly_in_shares`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.tables.domain import named_columns

Floats = NDArray[np.float64]
UNKNOWN = "(condition)"  # columns of a condition that is not a text
FITTED = 2.0  # degrees of freedom of a misfit: a variance as uncertain as it is large


def evenly(share: Floats | float, records: float) -> Floats:
    """What each group of a measured table has of its figure, over its sampling variance:
    min(q/p, n p), p the group's share of n records.

    The cells of a noisy table have the same noise, be they large or small, and so has what the fit
    made of it. So all groups are off by as many records: with the variance n q, or the square of
    their own number where that is less; n p is that of sampling. q is the mean of p (1 - p) over
    the records: groups of equal size have 1 - p of the figure.
    """
    p = np.asarray(share, dtype=np.float64)
    mean = (p**2 * (1 - p)).sum() / max(float(p.sum()), 1e-300)
    parts = np.divide(mean, p, out=np.zeros_like(p), where=p > 0)
    return np.asarray(np.minimum(parts, records * p), dtype=np.float64)


def evenly_in_shares(share: Floats | float, part: Floats, levels: int, records: float) -> Floats:
    """The same for the share `part` that a level has in each group, of a table of the groups and
    the level's column: q/(p s (1 - s)), s the part, or n l^2/(p s (1 - s)) where a cell has l of
    the records and that is less.

    A cell is off by a variance of n q records, its group by none, and the share by n q/(n p)^2;
    s (1 - s)/(n p) is that of sampling. The other levels are taken to be of one size.
    """
    p, s = np.broadcast_arrays(np.asarray(share, dtype=np.float64), np.nan_to_num(part))
    other = (1 - s) / max(levels - 1, 1)
    cells = np.stack([p * s, p * other])
    sizes = np.array([[1.0], [max(levels - 1, 1)]])
    q = (sizes * cells**2 * (1 - cells)).sum() / max(float(p.sum()), 1e-300)
    least = p * np.minimum(s, 1 - s)
    off = np.minimum(q, records * least**2)
    sampled = p * s * (1 - s)
    some = records * least > 1e-6
    return np.asarray(np.divide(off, sampled, out=np.zeros_like(off), where=some), np.float64)


@dataclass(frozen=True)
class VarianceFactor:
    """In a group with the share p of all n records: 1 + (`clusters` - 1) (p + (1 - p) `apart`)
    + `counted` + p `alone` + (1 - p) `grouped` + evenly(p, n) `even`
    + evenly_in_shares(p, s, `levels`, n) `split`, s the share that is estimated.

    `clusters` is the design effect of an estimate of all records. A group that is spread over all
    clusters has p of a cluster's records, and p of what they add; one that fills whole clusters
    (`apart` = 1) has all of it. `counted` is the misfit of counts, shares and totals; `alone` that
    of a mean's own columns, and `grouped` of these with the columns of the groups. Where their
    table was measured, that of means and counts is `even`, and that of shares `split`.
    """

    clusters: float = 1.0
    apart: float = 1.0
    counted: float = 0.0
    alone: float = 0.0
    grouped: float = 0.0
    even: float = 0.0
    split: float = 0.0
    levels: int = 2

    def of(self, share: float | Floats, records: float, estimate: Floats | None = None) -> Any:
        """For the groups of a table, all of them together; `estimate` where it is of shares."""
        return self._sampled(share) + self._fitted(share, records, estimate)

    def degrees(
        self, share: float | Floats, records: float, df: float, estimate: Floats | None = None
    ) -> Any:
        """Degrees of freedom of a variance that was multiplied by this and had `df` before."""
        return _together(self._sampled(share), df, self._fitted(share, records, estimate))

    def _sampled(self, share: float | Floats) -> Any:
        return 1 + (self.clusters - 1) * (share + (1 - share) * self.apart)

    def _fitted(self, share: float | Floats, records: float, estimate: Floats | None) -> Any:
        mine = self.counted + share * self.alone + (1 - share) * self.grouped
        if self.split and estimate is not None:
            mine = mine + evenly_in_shares(share, estimate, self.levels, records) * self.split
        return mine + evenly(share, records) * self.even

    @property
    def most(self) -> float:
        """Of an estimate that is not of one group: the whole figure."""
        return self.clusters + self.most_fitted

    def degrees_of_most(self, df: float) -> float:
        return float(_together(self.clusters, df, self.most_fitted))

    @property
    def most_fitted(self) -> float:
        return self.counted + self.grouped + self.even + self.split


def _together(sampled: Floats | float, df: float, fitted: Floats | float) -> Floats:
    """Degrees of freedom of a sum of two variances (Satterthwaite).

    A misfit is one figure for all groups of a table and is taken as double exponential, that is as
    normal with a variance that is itself exponential: its standard deviation is its mean, as that
    of a variance with two degrees of freedom.
    """
    of_sample, of_fit = (np.asarray(part, dtype=np.float64) for part in (sampled, fitted))
    with np.errstate(divide="ignore"):
        spread = np.divide(of_sample**2, df) + of_fit**2 / FITTED
    return np.where(of_fit > 0, (of_sample + of_fit) ** 2 / spread, df)


def variance_factor(
    codebook: Codebook,
    design: Design,
    group: Iterable[str],
    own: Iterable[str],
    where: Any,
    counts: bool,
    adds_up: bool,
) -> VarianceFactor:
    """For an estimate about the columns `own` in groups by others, of the records that meet
    `where`; `counts`: of records, not of numbers; `adds_up`: over groups."""
    groups, about = _drawn(group, codebook), _drawn(own, codebook)
    if where is not None:
        groups |= named_columns(where) if isinstance(where, str) else {UNKNOWN}
    factor = VarianceFactor()
    if design.psu is None and design.replicates is None:
        whole = adds_up or not about
        effect = _design_effect(codebook, about | groups if whole else about)
        apart = 1.0 if whole else _apart(codebook, design, groups)
        factor = VarianceFactor(effect, apart)
    if codebook.misfit is None:
        return factor
    weight = design.variance_weight or design.weight
    also = {weight} if weight is not None else set()
    grouped = codebook.misfit.figure(groups | about | also, counts)
    cells = groups | about | also
    followed = codebook.misfit.follows(cells) and len(cells) > 1
    if counts and followed:
        if adds_up:
            return replace(factor, even=grouped)
        return replace(factor, split=grouped, levels=_levels(codebook, about))
    if counts or adds_up:  # a count's own sampling variance knows its share
        return replace(factor, counted=grouped)
    factor = replace(factor, alone=codebook.misfit.figure(about | also, counts))
    if codebook.misfit.follows(cells):
        return replace(factor, even=grouped)
    return replace(factor, grouped=grouped)


def _levels(codebook: Codebook, columns: set[str]) -> int:
    """Into how many parts a group is divided: two where it is by a condition."""
    levels = [codebook[name].levels for name in columns if name in codebook]
    return len(levels[0]) if len(levels) == 1 and levels[0] else 2


def _apart(codebook: Codebook, design: Design, groups: set[str]) -> float:
    """How far groups fill whole clusters, from 0 to 1. With a design effect d of a group's own
    count its records are in clusters of p b + (1 - p) d of them, weighted by these, where clusters
    have b: beyond one of their own, p + (1 - p) (d - 1)/(b - 1) of those of all records."""
    size = codebook.psu_records
    if size is None or size <= 1 or design.strata in groups:
        return 1.0
    return min(max(_design_effect(codebook, groups) - 1, 0.0) / (size - 1), 1.0)


def _drawn(columns: Iterable[str], codebook: Codebook) -> set[str]:
    """The columns, with those that a derived one is made of in its place."""
    used = {*columns}
    for name in [name for name in used if name in codebook and codebook[name].derived]:
        used = used - {name} | named_columns(codebook[name].derived)
    return used


def _design_effect(codebook: Codebook, columns: set[str]) -> float:
    """The largest of the columns' own; one without has that of all."""
    common = 1.0 if codebook.design_effect is None else codebook.design_effect
    return max((codebook.design_effects.get(name, common) for name in columns), default=common)
