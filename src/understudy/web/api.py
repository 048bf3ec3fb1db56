"""The analyst's API: price, plan, verify, history. Owners come from the key alone."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from fastapi import Query as Bound
from starlette.concurrency import run_in_threadpool

from understudy.ledger.accounts import User
from understudy.verify.query import Query
from understudy.verify.receipt import Receipt
from understudy.verify.service import Quote, Service
from understudy.web.access import analyst, anyone, still_allowed
from understudy.web.bounded_work import BoundedWork
from understudy.web.question_body import QUESTION, asked_question
from understudy.web.schemas import DatasetFacts, Failure, Me, PlanReply, dataset_facts, plan_reply

VERSION = "/api/v1"
VERIFY = f"{VERSION}/verify"
FREE = (f"{VERSION}/price", f"{VERSION}/plan")
HISTORY = 20  # answers of a page: each takes a posterior

_SENTENCES = {
    400: "The body is not JSON.",
    401: "The key is missing or not known.",
    402: "The budget does not allow this; nothing was spent.",
    403: "The role does not allow this.",
    404: "Nothing that the caller may see.",
    408: "The caller left.",
    409: "The same question is being answered.",
    413: "The body is too large.",
    422: "The request is wrong; nothing was spent.",
    429: "Too many requests.",
    503: "No answer could be computed; its price is spent.",
}

Analyst = Annotated[User, Depends(analyst)]
Anyone = Annotated[User, Depends(anyone)]
Asked = Annotated[Query, Depends(asked_question)]
PathNumber = Annotated[int, Path(ge=1, le=2**53)]
Before = Annotated[int | None, Bound(ge=1, le=2**53)]


def failures(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documented errors of a route, all of one shape."""
    every = (400, 401, 403, 413, 422, 429, *statuses)
    return {s: {"model": Failure, "description": _SENTENCES[s]} for s in sorted(every)}


router = APIRouter(prefix=VERSION, tags=["analyst"])


def service(request: Request) -> Service:
    serving: Service = request.app.state.service
    return serving


def free_work(request: Request) -> BoundedWork:
    work: BoundedWork = request.app.state.free_work
    return work


@router.get("/me", responses=failures())
def me(request: Request, user: Anyone) -> Me:
    """Who you are, and what is left of your budget."""
    return Me(name=user.name, role=user.role, left=service(request).left(user.name))


@router.get("/datasets", responses=failures())
def datasets(request: Request, user: Analyst) -> list[DatasetFacts]:
    """The data sets that were granted to you and what their codebooks declare: all that a question
    may use."""
    serving = service(request)
    return [
        dataset_facts(name, served.title, serving.left(user.name, name), served.data.codebook)
        for name, served in serving.granted(user.name).items()
    ]


@router.post("/price", responses=failures(), openapi_extra=QUESTION)
async def price(request: Request, user: Analyst, query: Asked) -> Quote:
    """The price of a question and what is left; asking this is free."""
    serving = service(request)

    def quote() -> Quote:
        return serving.quote(user.name, serving.check(query, user.name))

    return await free_work(request).run(user.name, quote)


@router.post("/plan", responses=failures(), openapi_extra=QUESTION)
async def plan(request: Request, user: Analyst, query: Asked) -> PlanReply:
    """What an answer could say, from public facts; free."""
    serving = service(request)

    def planned() -> PlanReply:
        question = serving.check(query, user.name)
        return plan_reply(serving.plan(question), serving.errors(question), query.several)

    return await free_work(request).run(user.name, planned)


@router.post("/verify", responses=failures(402, 408, 409, 503), openapi_extra=QUESTION)
async def verify(request: Request, user: Analyst, query: Asked) -> Receipt:
    """Spend the question's epsilon and answer it; the same question again is free."""
    return await slotted_answer(request, query, user.name)


@router.get("/history", responses=failures())
async def history(
    request: Request,
    user: Analyst,
    before: Before = None,
    count: Annotated[int, Bound(ge=1, le=100)] = HISTORY,
) -> list[Receipt]:
    """Your own answers, newest first, a page at a time; `before` is a receipt's number."""
    serving = service(request)
    return await free_work(request).run(user.name, serving.history, user.name, before, count)


@router.get("/answers/{number}", responses=failures(404))
def answer(request: Request, number: PathNumber, user: Analyst) -> Receipt:
    """One of your own answers."""
    return service(request).receipt(user.name, number)


@router.get("/answers/{number}/draws", responses=failures(404))
async def draws(
    request: Request,
    number: PathNumber,
    user: Analyst,
    count: Annotated[int, Bound(ge=1, le=10_000)] = 1000,
) -> list[float]:
    """Draws of the posterior of one of your answers by agreement; free."""
    receipt = service(request).receipt
    drawn = free_work(request).run
    return await drawn(user.name, lambda: receipt(user.name, number).draws(count))


async def slotted_answer(request: Request, query: Query, user: str) -> Receipt:
    """Check, look up, wait for a place, spend, compute; the reply leaves when the slot ends."""
    serving = service(request)
    question = await free_work(request).run(user, serving.check, query, user)
    known = await run_in_threadpool(serving.settled, user, question)
    if known is not None:
        return known
    state = request.app.state
    fitted, turn = serving.fitted(query), request.state.turn
    places = state.fitting if fitted else state.places
    await turn.enter(serving.seconds(query), places, user, request.receive)
    await run_in_threadpool(still_allowed, request)
    if not fitted:
        return await run_in_threadpool(serving.verify, user, question)
    async with turn.listening(request.receive) as caller:
        return await run_in_threadpool(serving.verify, user, question, caller)
