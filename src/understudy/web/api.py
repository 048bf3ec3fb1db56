"""The analyst's API: price, plan, verify, history. Owners come from the key alone."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from starlette.concurrency import run_in_threadpool

from understudy.ledger.accounts import User
from understudy.verify.query import Query
from understudy.verify.service import FITTED, Service
from understudy.web.access import analyst, anyone
from understudy.web.schemas import (
    AnswerReply,
    DatasetFacts,
    Failure,
    Me,
    PlanReply,
    PriceReply,
    answer_reply,
    dataset_facts,
    plan_reply,
    price_reply,
)

VERSION = "/api/v1"
VERIFY = f"{VERSION}/verify"

_SENTENCES = {
    400: "The body is not JSON.",
    401: "The key is missing or not known.",
    402: "The budget does not allow this; nothing was spent.",
    403: "The role does not allow this.",
    404: "Nothing that the caller may see.",
    409: "The same question is being answered.",
    413: "The body is too large.",
    422: "The request is wrong; nothing was spent.",
    429: "Too many requests.",
    503: "No answer could be computed; its price is spent.",
}

Analyst = Annotated[User, Depends(analyst)]
Anyone = Annotated[User, Depends(anyone)]
Number = Annotated[int, Path(ge=1, le=2**53)]


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documented errors of a route, all of one shape."""
    every = (400, 401, 403, 413, 422, 429, *statuses)
    return {s: {"model": Failure, "description": _SENTENCES[s]} for s in sorted(every)}


router = APIRouter(prefix=VERSION, tags=["analyst"])


def service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


@router.get("/me", responses=failures())
def me(request: Request, user: Anyone) -> Me:
    """Who you are, and what is left of your budget."""
    return Me(name=user.name, role=user.role, left=service(request).left(user.name))


@router.get("/datasets", responses=failures())
def datasets(request: Request, _user: Anyone) -> list[DatasetFacts]:
    """The data sets and what their codebooks declare: all that a question may use."""
    serving = service(request)
    return [
        dataset_facts(name, served.title, serving.left_for(name), served.data.codebook)
        for name, served in serving.datasets.items()
    ]


@router.post("/price", responses=failures())
def price(request: Request, query: Query, user: Analyst) -> PriceReply:
    """The price of a question and what is left; asking this is free."""
    return price_reply(service(request).quote(user.name, query))


@router.post("/plan", responses=failures())
def plan(request: Request, query: Query, _user: Analyst) -> PlanReply:
    """What an answer could say, from public facts; free."""
    return plan_reply(service(request).plan(query))


@router.post("/verify", responses=failures(402, 409, 503))
async def verify(request: Request, query: Query, user: Analyst) -> AnswerReply:
    """Spend the question's epsilon and answer it; the same question again is free."""
    return await slotted_answer(request, query, user.name)


@router.get("/history", responses=failures())
def history(request: Request, user: Analyst) -> list[AnswerReply]:
    """Your own answers, newest first."""
    return [answer_reply(answer) for answer in service(request).history(user.name)]


@router.get("/answers/{number}", responses=failures(404))
def answer(request: Request, number: Number, user: Analyst) -> AnswerReply:
    """One of your own answers."""
    return answer_reply(service(request).answer(user.name, number))


async def slotted_answer(request: Request, query: Query, user: str) -> AnswerReply:
    """Check, wait for a place, spend, compute; the reply leaves when the slot ends."""
    serving = service(request)
    await run_in_threadpool(serving.prepare, query)
    state = request.app.state
    places = state.fitting if query.estimator in FITTED else state.places
    await request.state.turn.enter(serving.seconds(query), places)
    return await run_in_threadpool(lambda: answer_reply(serving.verify(user, query)))
