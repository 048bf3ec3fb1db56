"""What measures of a difference have in common: the axis, the band of the tolerance, the words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from understudy.verify.measure import Measure, PosteriorPicture, QuestionTerms
from understudy.verify.numbers import chance, short


@dataclass(frozen=True)
class DifferenceMeasure(Measure, abstract=True):
    """The difference of the confidential estimate from the analyst's, on the estimate's scale."""

    noises = ("geometric",)
    held = False
    needs_se = True
    uses_interval = False
    reports = "reported difference"
    report_reach = None
    reports_difference = True
    against: ClassVar[str]  # what the confidential estimate is compared with, in a word

    def difference_in_words(self, terms: QuestionTerms, posterior: Any) -> str:
        low, high = posterior.interval(0.9)
        return (
            f"The confidential estimate differs from the {self.against} one by about "
            f"{short(posterior.estimate)} (90 % from {short(low)} to {short(high)}); the "
            f"probability that it is within your tolerance of {short(terms.tolerance)} is "
            f"{chance(posterior.probability_within())}."
        )

    def picture(self, terms: QuestionTerms, posterior: Any) -> PosteriorPicture:
        low, high = posterior.interval(0.9)
        x, _ = posterior.density(241)
        width = terms.tolerance
        return PosteriorPicture(
            across=f"confidential minus {self.against} estimate",
            reach=(min(float(x[0]), -1.25 * width), max(float(x[-1]), 1.25 * width)),
            tolerance=width,
            seen=(
                f"The difference is most likely near {short(posterior.estimate)}; nine times in "
                f"ten between {short(low)} and {short(high)}. The tolerance reaches from "
                f"{short(-width)} to {short(width)}."
            ),
            caption="Where the difference plausibly is, given the noisy answer.",
        )
