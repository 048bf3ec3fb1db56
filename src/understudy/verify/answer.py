"""From a question to a receipt: validate, spend, and only then touch the data.

    check by the codebook -> synthetic estimate from public files -> reserve -> new key ->
    partitions -> one bounded number each -> sum + noise -> store -> receipt

Everything before `reserve` sees public facts only and costs nothing. Everything after it is
paid, whatever happens. The numbers of the partitions live in three lines of `noisy_number`
and are neither stored nor logged (threat 17).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from understudy.errors import Refused, UnknownName
from understudy.influence import InfluencePlan, UnitRelation, influence_pass
from understudy.ledger.ledger import Ledger, Reservation, StoredAnswer
from understudy.tables.influence.unit_sums import steps_of
from understudy.tables.units import Unit
from understudy.verify.caller import Caller, CallerLeft
from understudy.verify.confidential import WEIGHT, ConfidentialData
from understudy.verify.influence_figures import figures_of
from understudy.verify.measure import Floats, QuestionTerms, Steps
from understudy.verify.mistakes import InvalidQuery, say
from understudy.verify.noise import SAMPLERS
from understudy.verify.partition_pass import assign_partitions, partition_estimates
from understudy.verify.partitions import UNIT_NUMBER
from understudy.verify.query import Query, check_query, scale_mistakes
from understudy.verify.receipt import Receipt
from understudy.verify.released import ReleasedEstimates, Synthetic, several_of


class AnswerFailed(Refused):
    """The computation broke; one shape for every cause, and the epsilon stays spent."""

    def __init__(self) -> None:
        super().__init__(
            "The answer could not be computed, and its epsilon is spent. Please tell the steward."
        )


@dataclass(frozen=True)
class CheckedQuery:
    """A question that can be answered, with the synthetic estimate that it is about."""

    query: Query
    synthetic: Synthetic
    plan: InfluencePlan | None = None  # where the measure does not divide the file
    data: ConfidentialData | None = None  # as it was served when the question was checked

    @property
    def terms(self) -> QuestionTerms:
        """Of the question, or of its first number."""
        synthetic = self.synthetic
        return self.query.terms(synthetic.estimate, synthetic.se, synthetic.influence)


def check_question(
    query: Query, data: ConfidentialData, released: ReleasedEstimates | None = None
) -> CheckedQuery:
    """All checks of a query, from public facts.

    `released` computes the synthetic estimate from the released files when the query does
    not give it.
    """
    if query.dataset != data.name:
        raise UnknownName("data set", query.dataset, [data.name])
    check_query(query, data.codebook)
    data.refuse_on_cluster(query)
    if data.nonresponse is not None and not query.measured_by.divides:
        message = (
            "Weights of this data set are adjusted in each part of the file; ask by `discrepancy`."
        )
        raise InvalidQuery([say("measure", message)])
    if query.estimate is not None:
        return CheckedQuery(query, Synthetic(query.estimate, query.se))
    if released is None:
        raise Refused("Give the synthetic `estimate` and `se`; this server has no released files.")
    plan = None
    if not query.measured_by.divides:
        plan = released.influence_plan(query, *public_units(data))
    if plan is not None and query.several:
        synthetic = several_of(plan)
    else:
        synthetic = released(query)
        if plan is not None:
            synthetic = replace(synthetic, influence=figures_of(plan))
    for number in synthetic.every:
        mistakes = scale_mistakes(query, number.estimate, number.se, number.influence)
        if mistakes:
            raise InvalidQuery(mistakes)
    return CheckedQuery(query, synthetic, plan)


def public_units(data: ConfidentialData) -> tuple[UnitRelation, Unit | None, int | None]:
    """Relation, unit with its declared limit, and number of units of an answer by influence.

    Noise for `replace` is enough for `add-remove` too: the ledger counts both where there is a
    unit, and then the number of units is not public. Nor is that of the units of a domain.
    """
    if data.unit is None:
        return "replace", None, data.units if data.where is None else None
    return "replace", Unit(data.unit, data.codebook.records_per_unit), None


def answer_question(
    question: CheckedQuery,
    data: ConfidentialData,
    ledger: Ledger,
    user: str,
    *,
    hold_seconds: float = 0.0,
    caller: Caller | None = None,
) -> Receipt:
    """Answer a question at its price; the same question again is free.

    `hold_seconds` is the reply slot of the server (see `Ledger.reserve`). Refusals before the
    reservation cost nothing; AnswerFailed comes after it, also where the `caller` has left.
    """
    query = question.query
    paid = ledger.reserve(user, data.fingerprint, query, hold_seconds, data.cost(query))
    if isinstance(paid, StoredAnswer):
        return Receipt.from_ledger(paid, query.catalogue, replayed=True)
    receipt = _paid_receipt(question, data, ledger, paid, caller)
    if receipt is None:
        # Raised here, not where it broke: the cause and its frames hold records.
        raise CallerLeft if caller is not None and caller.gone else AnswerFailed
    return receipt


def answer_query(
    query: Query,
    data: ConfidentialData,
    ledger: Ledger,
    user: str,
    released: ReleasedEstimates | None = None,
) -> Receipt:
    """Check and answer in one call."""
    return answer_question(check_question(query, data, released), data, ledger, user)


def _paid_receipt(
    question: CheckedQuery,
    data: ConfidentialData,
    ledger: Ledger,
    reservation: Reservation,
    caller: Caller | None,
) -> Receipt | None:
    query = question.query
    try:
        receipt = Receipt(
            number=reservation.own,
            at=reservation.at,
            query=query,
            synthetic=question.synthetic,
            noisy=noisy_number(question, data, caller),
            relation=_relation(query, data),
        )
        if caller is not None:
            caller.wait()
        ledger.release(reservation, receipt.facts())
    except Exception:
        with suppress(Exception):
            ledger.fail(reservation)
        return None
    return receipt


def noisy_number(
    question: CheckedQuery, data: ConfidentialData, caller: Caller | None = None
) -> float | tuple[float, ...]:
    """The only function that turns records into something that leaves."""
    query, synthetic = question.query, question.synthetic
    if question.plan is not None:
        numbers = influence_numbers(query, question.plan, data)
        return numbers if query.several else numbers[0]
    size = max(abs(synthetic.estimate), synthetic.se or 0.0) or 1.0
    table, factor = assign_partitions(data, query)
    estimates = partition_estimates(data, query, table, factor, size, caller)
    return noisy_sum(query, int(bounded_numbers(question, estimates).sum()))


def influence_numbers(
    query: Query, plan: InfluencePlan, data: ConfidentialData
) -> tuple[float, ...]:
    """Sums of clipped influences with noise: one pass, no fits (docs/proofs/influence.md)."""
    table, unit = data.records, None if data.single_records else UNIT_NUMBER
    made = data.run(influence_pass(plan.prepared, table, table[WEIGHT], unit)).to_pylist()[0]
    sums = steps_of(made, len(plan.prepared.estimates))
    if len(sums) == 1 and query.delta is None:
        return (float(SAMPLERS[query.noise](plan.unit_moves, query.micro, None)(sums.tolist())[0]),)
    return tuple(float(number) for number in plan.noise.add(sums, plan.unit_moves))


def _relation(query: Query, data: ConfidentialData) -> UnitRelation:
    divided = query.measured_by.divides and query.partitioning != "hash"
    return "replace" if divided else data.relation


def bounded_numbers(question: CheckedQuery, estimates: Floats) -> Steps:
    """One whole number per partition, inside the measure's bounds whatever it computed."""
    measure = question.query.measured_by
    numbers = np.asarray(measure.numbers(question.terms, estimates), dtype=np.int64)
    if numbers.shape != (question.query.count,):
        raise ValueError("a measure gives one number per partition")
    return np.clip(numbers, *measure.bounds)


def noisy_sum(query: Query, total: int) -> float:
    """The sum with noise for the measure's sensitivity, at the question's price."""
    measure, count = query.measured_by, query.count
    low, high = measure.bounds
    held = (count * low, count * high) if measure.held else None
    draw = SAMPLERS[query.noise](measure.sensitivity(), query.micro, held)
    return float(draw([total])[0])
