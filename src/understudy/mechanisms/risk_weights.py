"""Mechanisms whose record weights come from identification risk: Marginal, Pairwise, q-way (R).

alpha_i f_i with alpha from R eq. 3 (Marginal), eq. 6-9 (Pairwise) or groups of q records, then
clip(c alpha + g, 0, 1) (R supplement eq. 10). Weights are computed on the published values of the
sensitive columns (income, not log income). The claims are of kind `risk`: no epsilon.

`Censored(epsilon, weights=PairwiseRisk(...))` embeds the weights in a clipped likelihood: with
`reference=` the weight function is fixed on another file and the claim is formal; without it, it is
of kind `local`, because a record moves the weights of others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from math import isfinite
from typing import Annotated

import numpy as np
import polars as pl

from understudy.claim import Claim, several
from understudy.errors import Refused
from understudy.mechanisms.contract import (
    Fitted,
    Fitter,
    Mechanism,
    Prepared,
    ReleasedFile,
    Vector,
    plain_terms,
)
from understudy.mechanisms.outputs.file_tables import FileTables
from understudy.mechanisms.whole_file.file_counts import FileCounts
from understudy.risk.patterns import RadiusKind, check_together, checked_radius
from understudy.risk.reference_weights import reference_risk_weights
from understudy.risk.weights import SmallPatterns, q_way_weights
from understudy.survey.survey import Survey

SAME_DATABASE = (
    "The record weights alpha were computed from the identification risk in the same database. "
    "What holds: for a database with the same weights the probabilities differ by the stated "
    "factor at most. A database that differs in one record has other weights, and that may give "
    "away more"
)
OTHER_FILE = (
    "The record weights are a function of each record's own values that was fixed on another "
    "file; the claim does not cover that file"
)


@dataclass(frozen=True)
class RiskWeights(Mechanism, abstract=True):
    """What the risk mechanisms share: who is known, how close is close, and small patterns.

    `known` are the variables that an intruder knows (none: all records in one pattern). `target`
    is the sensitive variable of the ball, or several; by default all that the model synthesizes.
    """

    claims = "risk"
    relation = "blank"
    seeded = True
    fits = 1
    synthesizes = "outcome or file"
    needs_records = True  # a weight for each
    hands_out = "rows"
    epsilon = None
    delta = 0.0

    known: Annotated[tuple[str, ...], "Columns that an intruder knows."]
    radius: Annotated[float | tuple[float, ...], "Relative radius of the ball around a value."] = (
        0.2
    )
    _: KW_ONLY
    c: Annotated[float, "Scale of the weights."] = 1.0
    g: Annotated[float, "Shift of the weights."] = 0.0
    target: Annotated[
        str | tuple[str, ...] | None, "Sensitive columns, if not all of the model's."
    ] = None
    small_patterns: Annotated[SmallPatterns, "What becomes of patterns with few records."] = (
        "refuse"
    )
    radius_kind: Annotated[RadiusKind, "relative or absolute."] = "relative"
    reference: Annotated[Survey | None, "A historical file that the weights are taken from."] = None

    def __post_init__(self) -> None:
        known = (self.known,) if isinstance(self.known, str) else tuple(self.known)
        object.__setattr__(self, "known", known)
        if isinstance(self.radius, Sequence):
            object.__setattr__(self, "radius", tuple(self.radius))
        several = self.radius if isinstance(self.radius, tuple) else (self.radius,)
        checked_radius(self.radius, tuple(str(i) for i in range(len(several))), self.radius_kind)
        if not (isfinite(self.c) and isfinite(self.g) and self.c >= 0):
            raise Refused("The adjustments must be finite numbers, with c at least 0.")
        if self.reference is not None and not isinstance(self.reference, Survey):
            raise Refused("`reference` must be a Survey with the same columns.")

    @property
    @abstractmethod
    def records_together(self) -> int:
        """q: 1 is R's marginal risk, 2 its pairwise risk."""

    def settle(self, fitter: Fitter) -> tuple[Vector, str]:
        """alpha (n,), and the sentence that a claim with epsilon must add about it.

        Records without a value (or with an impossible one) belong to no pattern and weigh 0.
        """
        targets = self._targets(fitter)
        frame = fitter.survey.frame([*self.known, *(t for t in targets if t not in self.known)])
        present = fitter.present
        kept = frame.filter(pl.Series(present))
        alpha = np.zeros(fitter.n)
        alpha[present] = self._of(kept, targets)
        if not alpha.any():
            raise Refused("Every record weight is 0; use a larger radius, or raise c or g.")
        return alpha, SAME_DATABASE if self.reference is None else OTHER_FILE

    def prepare(self, fitter: Fitter, datasets: int) -> Prepared:  # noqa: ARG002
        alpha, _ = self.settle(fitter)
        return Prepared(plain_terms(fitter, alpha))

    def claim(self, prepared: Prepared, fitted: Fitted, datasets: int) -> Claim:  # noqa: ARG002
        return Claim("risk", None, mechanism=f"{self}, {several(datasets, 'draw')}")

    def release_file(self, counts: FileCounts, datasets: int) -> ReleasedFile:
        """The tables of a whole file without noise, in which each record counts alpha."""
        claim = Claim(
            "risk", None, mechanism=f"{self}, {several(datasets, 'data set')} from weighted counts"
        )
        alpha = self.weights_of_file(counts.survey)
        tables = FileTables(counts.measured("chosen", datasets, None, alpha))
        return ReleasedFile(tables, counts.claimed(claim), alpha)

    def weights_of_file(self, survey: Survey) -> Vector:
        """alpha (n,); a record without a value belongs to no pattern and counts as the others do on
        average."""
        targets = self._targets_of(_sensitive_numbers(survey))
        if not targets:
            raise Refused(
                "Record weights of a whole file need a sensitive number that an intruder is "
                'after; name it with `target`, such as target="income".'
            )
        frame = survey.frame([*self.known, *(t for t in targets if t not in self.known)])
        numbers = [pl.col(name).cast(pl.Float64).is_not_nan() for name in targets]
        present = frame.select(pl.all_horizontal(numbers).fill_null(False)).to_series()
        alpha = np.zeros(frame.height)
        alpha[present.to_numpy()] = self._of(frame.filter(present), targets)
        if not alpha.any():
            raise Refused("Every record weight is 0; use a larger radius, or raise c or g.")
        alpha[~present.to_numpy()] = alpha[present.to_numpy()].mean()
        return alpha

    def _of(self, frame: pl.DataFrame, targets: tuple[str, ...]) -> Vector:
        q = self.records_together
        if self.reference is None:
            return q_way_weights(
                frame, self.known, targets, self.radius, q, self.c, self.g,
                self.small_patterns, self.radius_kind,
            )  # fmt: skip
        if len(targets) > 1 or isinstance(self.radius, tuple):
            raise Refused("Weights against a reference are for one sensitive variable; name it.")
        return reference_risk_weights(
            frame, self.reference, self.known, targets[0], self.radius, q, self.c, self.g,
            self.radius_kind,
        )  # fmt: skip

    def _targets(self, fitter: Fitter) -> tuple[str, ...]:
        return self._targets_of(fitter.model.sensitive)

    def _targets_of(self, default: Sequence[str]) -> tuple[str, ...]:
        if self.target is None:
            return tuple(default)
        return (self.target,) if isinstance(self.target, str) else tuple(self.target)

    def __str__(self) -> str:
        known = ", ".join(self.known) or "no variable"
        return f"{type(self).__name__} (known: {known}; radius {self.radius})"


def _sensitive_numbers(survey: Survey) -> list[str]:
    """The numbers that are declared sensitive; without any, all numbers."""
    columns = [c for c in survey.codebook if c.type in ("integer", "continuous")]
    columns = [c for c in columns if c.role in ("sensitive", "public")]
    return [c.name for c in columns if c.role == "sensitive"] or [c.name for c in columns]


@dataclass(frozen=True)
class MarginalRisk(RiskWeights):
    """alpha_i = 1 - IR_i: a record's own risk (R eq. 3)."""

    c: Annotated[float, "Scale of the weights."] = 1.0
    g: Annotated[float, "Shift of the weights."] = 0.0

    @property
    def records_together(self) -> int:
        return 1


@dataclass(frozen=True)
class PairwiseRisk(RiskWeights):
    """alpha_i from the joint risk of i with each other record of its pattern (R eq. 6-9)."""

    c: Annotated[float, "Scale of the weights."] = 1.0
    g: Annotated[float, "Shift of the weights."] = 0.0

    @property
    def records_together(self) -> int:
        return 2


@dataclass(frozen=True)
class QWayRisk(RiskWeights):
    """alpha_i from the joint risk of groups of q records, at the cost of the pairwise weights."""

    q: Annotated[int, "Size of the groups."] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_together(self.q)

    @property
    def records_together(self) -> int:
        return self.q
