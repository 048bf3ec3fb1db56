"""From a question to an answer: validate, spend, and only then touch the data.

    check by the codebook -> synthetic estimate from public files -> reserve -> new key ->
    partitions -> one bounded number each -> sum + noise -> store -> answer

Everything before `reserve` sees public facts only and costs nothing. Everything after it is
paid, whatever happens. The count S, the flags A_k and the steps D_k live in two lines of
`_noisy_number` and are neither stored nor logged (threat 17).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from understudy.claim import Claim
from understudy.errors import Refused, UnknownName
from understudy.ledger.epsilon import exact_epsilon
from understudy.ledger.ledger import Ledger, Reservation, StoredAnswer
from understudy.verify.confidential import ConfidentialData, Relation
from understudy.verify.estimators import assign_partitions, partition_estimates
from understudy.verify.measures import agreement_flags, discrepancy_steps
from understudy.verify.mistakes import InvalidQuery
from understudy.verify.noise import geometric_count, geometric_sum, laplace_count
from understudy.verify.numbers import chance, short
from understudy.verify.posterior import (
    AgreementPosterior,
    DiscrepancyPosterior,
    agreement_posterior,
    discrepancy_posterior,
)
from understudy.verify.query import (
    Query,
    check_query,
    clip_bound,
    read_query,
    scale_mistakes,
    tolerance_width,
)


class AnswerFailed(Refused):
    """The computation broke; one shape for every cause, and the epsilon stays spent."""

    def __init__(self) -> None:
        super().__init__(
            "The answer could not be computed; what it costs is spent. Tell the steward."
        )


@dataclass(frozen=True)
class Synthetic:
    """The estimate from the released files; `se` may be missing where no step needs it."""

    estimate: float
    se: float | None = None


Released = Callable[[Query], Synthetic]


@dataclass(frozen=True)
class Answer:
    """What the analyst gets. Everything but `noisy` is public or derived from it."""

    number: int  # of the ledger entry that paid for it: the receipt
    at: datetime
    query: Query
    synthetic: Synthetic
    noisy: float
    relation: Relation
    replayed: bool = False

    @property
    def tolerance(self) -> float:
        """Half the width of the tolerance interval for the whole file."""
        return tolerance_width(self.query, self.synthetic.estimate, self.synthetic.se)

    @cached_property
    def posterior(self) -> AgreementPosterior | DiscrepancyPosterior:
        epsilon, count = float(exact_epsilon(self.query.micro)), self.query.count
        if self.query.measure == "agreement":
            return agreement_posterior(self.noisy, count, epsilon, self.query.noise)
        bound = clip_bound(self.query, self.synthetic.se or 0.0)
        return discrepancy_posterior(int(self.noisy), count, epsilon, bound, self.tolerance)

    @property
    def claim(self) -> Claim:
        by = "keyed hash of the unit" if self.query.partitioning == "hash" else "equal shuffle"
        return Claim(
            "formal",
            float(exact_epsilon(self.query.micro)),
            relation=self.relation,
            conditions=CONDITIONS,
            mechanism=f"verification by {self.query.measure}, {self.query.count} partitions ({by})",
        )

    def sentence(self) -> str:
        """The answer in words, with what it cannot say."""
        posterior = self.posterior
        low, high = posterior.interval(0.9)
        if isinstance(posterior, AgreementPosterior):
            return (
                f"The chance that a part of the confidential file gives an estimate inside the "
                f"interval is about {posterior.median:.2f} (90 % from {low:.2f} to {high:.2f}). "
                "This speaks of parts of the file; it hardly tells whether the estimate of the "
                "whole file is inside your tolerance."
            )
        text = (
            f"The confidential estimate differs from the synthetic one by about "
            f"{short(posterior.estimate)} (90 % from {short(low)} to {short(high)}); the "
            f"probability that it is within your tolerance of {short(self.tolerance)} is "
            f"{chance(posterior.probability_within())}."
        )
        if posterior.near_clip:
            text += " The answer is near the end of its range: the difference may be larger."
        return text

    def to_dict(self) -> dict[str, Any]:
        """A receipt: all that is needed to compute the posterior again."""
        return {
            "receipt": self.number,
            "at": self.at.isoformat(),
            "query": self.query.model_dump(mode="json"),
            "synthetic": {"estimate": self.synthetic.estimate, "se": self.synthetic.se},
            "noisy": self.noisy,
            "relation": self.relation,
            "sentence": self.sentence(),
            "claim": str(self.claim),
            "replayed": self.replayed,
        }


CONDITIONS = (
    "A record's weight and other columns do not change when another unit is added, removed or "
    "changed; weights calibrated over the whole file break this.",
    "The synthetic estimate and the codebook are public; the claim is about what the answer adds.",
    "Epsilons of different answers on the same data add up.",
)


def answer_query(
    query: Query,
    data: ConfidentialData,
    ledger: Ledger,
    user: str,
    *,
    released: Released | None = None,
    hold_seconds: float = 0.0,
) -> Answer:
    """Answer a query at its price; the same question again is free.

    `released` computes the synthetic estimate from the released files when the query does
    not give it. `hold_seconds` is the reply slot of the server (see `Ledger.reserve`).
    Refusals before the reservation cost nothing; AnswerFailed comes after it.
    """
    synthetic = prepare(query, data, released)
    paid = ledger.stored(user, data.fingerprint, query) or ledger.reserve(
        user, data.fingerprint, query, hold_seconds
    )
    if isinstance(paid, StoredAnswer):
        return stored_answer(paid, replayed=True)
    noisy = _paid_number(query, data, ledger, paid, synthetic)
    if noisy is None:
        # Raised here, not where it broke: the cause and its frames hold records.
        raise AnswerFailed
    return Answer(paid.number, paid.at, query, synthetic, noisy, _relation(query, data))


def prepare(query: Query, data: ConfidentialData, released: Released | None) -> Synthetic:
    """All checks of a query, from public facts; the synthetic estimate that it is about."""
    if query.dataset != data.name:
        raise UnknownName("data set", query.dataset, [data.name])
    check_query(query, data.codebook)
    if query.estimate is not None:
        return Synthetic(query.estimate, query.se)
    if released is None:
        raise Refused("Give the synthetic `estimate` and `se`; this server has no released files.")
    synthetic = released(query)
    mistakes = scale_mistakes(query, synthetic.estimate, synthetic.se)
    if mistakes:
        raise InvalidQuery(mistakes)
    return synthetic


def stored_answer(stored: StoredAnswer, replayed: bool = False) -> Answer:
    """An answer from the ledger, for a replay or the history."""
    body = stored.body
    return Answer(
        number=stored.number,
        at=stored.at,
        query=read_query(dict(stored.question)),
        synthetic=Synthetic(**body["synthetic"]),
        noisy=body["noisy"],
        relation=body["relation"],
        replayed=replayed,
    )


def _paid_number(
    query: Query,
    data: ConfidentialData,
    ledger: Ledger,
    reservation: Reservation,
    synthetic: Synthetic,
) -> float | None:
    try:
        noisy = _noisy_number(query, data, synthetic)
        ledger.release(reservation, _body(query, data, synthetic, noisy))
    except Exception:
        with suppress(Exception):
            ledger.fail(reservation)
        return None
    return noisy


def _noisy_number(query: Query, data: ConfidentialData, synthetic: Synthetic) -> float:
    """The only function that turns records into something that leaves."""
    centre, se = synthetic.estimate, synthetic.se
    size = max(abs(centre), se or 0.0) or 1.0
    table, factor = assign_partitions(data, query)
    estimates = partition_estimates(data, query, table, factor, size)
    if query.measure == "discrepancy":
        bound = clip_bound(query, se or 0.0)
        return geometric_sum(int(discrepancy_steps(estimates, centre, bound).sum()), query.micro)
    gamma = math.sqrt(query.count) if query.tolerance.interval == "adjusted" else 1.0
    half_width = gamma * tolerance_width(query, centre, se)
    count = int(agreement_flags(estimates, centre, half_width).sum())
    if query.noise == "laplace":
        return laplace_count(count, query.micro)
    return geometric_count(count, query.count, query.micro)


def _body(
    query: Query, data: ConfidentialData, synthetic: Synthetic, noisy: float
) -> Mapping[str, Any]:
    return {
        "noisy": noisy,
        "relation": _relation(query, data),
        "synthetic": {"estimate": synthetic.estimate, "se": synthetic.se},
    }


def _relation(query: Query, data: ConfidentialData) -> Relation:
    return data.relation if query.partitioning == "hash" else "replace"
