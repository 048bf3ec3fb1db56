"""What a release is made from and what it gives, before any report is written.

`Material` holds confidential records and stays inside. `PublicFacts` holds only what may be
published, and the public page is made from it alone: it has no way to reach a record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from understudy.claim import Claim
from understudy.report.verdict import Fitness
from understudy.risk.measure import DEFAULT, RiskMeasure, measure_of
from understudy.survey.codebook import Codebook
from understudy.survey.design import Design
from understudy.survey.file_format import Format
from understudy.survey.survey import Survey
from understudy.tables.statistic import Statistic

CombiningRule = Literal["partial", "full"]  # the combining rule that the synthetic files need
Vector = NDArray[np.float64]


@dataclass(frozen=True)
class ChainQuality:
    """How well the sampler did: one entry per coordinate in the first four."""

    coordinates: tuple[str, ...]
    rhat: Vector = field(repr=False)
    ess_bulk: Vector = field(repr=False)
    ess_tail: Vector = field(repr=False)
    divergences: int
    chains: int
    draws: int


@dataclass(frozen=True)
class Records:
    """Per record (n,): largest |log-likelihood| and largest |contribution| over the draws, and the
    record weight alpha; `limit` is the clipping limit (inf: none)."""

    loglik: Vector = field(repr=False)
    contribution: Vector = field(repr=False)
    weight: Vector = field(repr=False)
    limit: float
    censored: int


@dataclass(frozen=True)
class RiskSettings:
    """Who the intruder is: sets of known columns (the first is the main one) and the radius."""

    known: tuple[tuple[str, ...], ...]
    target: tuple[str, ...]
    radius: float = 0.2
    threshold: float = 0.5
    measure: RiskMeasure = field(default_factory=lambda: measure_of(DEFAULT))


@dataclass(frozen=True, eq=False)
class Material:
    """Everything that the internal report is computed from. Confidential.

    `confidential` has the steward's whole design (replicate weights too); the records and their
    order are those of the synthetic files where `rows_correspond`; where whole records are drawn
    (Multinomial), they do not, although such files are combined by the partial rule too (M eq.
    3.2). The two tables have the rows of `tabulate(..., margins=...)`. `records` and `chains` are
    None for mechanisms without a fit.
    """

    title: str
    model: str  # as a person would write it: FBS(salary ~ field + gender)
    mechanism: str  # ReferenceCensored(epsilon=3)
    kind: CombiningRule
    sensitive: tuple[str, ...]
    confidential: Survey = field(repr=False)
    datasets: list[Survey] = field(repr=False)
    claim: Claim
    statistics: tuple[Statistic, ...]
    by: tuple[str, ...]
    confidential_table: pl.DataFrame = field(repr=False)
    released_table: pl.DataFrame = field(repr=False)
    records: Records | None = None
    chains: ChainQuality | None = None
    risk: RiskSettings | None = None
    regression: str | None = None  # a formula for `regress`
    dropped: int = 0
    rows_correspond: bool = True
    fitness: Fitness | None = None  # thresholds of the verdict; None: the usual ones
    seed: int = 0  # of the bootstrap in the report; not the seed of the release


@dataclass(frozen=True)
class PublicFacts:
    """Everything that the public page is made from: nothing here comes from a record, except
    through the mechanism that the claim speaks of, or as a column that the claim calls public."""

    title: str
    claim: Claim
    kind: CombiningRule
    files: tuple[str, ...]  # synthetic/1.parquet, ...; other formats beside them
    formats: tuple[Format, ...]  # Parquet first
    records: int  # in each file
    design: Design  # of the synthetic files
    codebook: Codebook  # of the synthetic files
    statistics: tuple[Statistic, ...]
    by: tuple[str, ...]
    margins: bool
    table: pl.DataFrame = field(repr=False)
    draws: bool  # whether draws.json is part of the release
    version: str
    synthetic: tuple[str, ...] = ()  # columns; empty: those the codebook calls sensitive
