"""The API's bodies: what may be sent, and what comes back. Strict both ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from understudy.ledger.accounts import UserRole
from understudy.survey.codebook import Codebook, Column
from understudy.verify.planner import Plan
from understudy.verify.question_fields import Level

LastDay = Annotated[str, Field(max_length=10, examples=["2027-06-30"])]
Epsilon = Annotated[str, Field(min_length=1, max_length=12, examples=["0.25"])]


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Failure(Body):
    """Whatever went wrong, in one sentence."""

    error: str


class NewUser(Body):
    name: Annotated[str, Field(min_length=1, max_length=64)]
    role: UserRole = "analyst"
    epsilon: Epsilon | None = None


class Grant(Body):
    """Without a data set for all of them; `until` is its last day."""

    epsilon: Epsilon
    dataset: Annotated[str, Field(max_length=200)] = ""
    until: LastDay = ""


class NewProject(Body):
    title: Annotated[str, Field(min_length=1, max_length=100)]
    purpose: Annotated[str, Field(min_length=1, max_length=500)]


class NewRequest(Body):
    """What an analyst asks for, on a data set by its name."""

    dataset: Annotated[str, Field(min_length=1, max_length=200)]
    epsilon: Epsilon
    why: Annotated[str, Field(min_length=1, max_length=500)]
    until: LastDay = ""


class Decision(Body):
    """Of a steward; a reason is needed to decline."""

    approve: bool
    reason: Annotated[str, Field(max_length=500)] = ""


class ProjectRow(Body):
    number: int
    at: str
    owner: str
    title: str
    purpose: str


class RequestRow(Body):
    number: int
    at: str
    what: str
    by: str
    user: str
    dataset: str
    epsilon: str
    until: str
    project: str
    why: str
    approved: list[str]
    state: str
    reason: str


class ProjectsReply(Body):
    projects: list[ProjectRow]
    requests: list[RequestRow]


class Activity(Body):
    active: bool


class NewCode(Body):
    """With the code its owner picks up the key, once, on the page /pick-up."""

    name: str
    code: str


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


class ErrorRow(Body):
    """What an answer by influence would be worth at a price: `error` is that of the difference,
    `se` that of the corrected estimate."""

    epsilon: float
    statistic: str
    released: float
    sampling_se: float
    noise_se: float
    cut_se: float
    error: float
    se: float


class PlanReply(Body):
    """`rows` are about one number and empty for several; `errors` are error against epsilon for
    every number of an answer by influence."""

    measure: str
    estimate: float
    se: float
    tolerance: float
    rows: list[PlanRow]
    errors: list[ErrorRow] = []


class AccountRow(Body):
    name: str
    role: str
    active: bool
    allowed: str
    spent: str
    left: str


class GrantRow(Body):
    user: str
    dataset: str
    allowed: str
    spent: str
    left: str
    until: str


class CapRow(Body):
    name: str
    allowed: str
    spent: str
    left: str
    delta: str
    counted: str


class TotalRow(Body):
    user: str | None
    dataset: str
    epsilon: str
    entries: int


class TotalsReply(Body):
    users: list[AccountRow]
    grants: list[GrantRow]
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
    delta: str
    rho: str
    relation: str
    unit: str


def dataset_facts(name: str, title: str, left: str, codebook: Codebook) -> DatasetFacts:
    columns = [_column(column) for column in codebook]
    return DatasetFacts(name=name, title=title, left=left, columns=columns)


def _column(column: Column) -> ColumnFacts:
    levels = list(column.levels or ()) if column.declared("levels") else None
    return ColumnFacts(
        name=column.name, type=column.type, role=column.role, label=column.label, levels=levels
    )


def plan_reply(plan: Plan, errors: Sequence[Mapping[str, Any]], several: bool) -> PlanReply:
    rows = [] if several else [PlanRow(**row) for row in plan.table.to_dicts()]
    return PlanReply(
        measure=plan.measure,
        estimate=plan.estimate,
        se=plan.se,
        tolerance=plan.tolerance,
        rows=rows,
        errors=[ErrorRow(**row) for row in errors],
    )
