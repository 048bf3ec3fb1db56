"""What the internal evidence sees of records on a cluster: a sample, and it says so.

Distributions, pairs of columns, propensity and attacks look at records one by one, so they are of
the sample. The table is of all records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from understudy.release.confidential_file import sampled
from understudy.release.inside import Inside
from understudy.report.inside_facts import Places, RiskSettings
from understudy.report.verdict import Fitness
from understudy.risk.attacks import Rehearsal
from understudy.survey.survey import Survey
from understudy.tables.statistic import Statistic


@dataclass(frozen=True, eq=False)
class SampledInside:
    """The inside of a release with a sample in the place of its records."""

    inside: Inside = field(repr=False)

    @cached_property
    def confidential(self) -> Survey:
        return sampled(self.inside.confidential, self.inside.identity)

    @property
    def analysed(self) -> Survey:
        return self.confidential

    @property
    def confidential_table(self) -> pl.DataFrame:
        """Of all records."""
        return self.inside.confidential_table

    @property
    def title(self) -> str:
        return self.inside.title

    @property
    def model_name(self) -> str:
        return self.inside.model_name

    @property
    def mechanism_name(self) -> str:
        return self.inside.mechanism_name

    @property
    def synthesized(self) -> tuple[str, ...]:
        return self.inside.synthesized

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        return self.inside.statistics

    @property
    def by(self) -> tuple[str, ...]:
        return self.inside.by

    @property
    def risk(self) -> RiskSettings | None:
        return self.inside.risk

    @property
    def regression(self) -> str | None:
        return self.inside.regression

    @property
    def fitness(self) -> Fitness | None:
        return self.inside.fitness

    def sample(self, records: int) -> Places | None:
        return self.inside.sample(records)

    def rehearse(self) -> Rehearsal | None:
        return self.inside.rehearse()


def evidence_of(inside: Inside, gathered: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """The evidence document of a release; of records on a cluster, of a sample of them."""
    if not inside.confidential.on_cluster:
        return gathered(inside)
    seen = SampledInside(inside)
    document = gathered(seen)
    records, of = seen.confidential.n, inside.confidential.n
    document["records_confidential"] = of
    document["records_sampled"] = records
    document["summary"].insert(1, _sentence(records, of))
    return document


def _sentence(records: int, of: int) -> str:
    if records == of:
        return f"The records are on Spark; all {of:,} were looked at, as they are few."
    return (
        f"The records are on Spark: distributions, pairs of columns, distances and attacks are of "
        f"a random sample of {records:,} of the {of:,} records; the table is of all."
    )
