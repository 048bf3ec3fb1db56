"""What the analyst gets for a question: one type for the ledger, the API, the pages and files.

The ledger keeps the question and `facts`: the noisy number and what is public about it. All
else follows from these, at any later time and without the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    TypeAdapter,
    computed_field,
    field_serializer,
)

from understudy.claim import Claim
from understudy.errors import Refused
from understudy.influence import UnitRelation
from understudy.ledger.epsilon import exact_epsilon
from understudy.ledger.ledger import StoredAnswer
from understudy.verify.catalogue import Catalogue
from understudy.verify.measure import AnswerPosterior, QuestionTerms
from understudy.verify.measures.agreement import AgreementPosterior
from understudy.verify.query import Query
from understudy.verify.released import Synthetic
from understudy.verify.several import NumberAnswer, answered_numbers, headline, sentence

CONDITIONS = (
    "A record's weight and other columns do not change when another unit is added, removed or "
    "changed; weights calibrated over the whole file break this.",
    "The synthetic estimate and the codebook are public; the claim is about what the answer adds.",
    "Epsilons of different answers on the same data add up.",
)
SHOWN = 0.9  # probability of the interval on a receipt


class PosteriorSummary(BaseModel):
    """`estimate`, `probability_within` and `near_clip` belong to measures of a difference;
    a measure can add numbers of its own."""

    model_config = ConfigDict(frozen=True, extra="allow")

    median: float
    mean: float
    low: float
    high: float
    probability: float
    estimate: float | None = None
    probability_within: float | None = None
    near_clip: bool | None = None


class Receipt(BaseModel):
    """An answer. Everything but `noisy` is public or derived from it."""

    model_config = ConfigDict(frozen=True, extra="forbid", serialize_by_alias=True)

    number: int = Field(serialization_alias="receipt")  # of the user's own payments
    at: datetime
    query: SerializeAsAny[Query]
    synthetic: Synthetic
    noisy: float | tuple[float, ...]
    relation: UnitRelation
    replayed: bool = False

    @classmethod
    def from_ledger(
        cls, stored: StoredAnswer, catalogue: Catalogue, replayed: bool = False
    ) -> Receipt:
        """An answer that was paid for, for a replay or the history."""
        facts = stored.body
        return cls(
            number=stored.number,
            at=stored.at,
            query=catalogue.read(dict(stored.question)),
            synthetic=TypeAdapter(Synthetic).validate_python(facts["synthetic"]),
            noisy=facts["noisy"],
            relation=facts["relation"],
            replayed=replayed,
        )

    def facts(self) -> Mapping[str, Any]:
        """What the ledger keeps beside the question."""
        whole = self.model_dump(mode="json", include={"noisy", "relation", "synthetic"})
        return {name: whole[name] for name in ("noisy", "relation", "synthetic")}

    @property
    def terms(self) -> QuestionTerms:
        synthetic = self.synthetic
        return self.query.terms(synthetic.estimate, synthetic.se, synthetic.influence)

    @cached_property
    def belief(self) -> AnswerPosterior:
        """The posterior of what the measure is about; of several numbers, of the first."""
        noisy = self.noisy[0] if isinstance(self.noisy, tuple) else self.noisy
        return self.query.measured_by.posterior(self.terms, noisy)

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def numbers(self) -> tuple[NumberAnswer, ...]:
        """One row for each number of a question about several; empty for one."""
        if not isinstance(self.noisy, tuple):
            return ()
        return answered_numbers(self.query, self.synthetic.every, self.noisy)

    def draws(self, count: int) -> list[float]:
        """Draws of the posterior of an answer by agreement (V §3.1)."""
        if not isinstance(self.belief, AgreementPosterior):
            raise Refused(
                "Draws are those of the chance that `agreement` is about; this answer states its "
                "posterior by its interval."
            )
        return [float(r) for r in self.belief.draws(count)]

    @property
    def promise(self) -> Claim:
        by = "keyed hash of the unit" if self.query.partitioning == "hash" else "equal shuffle"
        how = f"{self.query.count} partitions ({by})"
        if not self.query.measured_by.divides:
            how = "one sum of clipped influences"
            if isinstance(self.noisy, tuple):
                how = f"{len(self.noisy)} sums of influences, clipped together"
        delta = self.query.delta
        return Claim(
            "formal",
            float(exact_epsilon(self.query.micro)),
            delta=float(delta) if delta else 0.0,
            relation=self.relation,
            conditions=CONDITIONS,
            mechanism=f"verification by {self.query.measure}, {how}",
        )

    @property
    def headline(self) -> str:
        return headline(self.numbers) or self.query.measured_by.headline(self.belief)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tolerance(self) -> float | None:
        """Half the width of the tolerance interval for the whole file; several numbers have their
        own."""
        return None if self.numbers else self.terms.tolerance

    @computed_field  # type: ignore[prop-decorator]
    @property
    def posterior(self) -> PosteriorSummary | None:
        if self.numbers:
            return None
        low, high = self.belief.interval(SHOWN)
        numbers: dict[str, Any] = dict(self.query.measured_by.facts(self.belief))
        return PosteriorSummary(
            median=self.belief.median,
            mean=self.belief.mean,
            low=low,
            high=high,
            probability=SHOWN,
            **numbers,
        )

    @computed_field  # type: ignore[prop-decorator]
    @property
    def sentence(self) -> str:
        """The answer in words, with what it cannot say."""
        return sentence(self.numbers) or self.query.measured_by.sentence(self.terms, self.belief)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def cannot(self) -> str:
        return self.query.measured_by.cannot

    @computed_field  # type: ignore[prop-decorator]
    @property
    def claim(self) -> str:
        return str(self.promise)

    @field_serializer("at")
    def _at(self, at: datetime) -> str:
        return at.isoformat()
