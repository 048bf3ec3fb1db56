"""The contract of a measure: one class in one file says everything about it.

A measure turns every partition's estimate into a whole number within fixed bounds, whatever the
records say; one unit touches one partition, so the sum moves by at most the distance of the
bounds. Noise of that size is added by the server, from the samplers that the measure names.
Everything else is what the noisy sum says, in numbers, words and pictures.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.declarations import Declared
from understudy.verify.influence_figures import InfluenceFigures

Floats = NDArray[np.float64]
Steps = NDArray[np.int64]
Interval = Literal["adjusted", "fixed"]

QUANTILES = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class QuestionTerms:
    """A question in numbers: all of them public, and all that a measure needs to know."""

    estimate: float  # the synthetic one
    se: float | None
    tolerance: float  # half the width of the interval for the whole file
    partitions: int
    epsilon: float
    interval: Interval
    noise: str
    influence: InfluenceFigures | None = None  # where the measure does not divide the file


class AnswerPosterior(Protocol):
    """What is known after the answer."""

    @property
    def median(self) -> float: ...
    @property
    def mean(self) -> float: ...
    def interval(self, probability: float = 0.95) -> tuple[float, float]: ...
    def density(self, points: int = 201) -> tuple[Floats, Floats]: ...


@dataclass(frozen=True)
class PosteriorPicture:
    """How a posterior is drawn: the axis, and what can be seen, in words."""

    across: str
    reach: tuple[float, float]
    tolerance: float | None  # half the width of the band, where the axis has one
    seen: str
    caption: str


@dataclass(frozen=True)
class Measure(Declared, abstract=True):
    """What an answer measures, with its settings."""

    name: ClassVar[str]  # in questions
    title: ClassVar[str]  # on the page
    rank: ClassVar[int]  # where it stands in lists; the first is the usual one
    tells: ClassVar[str]  # what an answer says, on pages and receipts
    cannot: ClassVar[str]  # and what it cannot say
    divides: ClassVar[bool]  # the file into partitions; else the answer is one sum by influence
    partitions: ClassVar[int]  # M where the question does not say
    bounds: ClassVar[tuple[int, int]]  # of a partition's number
    noises: ClassVar[tuple[str, ...]]  # samplers of `understudy.verify.noise`, the usual one first
    held: ClassVar[bool]  # whether the noisy sum is held between the possible sums
    needs_se: ClassVar[bool]  # whether there is no answer without the synthetic standard error
    uses_interval: ClassVar[bool]  # whether the tolerance's `interval` matters
    reports: ClassVar[str]  # what a plan's axis calls the reported number
    report_reach: ClassVar[tuple[float, float] | None]  # of that axis; None: by the numbers
    reports_difference: ClassVar[bool]  # whether the number reported is on the estimate's scale

    @abstractmethod
    def refusal(self, terms: QuestionTerms) -> str:
        """Why these terms cannot be answered; empty when they can."""

    @abstractmethod
    def numbers(self, terms: QuestionTerms, estimates: Floats) -> Steps:
        """One whole number within `bounds` per partition; NaN is a missing estimate."""

    @abstractmethod
    def posterior(self, terms: QuestionTerms, noisy: float) -> AnswerPosterior:
        """What the noisy sum says."""

    @abstractmethod
    def facts(self, posterior: Any) -> dict[str, float | bool]:
        """Numbers on the receipt beside the median, the mean and the interval."""

    @abstractmethod
    def sentence(self, terms: QuestionTerms, posterior: Any) -> str:
        """The answer in words, with what it cannot say."""

    @abstractmethod
    def headline(self, posterior: Any) -> str:
        """The answer in a few words."""

    @abstractmethod
    def picture(self, terms: QuestionTerms, posterior: Any) -> PosteriorPicture:
        """How the page draws the posterior."""

    @abstractmethod
    def law(self, terms: QuestionTerms, offset: Floats, sigma: Floats) -> dict[str, Floats]:
        """The exact distribution of what is reported (V §5), for assumed confidential results:
        `offset` from the synthetic estimate, standard error `sigma`. See `planner.Plan`."""

    @classmethod
    def sensitivity(cls) -> int:
        """By how much one unit moves the sum."""
        low, high = cls.bounds
        return high - low


def zero_width(terms: QuestionTerms) -> str:
    """The refusal of a tolerance without a width; empty where there is one."""
    if math.isfinite(terms.tolerance) and terms.tolerance > 0:
        return ""
    return "This tolerance has zero width; give it in standard errors instead."


def report_quantiles(reached: Floats, medians: Floats) -> dict[str, Floats]:
    """The 5 %, 50 % and 95 % points of what is reported, from distribution functions (rows)."""
    names = ("median_low", "median_mid", "median_high")
    columns = {}
    for name, probability in zip(names, QUANTILES, strict=True):
        position = np.sum(reached < probability, axis=1)
        columns[name] = medians[np.minimum(position, len(medians) - 1)]
    return columns
