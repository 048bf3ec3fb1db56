"""How close the synthetic files are: distances, bootstrap intervals, pMSE, coefficients."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from understudy.errors import Refused
from understudy.report.cells import NUMBERS, compared_cells
from understudy.report.curves import numbers_in, numbers_of
from understudy.report.plain import plain
from understudy.survey.codebook import Codebook
from understudy.survey.implicates import Implicates
from understudy.survey.survey import Survey
from understudy.tables.regress import regress
from understudy.utility.bootstrap import bootstrap_intervals
from understudy.utility.ecdf import ecdf_distance
from understudy.utility.interval_overlap import interval_overlap
from understudy.utility.propensity import propensity_score
from understudy.utility.summary import STATISTICS

PROPENSITY_RECORDS = 20_000  # of each file at most
RESAMPLED = 50_000_000  # values that one column's bootstrap may draw in each file
PROPENSITY_CLASSES = 10


def utility(ours: pl.DataFrame, theirs: list[pl.DataFrame], numeric: list[str]) -> dict[str, Any]:
    """U_m and U_a of every numeric sensitive column, bootstrap intervals with overlap."""
    rng = np.random.default_rng(0)  # of the report, not of the release
    replicates = int(np.clip(RESAMPLED // max(ours.height, 1), 100, 1000))
    columns = [_column(name, ours, theirs, replicates, rng) for name in numeric]
    return {"columns": columns, "replicates": replicates}


def _column(
    name: str,
    ours: pl.DataFrame,
    theirs: list[pl.DataFrame],
    replicates: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    original, made = numbers_of(ours[name]), numbers_in(theirs, name)
    apart = np.mean([ecdf_distance(original, values) for values in made], axis=0)
    first = bootstrap_intervals(original, STATISTICS, rng=rng, replicates=replicates)
    second = bootstrap_intervals(made, STATISTICS, rng=rng, replicates=replicates)
    intervals = [
        plain(
            {
                "statistic": a.statistic,
                "confidential": {"estimate": a.plain, "lower": a.lower, "upper": a.upper},
                "synthetic": {"estimate": b.plain, "lower": b.lower, "upper": b.upper},
                "overlap": float(interval_overlap(a.lower, a.upper, b.lower, b.upper)),
            }
        )
        for a, b in zip(first, second, strict=True)
    ]
    return {
        "column": name,
        "U_m": plain(float(apart[0])),
        "U_a": plain(float(apart[1])),
        "missing_confidential": ours.height - len(original),
        "missing_synthetic": sum(frame.height for frame in theirs) - sum(map(len, made)),
        "intervals": intervals,
    }


def propensity(survey: Survey, datasets: list[Survey], columns: list[str]) -> dict[str, Any]:
    """pMSE of these columns together: the table's by-variables and the sensitive ones."""
    names = list(dict.fromkeys(columns))
    ours, *theirs = (each.frame(names) for each in (survey, *datasets))
    # The same rows of every file, for public columns must stay equal where rows correspond.
    height = min(frame.height for frame in (ours, *theirs))
    rows = None
    if height > PROPENSITY_RECORDS:
        rng = np.random.default_rng(0)
        rows = np.sort(rng.choice(height, PROPENSITY_RECORDS, replace=False))
        ours, theirs = ours[rows], [frame[rows] for frame in theirs]
    ours, *theirs = (_frame(frame, survey.codebook) for frame in (ours, *theirs))
    try:
        scores = [
            propensity_score(ours, frame, names, classes=PROPENSITY_CLASSES) for frame in theirs
        ]
    except Refused as refused:
        return {"refused": str(refused)}
    document: dict[str, Any] = plain(
        {
            "columns": names,
            "classes": PROPENSITY_CLASSES,
            "records": ours.height,
            "whole": rows is None,
            "pmse": [score.pmse for score in scores],
            "ratio": [score.ratio for score in scores],
            "standardised": [score.standardised for score in scores],
            "terms": scores[0].terms,
        }
    )
    return document


def coefficients(
    formula: str | None, survey: Survey | Implicates, datasets: list[Survey]
) -> dict[str, Any] | None:
    """The regression of the recipe on both sides; None when there is none."""
    if formula is None:
        return None
    try:
        ours = regress(survey, formula)
        theirs = regress(datasets, formula, combine="partial")
    except Refused as refused:
        return {"formula": formula, "refused": str(refused)}
    wanted = ["term", *NUMBERS]
    rows = compared_cells(
        ours.select(wanted).with_columns(pl.lit("coefficient").alias("statistic")),
        theirs.select(*wanted, "note").with_columns(pl.lit("coefficient").alias("statistic")),
        ("term",),
        Codebook(),
    )
    return {"formula": formula, "rows": rows}


def _frame(frame: pl.DataFrame, codebook: Codebook) -> pl.DataFrame:
    """Categories as texts, so that the numbers of levels are not taken for amounts."""
    return frame.with_columns(
        pl.col(name).cast(pl.String)
        for name in frame.columns
        if name in codebook and codebook[name].type == "categorical"
    )
