"""The API's bodies: what may be sent, and what comes back. Strict both ways."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from understudy.survey.codebook import Codebook, Column
from understudy.verify.answer import Answer
from understudy.verify.planner import Plan
from understudy.verify.posterior import DiscrepancyPosterior
from understudy.verify.query import Level, Query
from understudy.verify.service import Quote
from understudy.verify.words import CANNOT

Epsilon = Annotated[str, Field(min_length=1, max_length=12, examples=["0.25"])]


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Failure(Body):
    """Whatever went wrong, in one sentence."""

    error: str


class NewUser(Body):
    name: Annotated[str, Field(min_length=1, max_length=64)]
    role: Literal["analyst", "steward"] = "analyst"
    epsilon: Epsilon | None = None


class Grant(Body):
    epsilon: Epsilon


class Activity(Body):
    active: bool


class NewKey(Body):
    """The key is shown this once and stored nowhere."""

    name: str
    key: str


class Me(Body):
    name: str
    role: str
    left: str


class ColumnFacts(Body):
    name: str
    type: str
    role: str
    label: str
    levels: list[Level] | None


class DatasetFacts(Body):
    name: str
    title: str
    left: str
    columns: list[ColumnFacts]


class SyntheticResult(Body):
    estimate: float
    se: float | None


class PriceReply(Body):
    epsilon: str
    left: str
    left_for_dataset: str
    affordable: bool
    free: bool
    seconds: float
    synthetic: SyntheticResult
    tolerance: float


class PlanRow(Body):
    """An assumed confidential result, and what would be reported (see the planner)."""

    estimate: float
    se: float
    inside: bool
    median_low: float
    median_mid: float
    median_high: float
    noisy_mean: float
    noisy_sd: float
    says_inside: float
    says_right: float


class PlanReply(Body):
    measure: str
    estimate: float
    se: float
    tolerance: float
    rows: list[PlanRow]


class PosteriorReply(Body):
    """`estimate` and `probability_within` belong to the measure `discrepancy`."""

    median: float
    mean: float
    low: float
    high: float
    probability: float
    estimate: float | None = None
    probability_within: float | None = None
    near_clip: bool | None = None


class AnswerReply(Body):
    """A receipt: everything that is needed to compute the posterior again."""

    receipt: int
    at: str
    query: Query
    synthetic: SyntheticResult
    tolerance: float
    noisy: float
    relation: str
    posterior: PosteriorReply
    sentence: str
    cannot: str
    claim: str
    replayed: bool


class AccountRow(Body):
    name: str
    role: str
    active: bool
    allowed: str
    spent: str
    left: str


class CapRow(Body):
    name: str
    allowed: str
    spent: str
    left: str


class TotalRow(Body):
    user: str | None
    dataset: str
    epsilon: str
    entries: int


class TotalsReply(Body):
    users: list[AccountRow]
    datasets: list[CapRow]
    spending: list[TotalRow]


class LedgerLine(Body):
    number: int
    at: str
    kind: str
    user: str | None
    dataset: str | None
    epsilon: str
    refers: int | None


def dataset_facts(name: str, title: str, left: str, codebook: Codebook) -> DatasetFacts:
    columns = [_column(column) for column in codebook]
    return DatasetFacts(name=name, title=title, left=left, columns=columns)


def _column(column: Column) -> ColumnFacts:
    levels = list(column.levels or ()) if column.declared("levels") else None
    return ColumnFacts(
        name=column.name, type=column.type, role=column.role, label=column.label, levels=levels
    )


def price_reply(quote: Quote) -> PriceReply:
    found = quote.synthetic
    return PriceReply(
        epsilon=quote.epsilon,
        left=quote.left,
        left_for_dataset=quote.left_for_dataset,
        affordable=quote.affordable,
        free=quote.free,
        seconds=quote.seconds,
        synthetic=SyntheticResult(estimate=found.estimate, se=found.se),
        tolerance=quote.tolerance,
    )


def plan_reply(plan: Plan) -> PlanReply:
    rows = [PlanRow(**row) for row in plan.table.to_dicts()]
    return PlanReply(
        measure=plan.measure,
        estimate=plan.estimate,
        se=plan.se,
        tolerance=plan.tolerance,
        rows=rows,
    )


def answer_reply(answer: Answer) -> AnswerReply:
    posterior = answer.posterior
    low, high = posterior.interval(0.9)
    shown = PosteriorReply(
        median=posterior.median, mean=posterior.mean, low=low, high=high, probability=0.9
    )
    if isinstance(posterior, DiscrepancyPosterior):
        shown = shown.model_copy(
            update={
                "estimate": posterior.estimate,
                "probability_within": posterior.probability_within(),
                "near_clip": posterior.near_clip,
            }
        )
    found = answer.synthetic
    return AnswerReply(
        receipt=answer.number,
        at=answer.at.isoformat(),
        query=answer.query,
        synthetic=SyntheticResult(estimate=found.estimate, se=found.se),
        tolerance=answer.tolerance,
        noisy=float(answer.noisy),
        relation=answer.relation,
        posterior=shown,
        sentence=answer.sentence(),
        cannot=CANNOT[answer.query.measure],
        claim=str(answer.claim),
        replayed=answer.replayed,
    )
