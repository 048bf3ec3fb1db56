"""Public totals of the population: the unit of the weights, and what synthetic weights add up to.

The confidential sum of the weights is never used. The unit weight is N/n with public n and N
(methods §4); synthetic weights are scaled to N_h where the codebook gives the strata's sizes,
else to N.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.survey.collected import collected
from understudy.survey.survey import Survey

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class PublicTotals:
    """N, and N_h by the text of the stratum's level (empty: only N is public)."""

    size: float
    stratum: str | None = None
    by_stratum: tuple[tuple[str, float], ...] = ()


def public_totals(survey: Survey, population: float | None = None) -> PublicTotals:
    """The totals that the codebook (or the model's `population`) declares, checked."""
    codebook, stratum = survey.codebook, survey.design.strata
    size = population if population is not None else codebook.population_size
    by = codebook.population_by.get(stratum, {}) if stratum is not None else {}
    if stratum is None or not by:
        if size is None:
            raise Refused(
                "The model needs the public size of the population, which fixes the unit of the "
                "weights; give `population.size` in the codebook, or `population=` to the model."
            )
        return PublicTotals(float(size))
    total = math.fsum(by.values())
    if size is not None and not math.isclose(total, size, rel_tol=1e-6):
        raise Refused(
            f"The public totals contradict each other: the strata of `{stratum}` add up to "
            f"{total:.10g}, and the population has {size:.10g}; correct one of them."
        )
    totals = {str(level): float(count) for level, count in by.items()}
    levels = collected(survey.table.select(stratum).distinct())[stratum]
    observed = {str(level) for level in levels.drop_nulls()}
    _refuse_strata(stratum, set(totals), observed)
    return PublicTotals(float(total), stratum, tuple(sorted(totals.items())))


def _refuse_strata(stratum: str, declared: set[str], observed: set[str]) -> None:
    without_records = sorted(declared - observed)
    if without_records:
        raise Refused(
            f"The stratum `{stratum}` = {without_records[0]} has a public total and no records; "
            "merge it with another stratum in the file and in the codebook."
        )
    without_total = sorted(observed - declared)
    if without_total:
        raise Refused(
            f"The stratum `{stratum}` = {without_total[0]} has records and no public total; add "
            "its size to the codebook."
        )


def weight_unit(totals: PublicTotals, n: int) -> float:
    """N/n: the weight that counts as 1 in the model."""
    return totals.size / n


def scaled_weights(log_weight: Vector, survey: Survey, totals: PublicTotals) -> Vector:
    """exp(log_weight), scaled to N_h in each stratum, or to N."""
    if totals.stratum is None:
        return totals.size * _shares(log_weight)
    level = survey.frame([totals.stratum])[totals.stratum].cast(pl.String).to_numpy()
    weight = np.empty(len(log_weight))
    for name, total in totals.by_stratum:
        inside = level == name
        weight[inside] = total * _shares(log_weight[inside])
    return weight


def _shares(log_weight: Vector) -> Vector:
    relative = np.exp(log_weight - log_weight.max())
    return np.asarray(relative / relative.sum())
