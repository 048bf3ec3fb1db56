"""The server's own code on a file that is public, such as last year's (V §5).

Every answer is one that a server would give if that file were the confidential one: new partitions,
new noise, the same posterior. Nothing is spent, and nothing may be read that is confidential.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ibis
import numpy as np
import polars as pl

from understudy.errors import Refused
from understudy.survey.survey import Survey
from understudy.verify.answer import check_question, noisy_number
from understudy.verify.confidential import ConfidentialData
from understudy.verify.measure import Floats, QuestionTerms
from understudy.verify.partition_pass import PartitionPass
from understudy.verify.partitions import PARTITION
from understudy.verify.query import Query
from understudy.verify.released import ReleasedFiles

__public__ = ("rehearse", "RehearsedAnswers")

MOST = 10_000  # answers


@dataclass(frozen=True)
class RehearsedAnswers:
    """Answers about a file whose own estimate is known.

    `answers` has a row for each: `median`, the posterior median that would be reported, and
    `says_inside`, whether the verdict would be "inside".
    """

    query: Query
    terms: QuestionTerms
    estimate: float  # of the file itself
    answers: pl.DataFrame

    @property
    def inside(self) -> bool:
        """Whether the file's own estimate is within the tolerance."""
        return abs(self.estimate - self.terms.estimate) <= self.terms.tolerance

    @cached_property
    def says_right(self) -> float:
        """How often the verdict was true."""
        return float(np.mean(self.answers["says_inside"].to_numpy() == self.inside))

    def quantiles(self, probabilities: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)) -> Floats:
        """Of what would be reported."""
        return np.asarray(np.quantile(self.answers["median"].to_numpy(), probabilities))

    def figure(self) -> str:
        """The distribution of answers as an SVG text."""
        from understudy.verify.plan_figure import draw_rehearsal

        return draw_rehearsal(self)


def rehearse(
    query: Query,
    survey: Survey,
    released: Sequence[Survey] = (),
    times: int = 200,
    workers: int = 2,
    deadline: float = 2.0,
) -> RehearsedAnswers:
    """Answer a question `times` times on a survey that is public.

    The synthetic estimate is the question's own, or that of the `released` files.
    """
    if not 1 <= times <= MOST:
        raise Refused(f"A rehearsal has from 1 to {MOST} answers.")
    if query.several:
        raise Refused("A rehearsal is about one number; leave `by` and `also` out.")
    files = ReleasedFiles(released, survey.codebook, "partial") if released else None
    with ConfidentialData(query.dataset, survey, workers=workers, deadline=deadline) as data:
        question = check_question(query, data, files)
        terms, measure = question.terms, query.measured_by
        rows = []
        for _ in range(times):
            noisy: Any = noisy_number(question, data)  # one number
            posterior = measure.posterior(terms, noisy)
            facts = measure.facts(posterior)
            chance = facts.get("probability_within", posterior.median)
            rows.append({"median": posterior.median, "says_inside": chance >= 0.5})
        own = _own_estimate(query, data, abs(terms.estimate) or 1.0)
        return RehearsedAnswers(query, terms, own, pl.DataFrame(rows))


def _own_estimate(query: Query, data: ConfidentialData, size: float) -> float:
    """Of the whole file: that of one partition."""
    table = data.records.mutate(**{PARTITION: ibis.literal(0).cast("int64")})
    whole = PartitionPass(data, table, query.domain, 1, np.ones(1), size)
    return float(query.estimand.partition_estimates(whole)[0])
