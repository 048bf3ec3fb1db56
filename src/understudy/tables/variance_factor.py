"""What a sampling variance is multiplied by for what a file's design does not show.

- Clusters: the codebook's `design_effect`, where the design names neither PSUs nor replicate
  weights. A synthetic file has none of the confidential one's.
- The fit of a synthetic file: the codebook's `misfit` (survey/misfit.py), by the columns that an
  estimate rests on; a design weight is one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.tables.domain import named_columns

UNKNOWN = "(condition)"  # columns of a condition that is not a text


def variance_factor(
    codebook: Codebook, design: Design, columns: Iterable[str], where: Any, counts: bool
) -> float:
    """For an estimate from these columns of the records that meet `where`; `counts`: of records,
    not of numbers."""
    factor = 1.0
    if design.psu is None and design.replicates is None and codebook.design_effect is not None:
        factor = codebook.design_effect
    if codebook.misfit is None:
        return factor
    used = {*columns}
    if where is not None:
        used |= named_columns(where) if isinstance(where, str) else {UNKNOWN}
    for name in [name for name in used if name in codebook and codebook[name].derived]:
        used = used - {name} | named_columns(codebook[name].derived)
    weight = design.variance_weight or design.weight
    if weight is not None:
        used.add(weight)
    return factor * codebook.misfit.factor(used, counts)
