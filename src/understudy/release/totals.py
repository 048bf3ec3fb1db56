"""Whether the weights add up to what the codebook says of the population."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from understudy.errors import Refused
from understudy.internal_mark import with_mark
from understudy.survey.survey import Survey

TOLERANCE = 0.02  # relative; more than rounding or a late correction explains


@dataclass(frozen=True)
class _Compared:
    """A declared total beside what the weights of its records add up to."""

    what: str
    total: float
    declared: float
    key: str

    @property
    def apart(self) -> float:
        """Relative to the declared total."""
        return abs(self.total - self.declared) / abs(self.declared) if self.declared else math.inf


def check_totals(survey: Survey) -> None:
    """Refused where a declared total is more than 2 % off the weights of its records."""
    for compared in _compared(survey):
        if not math.isclose(compared.total, compared.declared, rel_tol=TOLERANCE):
            raise Refused(
                f"The weights of {compared.what} add up to {compared.total:.10g}, and "
                f"`{compared.key}` in the codebook says {compared.declared:.10g}; correct one of "
                "them, or say in `population.where` which records the public totals are of, if not "
                "of those of this release."
            )


def totals_said(survey: Survey) -> str:
    """How far the weights are from the declared totals, for the steward; nothing without any."""
    worst = max(_compared(survey), key=lambda compared: compared.apart, default=None)
    if worst is None:
        return ""
    return with_mark(
        f"The weights add up to the declared totals to within {worst.apart:.2%}: furthest off are "
        f"{worst.what}, with {worst.total:,.10g} where `{worst.key}` says {worst.declared:,.10g}."
    )


def _compared(survey: Survey) -> Iterator[_Compared]:
    weight, codebook = survey.design.weight, survey.codebook
    if weight is None:
        return
    if codebook.population_size is not None:
        total = float(survey.table[weight].cast("float64").sum().to_pyarrow().as_py())
        yield _Compared("the records", total, codebook.population_size, "population.size")
    for name, totals in codebook.population_by.items():
        if name not in survey.columns:
            continue
        records = survey.table.select(level=survey.table[name], weight=survey.table[weight])
        grouped = records.group_by("level").aggregate(weight=records.weight.cast("float64").sum())
        sums = grouped.to_polars().with_columns(pl.col("level").cast(pl.String))
        by_level = dict(sums.select("level", "weight").iter_rows())
        for level, declared in totals.items():
            if str(level) in by_level:
                what = f"the records with `{name}` = {level}"
                yield _Compared(what, by_level[str(level)], declared, f"population.by.{name}")
