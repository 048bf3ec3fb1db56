"""What the internal report reads of the inside of a release. Confidential."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.report.verdict import Fitness
from understudy.risk.attacks import Rehearsal
from understudy.risk.measure import DEFAULT, RiskMeasure, measure_of
from understudy.survey.implicates import Implicates
from understudy.survey.survey import Survey
from understudy.tables.statistic import Statistic

Places = NDArray[np.int64]


@dataclass(frozen=True)
class RiskSettings:
    """Who the intruder is: sets of known columns (the first is the main one) and the radius."""

    known: tuple[tuple[str, ...], ...]
    target: tuple[str, ...]
    radius: float = 0.2
    threshold: float = 0.5
    measure: RiskMeasure = field(default_factory=lambda: measure_of(DEFAULT))


class InsideFacts(Protocol):
    """The confidential survey, its table, and what the steward asked for.

    `confidential` has the steward's whole design (replicate weights too); its records and their
    order are those of the synthetic files where `rows_correspond` says so.
    """

    @property
    def title(self) -> str: ...
    @property
    def model_name(self) -> str: ...  # as a person would write it: FBS(salary ~ field + gender)
    @property
    def mechanism_name(self) -> str: ...  # ReferenceCensored(epsilon=3)
    @property
    def synthesized(self) -> tuple[str, ...]: ...
    @property
    def confidential(self) -> Survey: ...
    @property
    def analysed(self) -> Survey | Implicates: ...  # the same, or all of its implicates
    @property
    def confidential_table(self) -> pl.DataFrame: ...  # the rows of `tabulate(..., margins=...)`
    @property
    def statistics(self) -> tuple[Statistic, ...]: ...
    @property
    def by(self) -> tuple[str, ...]: ...
    @property
    def risk(self) -> RiskSettings | None: ...
    @property
    def regression(self) -> str | None: ...  # a formula for `regress`
    @property
    def fitness(self) -> Fitness | None: ...  # thresholds of the verdict; None: the usual ones
    def sample(self, records: int) -> Places | None: ...  # of so many; None: all are looked at
    def rehearse(self) -> Rehearsal | None: ...  # attacks with a control; None: not for this model
