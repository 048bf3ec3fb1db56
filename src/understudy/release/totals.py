"""Whether the weights add up to what the codebook says of the population."""

from __future__ import annotations

import math

import polars as pl

from understudy.errors import Refused
from understudy.survey.survey import Survey

TOLERANCE = 0.02  # relative; more than rounding or a late correction explains


def check_totals(survey: Survey) -> None:
    """Refused where a declared total is more than 2 % off the weights of its records."""
    weight, codebook = survey.design.weight, survey.codebook
    if weight is None:
        return
    if codebook.population_size is not None:
        total = float(survey.table[weight].cast("float64").sum().to_pyarrow().as_py())
        _compare("the records", total, codebook.population_size, "population.size")
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
                _compare(what, by_level[str(level)], declared, f"population.by.{name}")


def _compare(what: str, total: float, declared: float, key: str) -> None:
    if not math.isclose(total, declared, rel_tol=TOLERANCE):
        raise Refused(
            f"The weights of {what} add up to {total:.10g}, and `{key}` in the codebook says "
            f"{declared:.10g}; correct one of them, or say in `population.where` which records "
            "the public totals are of, if not of those of this release."
        )
