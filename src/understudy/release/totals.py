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
        total = float(survey.frame([weight])[weight].sum())
        _compare("the records", total, codebook.population_size, "population.size")
    for name, totals in codebook.population_by.items():
        if name not in survey.columns:
            continue
        sums = (
            survey.frame([name, weight])
            .group_by(pl.col(name).cast(pl.String))
            .agg(pl.col(weight).sum())
        )
        by_level = dict(sums.iter_rows())
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
