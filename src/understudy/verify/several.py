"""Several numbers in one answer: a whole table, or all coefficients of a regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from understudy.verify.numbers import short
from understudy.verify.query import Query
from understudy.verify.released import Synthetic


class NumberAnswer(BaseModel):
    """What an answer says about one of its numbers."""

    model_config = ConfigDict(frozen=True)

    name: str
    released: float
    tolerance: float
    difference: float
    low: float  # 90 % interval of the difference
    high: float
    probability_within: float
    corrected: float
    corrected_se: float
    corrected_low: float  # 95 % interval, for the population
    corrected_high: float


def answered_numbers(
    query: Query, synthetic: Sequence[Synthetic], noisy: Sequence[float]
) -> tuple[NumberAnswer, ...]:
    """The posterior of every number; each has the tolerance of its own standard error."""
    rows = []
    for number, value in zip(synthetic, noisy, strict=True):
        terms = query.terms(number.estimate, number.se, number.influence)
        belief: Any = query.measured_by.posterior(terms, value)
        low, high = belief.interval(0.9)
        first, last = belief.corrected_interval(0.95)
        rows.append(
            NumberAnswer(
                name=number.name,
                released=number.estimate,
                tolerance=terms.tolerance,
                difference=belief.estimate,
                low=low,
                high=high,
                probability_within=belief.probability_within(),
                corrected=belief.corrected,
                corrected_se=belief.corrected_se,
                corrected_low=first,
                corrected_high=last,
            )
        )
    return tuple(rows)


def headline(numbers: Sequence[NumberAnswer]) -> str:
    """In a few words; empty for a question about one number."""
    if not numbers:
        return ""
    return f"{_inside(numbers)} of {len(numbers)} numbers are likely within your tolerance"


def sentence(numbers: Sequence[NumberAnswer]) -> str:
    """The answer in words; empty for a question about one number."""
    if not numbers:
        return ""
    least = min(numbers, key=lambda number: number.probability_within)
    return (
        f"Of {len(numbers)} numbers, {_inside(numbers)} are within their tolerance with a "
        f"probability of one half or more. The least likely is {least.name}: it differs by about "
        f"{short(least.difference)} (90 % from {short(least.low)} to {short(least.high)}), where "
        f"the tolerance is {short(least.tolerance)}. The numbers to publish are the corrected "
        "ones, whose standard errors hold sampling, clipping and noise."
    )


def _inside(numbers: Sequence[NumberAnswer]) -> int:
    return sum(number.probability_within >= 0.5 for number in numbers)
