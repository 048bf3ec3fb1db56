"""A word of warning: weights that look calibrated, and a design that does not say so.

Standard errors that do not know of a calibration are too large, often several times. The weights
look calibrated on a by-variable if they add up to its declared public totals, or if weights that
are not whole numbers add up to whole numbers in every one of its levels.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import polars as pl

from understudy.survey.codebook import Value
from understudy.survey.collected import collected
from understudy.survey.survey import Survey
from understudy.tables.collect import ADDS_UP, Sums

WHOLE = 1e-3  # how near to a whole number a sum must be
VARIED = 50  # different weights, so that whole sums are no accident
SAID = (
    "The weights add up to {what} in every level of `{name}`, as if they were calibrated on it; "
    'say so in the design (calibrated="{formula}"), or its standard errors may be too large.'
)


class CalibrationWarning(UserWarning):
    """The weights look calibrated, and the design does not say so."""


def warn_of_calibration(survey: Survey, sums: Sums, names: Sequence[str]) -> None:
    """Once for each survey and by-variable."""
    design = survey.design
    if sums.replicates or design.calibrated or design.weight is None:
        return
    if survey.declared.misfit is not None:  # a synthetic file: its weights were raked when made
        return
    said = _SAID.setdefault(survey, set())
    for k, name in enumerate(names):
        if name in said or name == design.strata:
            continue
        if design.strata is not None and _of_strata(sums.frame, f"by{k}"):
            continue
        totals = sums.frame.group_by(f"by{k}").agg(pl.col("w").sum()).drop_nulls()
        declared = _declared(totals, survey.declared.population_by.get(name, {}))
        if declared or (_whole(totals) and _varied(survey, design.weight)):
            said.add(name)
            numeric = survey.table[name].type().is_numeric()
            what = "its public total" if declared else "a whole number"
            formula = f"C({name})" if numeric else name
            warnings.warn(
                SAID.format(what=what, name=name, formula=formula),
                CalibrationWarning,
                stacklevel=4,
            )


_SAID: WeakKeyDictionary[Survey, set[str]] = WeakKeyDictionary()


def _of_strata(frame: pl.DataFrame, by: str) -> bool:
    """Whether its levels are unions of strata: their sizes are known by design."""
    return frame.select("h", by).n_unique() == frame["h"].n_unique()


def _declared(totals: pl.DataFrame, public: Mapping[Value, float]) -> bool:
    texts = {str(level): size for level, size in public.items()}
    return bool(texts) and all(
        abs(total - texts.get(str(level), float("inf"))) <= ADDS_UP * total
        for level, total in totals.iter_rows()
    )


def _whole(totals: pl.DataFrame) -> bool:
    distance = (totals["w"] - totals["w"].round()).abs()
    return totals.height > 1 and bool((distance < WHOLE).all())


def _varied(survey: Survey, weight: str) -> bool:
    w = survey.table[weight].cast("float64")
    facts = survey.table.aggregate(
        different=w.nunique(), whole=((w - w.round()).abs() < WHOLE).mean()
    )
    different, whole = collected(facts).row(0)
    return bool(different >= VARIED and whole < 0.5)
