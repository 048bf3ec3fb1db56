"""Estimates from further files of a release: the sample's sampling error, averages within a set.

A release has m sets of noisy tables; anyone may draw further files of a set (`Release.draw`). With
q_jk and u_jk estimate and sampling variance in file k of set j, which stands for s_jk of the
sample's records each,

    u_jk / s_jk                            is the sampling variance of the confidential estimate:
                                           more draws add no knowledge of the population
    q_j = sum_k q_jk/s_jk / sum_k 1/s_jk   has the noise of set j and the error of all its draws

and q_1, ..., q_m are combined as m estimates (combine.py): their spread b holds noise and draws, so
T = ubar + b/m. Files of one set share their noise, and b over all files would miss most of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.errors import Refused
from understudy.survey.drawn_file import DrawnFile
from understudy.survey.survey import Survey

Floats = NDArray[np.float64]


def stands_for(survey: Survey) -> float:
    """How many records of the sample a record stands for."""
    return survey.stands_for if isinstance(survey, DrawnFile) else 1.0


def within_sets(surveys: Sequence[Survey], numbers: Floats) -> Floats:
    """(files, k) numbers -> (sets, k): averages over the files of each set, by their records; over
    those that have the number."""
    groups: dict[Hashable, list[int]] = {}
    for row, survey in enumerate(surveys):
        own = survey.dataset if isinstance(survey, DrawnFile) else ("alone", row)
        groups.setdefault(own, []).append(row)
    if len(groups) == len(surveys):
        return numbers
    weights = np.array([1 / stands_for(survey) for survey in surveys])[:, None]
    weights = np.where(np.isnan(numbers), 0.0, weights)
    known = np.nan_to_num(numbers)
    averages = []
    for rows in groups.values():
        total = weights[rows].sum(axis=0)
        sums = (weights[rows] * known[rows]).sum(axis=0)
        averages.append(np.divide(sums, total, out=np.full_like(sums, np.nan), where=total > 0))
    return np.array(averages)


def check_conditions(surveys: Sequence[Survey], sums: Sequence[str]) -> None:
    """Refused where files with different conditions are put together, or where a sum is asked of
    files that all meet a condition: how many records meet it is not their own error."""
    conditions = {survey.where if isinstance(survey, DrawnFile) else None for survey in surveys}
    if len(conditions) > 1:
        raise Refused(
            "Some of the files hold records of one condition and others do not; combine files that "
            "were drawn with the same `where`."
        )
    if conditions != {None} and sums:
        raise Refused(
            f"`{sums[0]}` cannot be estimated from files of one condition, which have as many "
            "records as were asked for; draw without `where`, and name the condition in the table."
        )
