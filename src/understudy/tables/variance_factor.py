"""What a sampling variance is multiplied by for what a file's design does not show.

- Clusters: the codebook's `design_effect`, where the design names neither PSUs nor replicate
  weights. A synthetic file has none of the confidential one's. Where single columns have figures of
  their own, it is the largest of those that an estimate is about: of a mean or a share the columns
  in it, whatever the group, and of a regression the outcome; of a count or a total those of the
  group too, which clusters hold more or less of.
- The fit of a synthetic file: the codebook's `misfit` (survey/misfit.py), by the columns that an
  estimate rests on; a design weight is one of them. In the mean of a group it counts as much as the
  other records are, 1 - p.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.tables.domain import named_columns

Floats = NDArray[np.float64]
UNKNOWN = "(condition)"  # columns of a condition that is not a text


@dataclass(frozen=True)
class VarianceFactor:
    """`clusters` times 1 + p `alone` + (1 - p) `grouped`, p a group's share of all records: the
    misfit of an estimate's own columns, and that of the columns with those of the groups."""

    clusters: float
    alone: float
    grouped: float

    def of(self, share: float | Floats) -> Any:
        return self.clusters * (1 + share * self.alone + (1 - share) * self.grouped)

    @property
    def most(self) -> float:
        """In a group of few records."""
        return self.clusters * (1 + self.grouped)


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
    factor = 1.0
    if design.psu is None and design.replicates is None:
        factor = _design_effect(codebook, about | groups if adds_up or not about else about)
    if codebook.misfit is None:
        return VarianceFactor(factor, 0.0, 0.0)
    weight = design.variance_weight or design.weight
    also = {weight} if weight is not None else set()
    grouped = codebook.misfit.figure(groups | about | also, counts)
    if counts or adds_up:  # a count's own sampling variance knows its share
        return VarianceFactor(factor, grouped, grouped)
    return VarianceFactor(factor, codebook.misfit.figure(about | also, counts), grouped)


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
