"""The contract of an estimator: one class in one file says everything about it.

    @dataclass(frozen=True)
    class MeanEstimator(Estimator):
        name = "mean"
        ...
        variable: Annotated[str, NumberColumn("Variable")]

Its fields are what a question must say, beside the domain; the query, the checks by the codebook,
the page's inputs, the canonical form and the reference follow from them.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from understudy.declarations import Declared

if TYPE_CHECKING:
    from understudy.survey.codebook import Codebook
    from understudy.tables.influence.question import InfluenceQuestion
    from understudy.verify.partition_pass import PartitionPass
    from understudy.verify.question_fields import Condition
    from understudy.verify.released import ReleasedPass

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimator(Declared, abstract=True):
    """What is estimated, with its settings; `variable` is the column that it is about."""

    name: ClassVar[str]  # in questions
    title: ClassVar[str]  # on the page
    rank: ClassVar[int]  # where it stands in lists; the common ones come first
    fitted: ClassVar[bool]  # by workers with a deadline for each partition, not by sums

    variable: str

    @property
    @abstractmethod
    def several(self) -> bool:
        """Whether it is more than one number, such as all coefficients of a regression."""

    @abstractmethod
    def in_words(self, where: str) -> str:
        """One line for lists; `where` describes the domain and is empty for the whole file."""

    def influence_question(
        self,
        codebook: Codebook,  # noqa: ARG002
        domain: tuple[Condition, ...],  # noqa: ARG002
    ) -> InfluenceQuestion | None:
        """The estimating equation and its columns; None where there is none."""
        return None

    @abstractmethod
    def partition_estimates(self, records: PartitionPass) -> Floats:
        """tau_k for k = 1..M, NaN where it does not exist."""

    @abstractmethod
    def released_estimate(self, release: ReleasedPass) -> dict[str, Any]:
        """`estimate` and `se` from the released files, combined over them."""


def restricted(lead: str, where: str) -> str:
    """ "Mean of salary where gender is Female"."""
    return f"{lead} where {where}" if where else lead
